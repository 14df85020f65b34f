"""The app: what `qtcore app`, `make app` and `panel serve app/` serve, at http://localhost:5006."""

import panel as pn
from qtcore_app import sessions
from qtcore_app.shell import Shell, guarded, refusal

pn.extension("katex")

context = pn.state.curdoc.session_context if pn.state.curdoc else None
if sessions.admitted(context.id if context else None):
    query = pn.state.location.search if pn.state.location else ""
    guarded(lambda: Shell(query or "").view()).servable(title="qtcore")
else:
    refusal().servable(title="qtcore")
