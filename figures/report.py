"""``make claims``: every claim of the paper, its published number, ours with intervals, and whether it holds.

Reads the records of the main table and of the ablations of one profile and writes claims.md and claims.html (with the
figures inside) into results/PROFILE. A claim without records says "not run".

    python -m figures.report --profile tiny
"""

from __future__ import annotations

import argparse
import base64
import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from scipy import stats  # type: ignore[import-untyped]

from figures.convergence import OUTCOME, PROCESS
from figures.records import RunRecord, by_label, load_runs, pair_seeds, score_matrix, task_ids
from figures.stats import Estimate, bootstrap_p, paired_difference, t_interval

MAIN = "main"
LEVEL = 0.05
POWER = 0.8

Kind = Literal["evaluation", "curve", "spread", "mean"]


@dataclass(frozen=True)
class PaperClaim:
    """``a`` minus ``b`` (labels in the records of ``where``) should be ``expected``.

    Attributes:
        kind: ``evaluation``: a metric of the final evaluation, per task; of the training log: ``curve`` the mean over the
            steps, ``spread`` the standard deviation over the steps, ``mean`` the mean where it was measured.
        b: None where ``a`` itself is compared with the range ``within``.
    """

    text: str
    published: str
    where: str
    a: str
    b: str | None
    metric: str
    kind: Kind = "evaluation"
    expected: Literal["higher", "lower", "within"] = "higher"
    within: tuple[float, float] = (0.0, 0.0)


CLAIMS: tuple[PaperClaim, ...] = (
    PaperClaim("In-domain success is higher than GRPO's", "+2.53 points", MAIN, "slca", "grpo", "success"),
    PaperClaim("... than ToolPO's", "+1.78 points", MAIN, "slca", "toolpo", "success"),
    PaperClaim("... than RLTR's", "not given in-domain", MAIN, "slca", "rltr", "success"),
    PaperClaim("The tool reward converges faster than GRPO's", "figure only", MAIN, "slca", "grpo", PROCESS, "curve"),
    PaperClaim("... at one learning rate", "figure only", "two_by_two", "slca", "grpo", PROCESS, "curve"),
    PaperClaim("The summary reward converges faster", "figure only", "two_by_two", "slca", "grpo", OUTCOME, "curve"),
    PaperClaim("Fewer tool turns than GRPO", "fewer on all backbones", MAIN, "slca", "grpo", "tool_turns",
               expected="lower"),
    PaperClaim("Fewer tokens per task", "lower cost", MAIN, "slca", "grpo", "total_tokens", expected="lower"),
    PaperClaim("2x2: routing and separate normalisation beat GRPO", "+2.53 points", "two_by_two", "slca", "grpo", "success"),
    PaperClaim("2x2: routing adds to separate normalisation (GDPO)", "not given", "two_by_two", "slca", "gdpo_plain",
               "success"),
    PaperClaim("2x2: separate normalisation adds to routing", "not given", "two_by_two", "slca", "support_control",
               "success"),
    PaperClaim("2x2: routing alone beats GRPO", "not given", "two_by_two", "support_control", "grpo", "success"),
    PaperClaim("Ablation: SLCA helps", "+2.53 points", "components", "slca", "wo_slca", "success"),
    PaperClaim("Ablation: SGLS helps", "+1.11 points", "components", "slca", "wo_sgls", "success"),
    PaperClaim("Ablation: HierR helps", "+5.69 points", "components", "slca", "wo_hierr", "success"),
    PaperClaim("Matching the gold beats the execution reward", "+2.70 points", "execution", "slca", "slca_execution",
               "success"),
    PaperClaim("SLCA beats GRPO under the execution reward", "+2.92 points", "execution", "slca_execution",
               "grpo_execution", "success"),
    PaperClaim("A judge's outcome breaks ToolPO", "-57.35 points", "toolpo_outcome", "toolpo_judge", "toolpo_rule",
               "success", expected="lower"),
    PaperClaim("Tool and summary gradients are nearly orthogonal under SLCA", "cosine in [-0.03, 0.08]", "two_by_two",
               "slca", None, "gradient/cosine", "mean", "within", (-0.03, 0.08)),
    PaperClaim("The gradient's norm varies less than GRPO's", "-25.0 / -13.1 / -2.5 %", "two_by_two", "slca", "grpo",
               "grad_norm", "spread", "lower"),
    PaperClaim("Summary rewards do not reach tool tokens", "0 by construction", "two_by_two", "slca", "grpo",
               "contamination/tool", "mean", "lower"),
)  # fmt: skip


@dataclass(frozen=True)
class Result:
    """A claim with what the records say: difference, its two intervals, p-value, and how many seeds would decide it."""

    claim: PaperClaim
    difference: float | None = None
    bootstrap: Estimate | None = None
    student: Estimate | None = None
    p: float | None = None
    seeds: tuple[int, ...] = ()
    wanted: int | None = None

    def verdict(self, p: float | None) -> str:
        """``p``: corrected for the number of claims."""
        if self.difference is None:
            return "not run"
        if self.claim.expected == "within" and self.student is not None:
            low, high = self.claim.within
            if low <= self.student.low and self.student.high <= high:
                return "holds"
            return "does not hold" if self.student.high < low or self.student.low > high else "not decided"
        if p is None or p >= LEVEL:
            return "not decided at this power"
        return "holds" if (self.difference > 0) == (self.claim.expected == "higher") else "does not hold"


def judge(claim: PaperClaim, runs: Sequence[RunRecord]) -> Result:
    """What the records say of one claim, paired by seed and, for evaluations, by task."""
    groups = by_label(runs)
    if claim.a not in groups or (claim.b is not None and claim.b not in groups):
        return Result(claim)
    ours, theirs = (groups[claim.a], groups[claim.b]) if claim.b is not None else (groups[claim.a], groups[claim.a])
    left, right = pair_seeds(ours, theirs)
    paired = None
    boot_p = 0.0
    if claim.kind == "evaluation":
        tasks = task_ids([*left, *right])
        x, y = (score_matrix(side, claim.metric, tasks) for side in (left, right))
        if np.isnan(x - y).all():
            return Result(claim)
        paired, boot_p = paired_difference(x, y), bootstrap_p(x - y)
        gaps = [float(np.nanmean(row)) for row in x - y]
    else:
        try:
            values = [[_of_run(run, claim) for run in side] for side in (left, right)]
        except LookupError:
            return Result(claim)
        gaps = values[0] if claim.b is None else [a - b for a, b in zip(*values, strict=True)]
    student = t_interval(gaps)
    p = None
    if student is not None and claim.b is not None:
        spread = float(np.std(gaps, ddof=1))
        t_p = float(stats.ttest_1samp(gaps, 0.0).pvalue) if spread > 0 else float(np.mean(gaps) == 0)
        p = max(t_p, boot_p)
    mean = paired.mean if paired is not None else float(np.mean(gaps))
    seeds = tuple(sorted(run.seed for run in left))
    return Result(claim, mean, paired, student, p, seeds, seeds_wanted(gaps) if claim.b is not None else None)


def _of_run(run: RunRecord, claim: PaperClaim) -> float:
    values = [float(row[claim.metric]) for row in run.metrics if claim.metric in row]
    if not values:
        raise LookupError(claim.metric)
    return float(np.std(values)) if claim.kind == "spread" else float(np.mean(values))


def seeds_wanted(gaps: Sequence[float], most: int = 10_000) -> int | None:
    """Seeds with which a difference of this size and spread is found with a power of 0.8 at 5 % (normal approximation).

    None with fewer than two seeds; ``most`` where it is that or more.
    """
    if len(gaps) < 2:
        return None
    mean, spread = float(np.mean(gaps)), float(np.std(gaps, ddof=1))
    if abs(mean) < 1e-12:
        return most
    quantiles = float(stats.norm.ppf(1 - LEVEL / 2) + stats.norm.ppf(POWER))
    return min(most, max(2, math.ceil((quantiles * spread / mean) ** 2)))


def holm(ps: Sequence[float | None]) -> list[float | None]:
    """p-values corrected for their number (Holm 1979); None stays None.

    >>> holm([0.01, None, 0.04])
    [0.02, None, 0.04]
    """
    known = sorted((p, i) for i, p in enumerate(ps) if p is not None)
    out: list[float | None] = [None] * len(ps)
    worst = 0.0
    for rank, (p, i) in enumerate(known):
        worst = max(worst, min(1.0, p * (len(known) - rank)))
        out[i] = worst
    return out


def collect(folder: Path) -> list[Result]:
    """Results of all claims from ``folder``/records and ``folder``/ablations/*/records."""
    loaded: dict[str, list[RunRecord]] = {}
    for where in {c.where for c in CLAIMS}:
        records = folder / "records" if where == MAIN else folder / "ablations" / where / "records"
        loaded[where] = load_runs(records) if records.is_dir() else []
    return [judge(c, loaded[c.where]) for c in CLAIMS]


HEADER = ("Claim", "Published (7B)", "Here", "Bootstrap", "Student", "Seeds", "p, corrected", "Verdict")


def table(results: Sequence[Result]) -> list[tuple[str, ...]]:
    """Rows of text under ``HEADER``."""
    rows = []
    for result, p in zip(results, holm([r.p for r in results]), strict=True):
        claim, verdict = result.claim, result.verdict(p)
        if verdict.startswith("not decided") and result.wanted is not None:
            n = result.wanted
            verdict += f"; about {n} seeds would decide it" if n < 10_000 else "; no number of seeds in reach would"
        points = claim.metric == "success"
        rows.append((
            f"{claim.text} ({claim.a}{f' - {claim.b}' if claim.b else ''}, {claim.where})", claim.published,
            _number(result.difference, points), _interval(result.bootstrap, points), _interval(result.student, points),
            str(len(result.seeds)) if result.seeds else "–", "–" if p is None else f"{p:.3f}", verdict,
        ))  # fmt: skip
    return rows


def _number(value: float | None, points: bool) -> str:
    return "–" if value is None else f"{100 * value:+.1f} points" if points else f"{value:+.3g}"


def _interval(estimate: Estimate | None, points: bool) -> str:
    if estimate is None:
        return "–"
    low, high = (100 * v if points else v for v in (estimate.low, estimate.high))
    return f"[{low:+.1f}, {high:+.1f}]" if points else f"[{low:+.3g}, {high:+.3g}]"


NOTE = (
    "Differences are paired by seed and, for evaluations, by task. Intervals are 95 %, uncorrected: a bootstrap over seeds "
    "and tasks, and Student's over seeds. The p-value is the larger of both tests', corrected for the number of claims "
    "(Holm); a verdict needs it below 0.05. How many seeds would decide a claim is computed from the spread seen, for a "
    "power of 0.8, without the correction. BFCL and tau2-bench claims (+1.36 and +9.15 points over GRPO) are not run."
)


def write(results: Sequence[Result], folder: Path) -> list[Path]:
    """claims.md and claims.html."""
    rows = table(results)
    title = f"The paper's claims, profile {folder.name}"
    lines = [f"# {title}", "", "| " + " | ".join(HEADER) + " |", "|---" * len(HEADER) + "|"]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    markdown = folder / "claims.md"
    markdown.write_text("\n".join([*lines, "", NOTE, ""]), encoding="utf-8")
    figures = sorted([*folder.glob("figures/*.png"), *folder.glob("ablations/*/figures/*.png")])
    cells = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    heads = "".join(f"<th>{html.escape(h)}</th>" for h in HEADER)
    pictures = "".join(
        f"<h2>{html.escape(str(p.relative_to(folder)))}</h2>"
        f'<img alt="{html.escape(p.stem)}" src="data:image/png;base64,{base64.b64encode(p.read_bytes()).decode()}">'
        for p in figures
    )
    page = folder / "claims.html"
    page.write_text(
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title><style>{_STYLE}</style>'
        f"<h1>{html.escape(title)}</h1><table><tr>{heads}</tr>{cells}</table><p>{html.escape(NOTE)}</p>{pictures}</html>\n",
        encoding="utf-8",
    )
    return [markdown, page]


_STYLE = (
    "body{font:15px/1.45 system-ui,sans-serif;max-width:75rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse}img{max-width:100%}"
    "td,th{border-bottom:1px solid #ddd;padding:.3rem .5rem;text-align:left;vertical-align:top}"
)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Say which claims of the paper hold, from run records.")
    parser.add_argument("--profile", default="tiny")
    parser.add_argument("--results", type=Path, help="folder of the results (default: results/PROFILE)")
    args = parser.parse_args(argv)
    folder = args.results or Path("results") / args.profile
    if not folder.is_dir():
        raise SystemExit(f"error: {folder}: no such folder; run make reproduce-table first")
    paths = write(collect(folder), folder)
    print(paths[0].read_text(encoding="utf-8"))
    print(paths[1])


if __name__ == "__main__":
    main()
