"""Six cards that lead through the pages: the query, how it is answered, and why training for it helps."""

from collections.abc import Callable

import panel_material_ui as pmui

from qtcore_app.cards import sentences

CARDS = (
    (
        "faces",
        "One model, any question",
        r"A query says which variables are seen. The answer is a marginal for each of the others, "
        r"$p(v_i \mid v_{\mathrm{seen}}) = \sum_{\text{all other } v} \sum_h p(v, h \mid v_{\mathrm{seen}})$, a sum with far "
        r"too many terms. Here four fifths of a face are hidden; paint, and every mask is another query to the same model.",
    ),
    (
        "lab",
        "Messages instead of sums",
        r"In belief propagation each variable tells each neighbour what it believes without that neighbour: "
        r"$m_{i \to j} = f_{w_{ij}}\big(b_i + \sum_{k \ne j} m_{k \to i}\big)$. On a tree this gives the exact marginals. On a "
        r"loop a message comes back and is counted twice: make the couplings stronger and see the beliefs go wrong.",
    ),
    (
        "digits",
        "Iterations become layers",
        r"$N$ updates of the messages, $m^{(n+1)} = F_\theta(m^{(n)}, \text{data}, \text{mask})$, are a network of $N$ layers "
        r"that share their weights $\theta$: the couplings and biases. The last layer gives the marginals, "
        r"$p_i = \sigma(b_i + \sum_k m^{(N)}_{k \to i})$. Watch the ten layers; go back with the slider.",
    ),
    (
        "contours",
        "Trained for its queries",
        r"Query training draws an example $v$ and a random mask, and lowers $-\sum_{i\ \mathrm{asked}} \log p_i(v_i)$ by the "
        r"gradient through all layers. The result can be a worse model of the data, but its marginals after these $N$ "
        r"layers are better. This one was trained to complete contours: it closes the gap of the circle, and finds its inside.",
    ),
    (
        "yourdata",
        "Any table",
        r"What holds for pixels holds for columns: each becomes a variable, a gap is a variable that nobody saw, and one "
        r"training serves every question, $p(\mathrm{income} \mid \mathrm{age})$ as well as "
        r"$p(\mathrm{age} \mid \mathrm{income})$. Bring a table of your own, or take the example: it is trained in less than a "
        r"minute, and then asked.",
    ),
    (
        "results",
        "How well it works",
        r"On the test data the score is $\mathrm{NCE} = -\tfrac1n \sum_{i\ \mathrm{asked}} \log_2 p_i(v_i)$, in bits per "
        r"variable: lower is better. The tables show the paper's figures next to ours, and what other ways of training "
        r"(PCD, AdVIL) give with the same belief propagation.",
    ),
)
"""(page, title, sentences)"""

INSIDE = {"padding": "8px 16px", "boxSizing": "border-box"}


class Tour:
    """A card above the page, so that it covers nothing of what it speaks of. `turn` shows a page by its name."""

    def __init__(self, turn: Callable[[str], None]) -> None:
        self._turn = turn
        self._acts: dict[str, Callable[[], None]] = {}
        self._step = 0
        self._back = pmui.Button(label="Back", size="small", variant="text", on_click=lambda event: self._show(self._step - 1))
        self._next = pmui.Button(label="Next", size="small", on_click=lambda event: self._show(self._step + 1))
        self._end = pmui.Button(label="End the tour", size="small", variant="text", on_click=lambda event: self._close())
        self._title = pmui.Typography("", variant="h6", margin=(0, 0, 4, 0))
        self._text = sentences("", margin=0)
        self.card = pmui.Paper(visible=False, elevation=8, sizing_mode="stretch_width", sx=INSIDE, margin=0)

    def drives(self, page: str, act: Callable[[], None]) -> None:
        """Call this when the card of a page is shown: it selects something and plays it."""
        self._acts[page] = act

    def start(self) -> None:
        """Show the first card."""
        self._show(0)

    def _show(self, step: int) -> None:
        """Go to a card and its page; beyond the last one the tour ends."""
        if not 0 <= step < len(CARDS):
            self._close()
            return
        self._step = step
        page, title, text = CARDS[step]
        self._turn(page)
        self._back.disabled = step == 0
        self._next.label = "Next" if step + 1 < len(CARDS) else "Done"
        self._title.object = f"{step + 1} of {len(CARDS)}: {title}"
        self._text.object = text
        if not len(self.card):  # made on first use, so that the app opens fast; with its words, since a browser that is
            # still making a component does not hear of changes to it
            row = pmui.Row(self._back, self._next, self._end, margin=(4, 0, 0, -8))
            self.card[:] = [self._title, self._text, row]
        self.card.visible = True
        if page in self._acts:
            self._acts[page]()

    def _close(self) -> None:
        self.card.visible = False
