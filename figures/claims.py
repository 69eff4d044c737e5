"""What the records say of the paper's claims about SLCA-GRPO and GRPO, whichever way it falls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from figures.convergence import OUTCOME, PROCESS, area_under_curve
from figures.records import RunRecord, by_label, pair_seeds, score_matrix, task_ids
from figures.stats import Estimate, paired_difference, t_interval

#: A summary score this much lower than GRPO's still counts as "not worse" (ours; the scale is 0 to 1).
MARGIN = 0.02


@dataclass(frozen=True)
class Claim:
    """One claim: ``metric`` (of the evaluation, or a training metric under its curve) should be ``expected``."""

    text: str
    measure: str
    metric: str
    expected: str  # "higher", "lower" or "not lower"
    curve: bool = False


CLAIMS = (
    Claim("tool reward converges faster", "area under the training process reward", PROCESS, "higher", curve=True),
    Claim(
        "summaries do not get worse (training)",
        "area under the training outcome reward",
        OUTCOME,
        "not lower",
        curve=True,
    ),
    Claim("summaries do not get worse (final)", "summary score of the final evaluation", "summary", "not lower"),
    Claim("fewer redundant calls", "redundant calls per task of the final evaluation", "redundant_calls", "lower"),
    Claim("higher in-domain success", "Success@0.9 of the final evaluation", "success", "higher"),
)


@dataclass(frozen=True)
class Finding:
    """SLCA-GRPO minus GRPO with the bootstrap interval over seeds and tasks and Student's interval over seed means."""

    claim: Claim
    difference: float | None
    bootstrap: Estimate | None
    student: Estimate | None

    @property
    def verdict(self) -> str:
        if self.difference is None:
            return "not run"
        if self.student is None:
            return "not decided (one seed says nothing of the spread between seeds)"
        return verdict(self.claim.expected, [e for e in (self.bootstrap, self.student) if e is not None])


def verdict(expected: str, intervals: Sequence[Estimate]) -> str:
    """holds, does not hold, or not decided; every interval must agree.

    ``higher``: all of it above zero holds, all below does not. ``lower``: the reverse. ``not lower``: all below zero
    does not hold, all above ``-MARGIN`` holds.
    """
    low, high = min(e.low for e in intervals), max(e.high for e in intervals)
    if expected == "lower":
        low, high = -high, -low
    if high < 0:
        return "does not hold"
    if low > (-MARGIN if expected == "not lower" else 0):
        return "holds"
    return f"not decided (the interval covers {'the margin' if expected == 'not lower' else 'zero'})"


def findings(runs: Sequence[RunRecord]) -> list[Finding]:
    """One finding per claim, from the seeds that both methods have."""
    groups = by_label(runs)
    slca, grpo = groups.get("slca", {}), groups.get("grpo", {})
    return [_curve(c, runs) if c.curve else _evaluation(c, slca, grpo) for c in CLAIMS]


def _curve(claim: Claim, runs: Sequence[RunRecord]) -> Finding:
    areas = area_under_curve(runs, claim.metric)
    ours, theirs = areas.get("slca", {}), areas.get("grpo", {})
    differences = [ours[s] - theirs[s] for s in sorted(ours.keys() & theirs.keys())]
    return Finding(claim, float(np.mean(differences)) if differences else None, None, t_interval(differences))


def _evaluation(claim: Claim, slca: Mapping[int, RunRecord], grpo: Mapping[int, RunRecord]) -> Finding:
    ours, theirs = pair_seeds(slca, grpo)
    tasks = task_ids([*ours, *theirs])
    a, b = (score_matrix(side, claim.metric, tasks) for side in (ours, theirs))
    gaps = [row[~np.isnan(row)] for row in a - b]
    means = [row.mean() for row in gaps if row.size]
    if not means:
        return Finding(claim, None, None, None)
    paired = paired_difference(a, b)
    return Finding(claim, paired.mean, paired, t_interval(means))


def comparison_text(runs: Sequence[RunRecord]) -> str:
    """``comparison.md``: the claims, the differences with intervals, the verdicts."""

    def cell(estimate: Estimate | None) -> str:
        return "–" if estimate is None else f"[{estimate.low:+.4f}, {estimate.high:+.4f}]"

    lines = [
        f"| {f.claim.text} | {f.claim.measure} | {'–' if f.difference is None else f'{f.difference:+.4f}'} | "
        f"{cell(f.bootstrap)} | {cell(f.student)} | {f.verdict} |"
        for f in findings(runs)
    ]
    seeds = sorted(by_label(runs).get("slca", {}).keys() & by_label(runs).get("grpo", {}).keys())
    common = ", ".join(map(str, seeds)) or "none in common"
    table = "\n".join(
        ["| Claim | Measured as | Difference | Bootstrap | Student | Verdict |", "|---" * 6 + "|", *lines]
    )
    return (
        "# The paper's claims at this scale\n\n"
        f"SLCA-GRPO minus GRPO, paired by seed ({common}) and, where there are tasks, by task.\n\n{table}\n\n"
        "Intervals are 95 %: a bootstrap over seeds and tasks, and Student's interval over seed means. A verdict needs "
        "all intervals shown to agree: the bootstrap sees the spread between tasks but is optimistic with few seeds; "
        "Student's is wide with few seeds, but honest. The area under a curve is the mean reward over all training "
        f'steps. "Not worse" holds if the interval lies above -{MARGIN} (a margin of ours), and does not hold if it '
        "lies below zero. Summary scores are compared where the rollouts of both methods had something to judge. Each "
        "claim is judged by itself, without correction for their number.\n"
    )
