"""The tables as Markdown and as plots: the paper's figures beside ours."""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from qtcore.files import write_atomically
from qtcore.paper import DATASETS, FREY, GRID, TABLE_1, Printed

TITLES = {"adult": "Adult", "connect4": "Conn4", "digits": "Digits", "dna": "DNA", "mushrooms": "Mushr", "nips": "NIPS"}
TITLES |= {"ocr_letters": "OCR", "rcv1": "RCV1", "web": "Web"}
NAMES = {"qt": "QT", "pcd-bp": "PCD-BP", "pcd-gibbs": "PCD-Gibbs", "advil-bp": "AdVIL-BP", "advil-gibbs": "AdVIL-Gibbs"}
NAMES |= {"image-gaussian": "one Gaussian per image", "pixel-gaussian": "one Gaussian per pixel", "random": "random guess"}
MISSING = "not yet trained"
Record = dict[str, Any]


def mean_over_seeds(records: Iterable[Record], part: str) -> tuple[float, float, int] | None:
    """Mean and standard error of a figure over runs (over samples for a single run), and the number of runs."""
    found = [record["scores"][part] for record in records if part in record["scores"]]
    if not found:
        return None
    means = [float(score["mean"]) for score in found]
    mean = sum(means) / len(means)
    if len(means) == 1:
        return mean, float(found[0]["error"]), 1
    variance = sum((value - mean) ** 2 for value in means) / (len(means) - 1)
    return mean, math.sqrt(variance / len(means)), len(means)


def _rows(records: list[Record], method: str, model: str, dataset: str) -> tuple[list[Record], str]:
    """Records of a row, and which of their figures it shows: a row is named after training and inference."""
    training, _, inference = (
        method.partition("-") if method in NAMES and method.startswith(("pcd", "advil")) else (method, "", "")
    )
    chosen = [r for r in records if (r["method"], r["model"], r["dataset"]) == (training, model, dataset)]
    return chosen, inference or "bp"


def comparison(ours: tuple[float, float, int] | None, paper: Printed | None, comparable: bool, digits: int = 3) -> str:
    """One cell: ours, the paper's, and what to make of it."""
    printed = "–" if paper is None else f"{paper.mean:.{digits}f}"
    if ours is None:
        return f"{MISSING} (paper {printed})"
    text = f"**{ours[0]:.{digits}f}** ± {ours[1]:.{digits}f}"
    text += f" ({ours[2]} runs)" if ours[2] > 1 else ""
    if paper is None:
        return text
    if not comparable:
        return f"{text}; paper {printed}, not comparable"
    difference = ours[0] - paper.mean
    verdict = "same" if abs(difference) < 0.5 * 10**-digits else ("better" if difference < 0 else "worse")
    return f"{text}; paper {printed}, {difference:+.{digits}f} {verdict}"


def table_1(records: list[Record]) -> str:
    """NCE in bits of RBM and DBM, one line for each dataset and one column for each method."""
    lines = ["# Table 1: NCE in bits (lower is better)", ""]
    for model, methods in (
        ("rbm", ("qt", "pcd-bp", "pcd-gibbs", "advil-bp", "advil-gibbs")),
        ("dbm", ("qt", "advil-bp", "advil-gibbs")),
    ):
        lines += [f"## {model.upper()}", "", "| | " + " | ".join(NAMES[method] for method in methods) + " |"]
        lines += ["|---" * (len(methods) + 1) + "|"]
        for dataset in DATASETS:
            cells = []
            for method in methods:
                chosen, part = _rows(records, method, model, dataset)
                comparable = all(record["source"] != "stand-in" for record in chosen)
                cells.append(comparison(mean_over_seeds(chosen, part), TABLE_1.get((method, model, dataset)), comparable))
            lines.append(f"| {TITLES[dataset]} | " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join([*lines, *_budgets(records, "table1")])


def frey(records: list[Record]) -> str:
    """NCE in bits of the Gaussian RBM on the Frey faces."""
    lines = [
        "# Gaussian RBM on the Frey faces: NCE in bits (lower is better)",
        "",
        "| | uniform queries | 5×5 patches |",
        "|---|---|---|",
    ]
    for method in ("qt", "advil-bp", "advil-gibbs", "image-gaussian", "pixel-gaussian"):
        training, _, inference = method.partition("-") if method.startswith("advil") else (method, "", "")
        chosen = [record for record in records if record["table"] == "frey" and record["method"] == training]
        cells = []
        for queries in ("uniform", "patches"):
            part = f"{queries}-gibbs" if inference == "gibbs" else queries
            cells.append(comparison(mean_over_seeds(chosen, part), FREY.get((method, queries)), True))
        lines.append(f"| {NAMES[method]} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", *_budgets(records, "frey")])


def grid(records: list[Record]) -> str:
    """IoU and NCE of the grid MRF, counted in both ways."""
    lines = ["# Grid MRF on border ownership", "", "| | IoU % (higher is better) | NCE (lower is better) |", "|---|---|---|"]
    rows = (
        ("QT, own evidence in the belief", "border", "iou", "nce", False),
        ("QT, own evidence in the belief, frame forced to OUT", "border", "iou_framed", "nce_framed", False),
        (
            "QT, counted as the authors do: no own evidence, frame forced to OUT",
            "border-authors",
            "iou_framed",
            "nce_framed",
            True,
        ),
        ("QT, no own evidence", "border-authors", "iou", "nce", False),
    )
    for title, dataset, iou, nce, comparable in rows:
        chosen = [r for r in records if r["table"] == "grid" and r["method"] == "qt" and r["dataset"] == dataset]
        paper = (GRID["qt", "iou"], GRID["qt", "nce"]) if comparable else (None, None)
        ours_iou = mean_over_seeds(chosen, iou)
        flipped = None if paper[0] is None else paper[0]
        first = comparison(ours_iou, flipped, True, 2)
        if flipped is not None and ours_iou is not None:  # more is better here
            first = first.replace(" better", " @").replace(" worse", " better").replace(" @", " worse")
        lines.append(f"| {title} | {first} | {comparison(mean_over_seeds(chosen, nce), paper[1], True, 4)} nats |")
    guess = [record for record in records if record["table"] == "grid" and record["method"] == "random"]
    found = mean_over_seeds(guess, "iou")
    shown = MISSING if found is None else f"**{found[0]:.2f}** ± {found[1]:.2f}; paper {GRID['random', 'iou'].mean:.2f}"
    lines.append(f"| random IN/OUT | {shown} | 1 bit per IN/OUT pixel by definition; paper {GRID['random', 'nce'].mean:.2f} |")
    return "\n".join([*lines, "", *_budgets(records, "grid")])


def _budgets(records: list[Record], table: str) -> list[str]:
    """What was spent, where it is less than the paper did."""
    lines = []
    spent = {
        (r["training"]["settings"]["steps"], r["training"]["settings"]["decoder_steps"])
        for r in records
        if r["table"] == table and r["method"] == "advil" and "training" in r and "settings" in r["training"]
    }
    for steps, decoder in sorted(spent):
        lines.append(f"AdVIL here: {steps} model steps with {decoder} decoder steps each (the paper's: 100,000 with 100).")
    if any(record.get("training", {}).get("quick") for record in records if record["table"] == table):
        lines.append("Some of these models are from a quick run and say nothing about the method.")
    return lines


TABLES = {"table1": table_1, "frey": frey, "grid": grid}


def plot(records: list[Record], path: Path) -> None:
    """Table 1 as dots: ours against the paper's, by dataset."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(11, 4), sharey=True)
    styles = {"qt": ("o", "C0"), "pcd-bp": ("s", "C1"), "advil-bp": ("^", "C2")}
    for ax, model in zip(axes, ("rbm", "dbm"), strict=True):
        for method, (marker, colour) in styles.items():
            for place, dataset in enumerate(DATASETS):
                chosen, part = _rows(records, method, model, dataset)
                ours, printed = mean_over_seeds(chosen, part), TABLE_1.get((method, model, dataset))
                if printed is not None:
                    ax.plot(place - 0.12, printed.mean, marker, color=colour, fillstyle="none")
                if ours is not None:
                    ax.plot(place + 0.12, ours[0], marker, color=colour)
        ax.set_xticks(range(len(DATASETS)), [TITLES[dataset] for dataset in DATASETS], rotation=45)
        ax.set_title(f"{model.upper()}: NCE in bits")
        ax.grid(alpha=0.3)
    handles = [plt.Line2D([], [], marker=m, color=c, linestyle="", label=NAMES[name]) for name, (m, c) in styles.items()]
    handles += [plt.Line2D([], [], marker="o", color="k", linestyle="", fillstyle="none", label="paper (open)")]
    axes[0].legend(handles=handles, fontsize=8)
    figure.tight_layout()
    write_atomically(path, lambda temporary: figure.savefig(temporary, format="png", dpi=110))
    plt.close(figure)
