"""The paper's own figures, to print beside ours. Never measured here; every column that shows them says so.

"SLCA-GRPO: Resolving Cross-Segment Credit Misattribution in Tool-Calling RL" (arXiv 2609.29050), Qwen2.5-7B-Instruct,
mean +- standard deviation of three runs: in-domain Success@0.9, BFCL v3 (13 subsets), tau2-bench pass^1, in percent.
"""

from __future__ import annotations

from typing import NamedTuple


class PaperRow(NamedTuple):
    """(mean, standard deviation) in percent per benchmark; None where the paper gives none."""

    in_domain: tuple[float, float] | None
    bfcl: tuple[float, float] | None
    tau2: tuple[float, float | None] | None


#: Label of a run here -> the paper's row.
PAPER: dict[str, PaperRow] = {
    "grpo": PaperRow((76.60, 1.27), (68.41, 0.11), (31.87, 2.97)),
    "toolpo": PaperRow((77.35, 1.19), (68.86, 0.43), (34.18, 2.42)),
    "toolpo-judge": PaperRow((20.00, 1.36), (24.59, 0.87), (30.44, 2.15)),
    "rltr": PaperRow(None, None, (33.72, None)),
    "slca": PaperRow((79.13, 1.05), (69.77, 0.47), (41.02, 1.01)),
    "no-sgls": PaperRow((78.02, 1.12), (68.75, 0.48), (36.19, 1.95)),
    "no-hierr": PaperRow((73.44, 1.21), (69.07, 0.46), (34.50, 1.44)),
    "execution-slca": PaperRow((76.43, 1.21), (67.61, 0.51), (30.18, 1.76)),
    "execution-grpo": PaperRow((73.51, 1.45), (66.28, 0.32), (25.54, 2.13)),
}


def paper_cell(label: str, benchmark: str) -> str:
    """The paper's figure as text, ``"76.60 ± 1.27"``, or ``"–"`` where it gives none for this label."""
    row = PAPER.get(label.replace("_", "-"))
    value = getattr(row, benchmark) if row else None
    if value is None:
        return "–"
    mean, deviation = value
    return f"{mean:.2f}" if deviation is None else f"{mean:.2f} ± {deviation:.2f}"
