"""What the page draws of a lab, as plain numbers."""

from typing import Any

import numpy as np
import torch

from qtcore.inference.bp.binary import transfer
from qtcore_app.lab import exercises
from qtcore_app.lab.graphs import Lab
from qtcore_app.lab.inference import (
    CERTAIN,
    CURVE_POINTS,
    CURVE_REACH,
    bethe_log_z,
    by_hand,
    exact_answers,
    layers,
    updates,
    verdicts,
)


def curves(w: float, T: float) -> dict[str, list[float]]:
    """The transfer function of a coupling at T, at 0 and at 1."""
    x = torch.linspace(-CURVE_REACH, CURVE_REACH, CURVE_POINTS, dtype=torch.float64)
    weight = torch.tensor(w, dtype=torch.float64)
    return {"x": _short(x)} | {name: _short(transfer(x, weight, t)) for name, t in (("now", T), ("zero", 0.0), ("one", 1.0))}


def picture(lab: Lab) -> dict[str, Any]:
    """Everything that the page draws."""
    trained, hand = bool(lab.shown and lab.trained), lab.hand >= 0
    run = by_hand(lab, trained) if hand else layers(lab, trained)
    due = updates(lab, run.messages, trained)
    true = exact_answers(lab, 1.0 if trained else lab.temperature)
    shown = exact_answers(lab, 1.0, trained) if trained else true
    return {
        **_graph(lab, trained),
        "hand": lab.hand,
        "sent": lab.sent,
        "schedule": lab.schedule,
        "shown": int(trained),
        "messages": _short(run.messages),
        "beliefs": _short(run.beliefs),
        "exact": _short(true.marginals),
        "residual": [float(f"{value:.3g}") for value in run.residual],
        "verdicts": [tuple(entry) for entry in verdicts(run, hand)],
        "cavity": _short(due.cavity.clip(-CERTAIN, CERTAIN)),
        "fresh": _short(due.fresh),
        "curves": curves(lab.numbers(lab.factor, trained)[0] if lab.factor >= 0 else 0.0, lab.temperature),
        "log_z": _short(shown.log_z),
        "bethe": _short(bethe_log_z(lab, run.messages, trained)) if lab.temperature == 1 else None,
        "exercise": exercises.shown(lab),
    }


def _graph(lab: Lab, trained: bool) -> dict[str, Any]:
    """The graph, its numbers, and what is selected."""
    graph = lab.graph
    factors = range(len(graph.factors))
    return {
        "graph": graph.key,
        "names": graph.names,
        "places": graph.places,
        "factors": graph.factors,
        "visible": graph.n_visible,
        "evidence": lab.evidence,
        "numbers": [_short(lab.numbers(f, trained)) for f in factors],
        "biases": _short(lab.parameters(trained)[1]),
        "set": {
            "couplings": [lab.couplings[graph.first(f)] for f in factors],
            "biases": lab.biases,
            "strength": lab.strength,
            "temperature": lab.temperature,
            "damping": lab.damping,
            "layers": lab.layers,
        },
        "selected": lab.selected,
        "factor": lab.factor,
        "node": lab.node,
    }


def _short(values: Any) -> Any:
    """Numbers with four decimals, in lists."""
    return np.round(np.asarray(values, float), 4).tolist()
