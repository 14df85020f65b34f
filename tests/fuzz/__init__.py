"""Odd inputs, drawn without end: every one has an answer that makes sense, or a named error of one sentence.

`make test` draws a small share of them, the same ones each time. `make fuzz MINUTES=10` draws others for as long as it is told
and says how many; what failed is in `fuzz-failures/`, and the next run begins with it.
"""
