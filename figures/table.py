"""The results table, made from run records alone: ``python -m figures.table --profile tiny``.

Writes table.csv (all numbers, fractions), table.md (main table, quality, cost), table.tex (main table) and
comparison.md (what the records say of the paper's claims). A cell without a record says "not run".
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from eval.in_domain import SPLITS
from figures.claims import comparison_text
from figures.convergence import PROCESS, smoothed, smoothing_window
from figures.paper_numbers import paper_cell
from figures.records import (
    METHODS,
    START,
    RecordError,
    RunRecord,
    by_label,
    ordered,
    pair_seeds,
    runs_of,
    score_matrix,
    source_arguments,
    task_ids,
)
from figures.stats import (
    Estimate,
    bootstrap_mean,
    bootstrap_statistic,
    iqm,
    paired_difference,
    probability_of_improvement,
)

Cell = Estimate | float | str | None
Row = dict[str, Cell]
NOT_RUN = "not run"
NO_MEANING = "–"


@dataclass(frozen=True)
class Column:
    """A column: key of the row, title, and how its number is printed (``scale`` times, with ``digits``)."""

    key: str
    title: str
    scale: float = 1.0
    digits: int = 1

    def text(self, cell: Cell) -> str:
        if cell is None:
            return NOT_RUN
        if isinstance(cell, str):
            return cell
        if not isinstance(cell, Estimate):
            return f"{cell * self.scale:.{self.digits}f}"
        sign = "+" if self.key.startswith("delta") else ""
        mean, low, high = (f"{v * self.scale:{sign}.{self.digits}f}" for v in cell[:3])
        return f"{mean} [{low}, {high}]"


MAIN = (
    Column("method", "Method"),
    Column("success_seen", "Success@0.9 seen, %", 100),
    Column("success_unseen", "Success@0.9 unseen, %", 100),
    Column("delta_success", "Success minus GRPO, points", 100),
    Column("summary", "Summary score", 1, 3),
    Column("bfcl", "BFCL v3"),
    Column("tau2", "tau2"),
    Column("paper", "Paper's figures (7B): in-domain / BFCL / tau2"),
)
QUALITY = (
    Column("method", "Method"),
    Column("success_seen_sampled", "Success seen, sampled, %", 100),
    Column("success_unseen_sampled", "Success unseen, sampled, %", 100),
    Column("name_f1", "Name F1, %", 100),
    Column("argument_match", "Argument match, %", 100),
    Column("process", "Process score", 1, 3),
    Column("process_iqm", "Process IQM", 1, 3),
    Column("p_better", "P(process better than GRPO)", 1, 2),
    Column("joint_success", "Joint success, %", 100),
    Column("abstention", "Abstention accuracy, %", 100),
)
COST = (
    Column("method", "Method"),
    Column("seeds", "Seeds", 1, 0),
    Column("calls", "Calls per task", 1, 2),
    Column("redundant_calls", "Redundant calls per task", 1, 3),
    Column("total_tokens", "Tokens per task", 1, 0),
    Column("train_policy_tokens", "Training tokens, policy, M", 1e-6, 2),
    Column("train_total_tokens", "Training tokens, all, M", 1e-6, 2),
    Column("train_seconds", "Training time, min", 1 / 60, 1),
    Column("steps_to_grpo", "Steps to GRPO's final score", 1, 0),
)
MEANS = (
    "name_f1", "argument_match", "process", "summary", "joint_success", "abstention", "calls", "redundant_calls",
    "total_tokens",
)  # fmt: skip


def mean_cell(runs: Sequence[RunRecord], metric: str, tasks: Sequence[str], mode: str = "greedy") -> Estimate | None:
    """Mean with interval over the runs (seeds) and tasks; None if no record has a value."""
    scores = score_matrix(runs, metric, tasks, mode)
    return None if np.isnan(scores).all() else bootstrap_mean(scores)


def steps_to_reach(run: RunRecord, target: RunRecord) -> float:
    """First step (1-based) at which the run's smoothed process reward is at least ``target``'s final smoothed value.

    Only steps with a full smoothing window count, so that a lucky first batch does not; inf if there is none.
    """
    window = smoothing_window(len(run.metrics))
    hits = np.flatnonzero(smoothed(run, PROCESS)[window - 1 :] >= smoothed(target, PROCESS)[-1])
    return float(hits[0] + window) if hits.size else math.inf


def table_row(label: str, runs: Mapping[int, RunRecord], grpo: Mapping[int, RunRecord], tasks: Sequence[str]) -> Row:
    """All cells of one label; a cell is None where the records it needs are absent."""
    seeds = [runs[s] for s in sorted(runs)]
    row: Row = {"method": METHODS.get(label, label), "seeds": float(len(seeds)), "bfcl": None, "tau2": None}
    row["paper"] = " / ".join(paper_cell(label, benchmark) for benchmark in ("in_domain", "bfcl", "tau2"))
    for split in SPLITS:
        part = task_ids(seeds, split)
        row[f"success_{split}"] = mean_cell(seeds, "success", part)
        row[f"success_{split}_sampled"] = mean_cell(seeds, "success", part, "sampled")
    row |= {metric: mean_cell(seeds, metric, tasks) for metric in MEANS}
    process = score_matrix(seeds, "process", tasks)
    row["process_iqm"] = None if np.isnan(process).all() else bootstrap_statistic(process, iqm)
    return row | _against_grpo(label, runs, grpo, tasks) | _cost(label, runs, grpo)


def _against_grpo(
    label: str, runs: Mapping[int, RunRecord], grpo: Mapping[int, RunRecord], tasks: Sequence[str]
) -> Row:
    if label == "grpo":
        return {"delta_success": NO_MEANING, "p_better": NO_MEANING}
    ours, theirs = pair_seeds(runs, grpo)
    a, b = (score_matrix(side, "success", tasks) for side in (ours, theirs))
    delta = None if np.isnan(a - b).all() else paired_difference(a, b)
    a, b = (score_matrix([side[s] for s in sorted(side)], "process", tasks) for side in (runs, grpo))
    better = probability_of_improvement(a, b)
    return {"delta_success": delta, "p_better": None if math.isnan(better) else better}


def _cost(label: str, runs: Mapping[int, RunRecord], grpo: Mapping[int, RunRecord]) -> Row:
    keys = {"train_policy_tokens": "tokens/policy_cum", "train_total_tokens": "tokens/total_cum"}
    keys["train_seconds"] = "seconds_cum"
    if label == START:
        return dict.fromkeys([*keys, "steps_to_grpo"], NO_MEANING)
    trained = [run for run in runs.values() if run.metrics]
    row: Row = {
        name: float(np.mean([r.series(k)[-1] for r in trained])) if trained else None for name, k in keys.items()
    }
    ours, theirs = pair_seeds({r.seed: r for r in trained}, {s: r for s, r in grpo.items() if r.metrics})
    steps = float(np.median([steps_to_reach(a, b) for a, b in zip(ours, theirs, strict=True)])) if ours else None
    row["steps_to_grpo"] = "not reached" if steps is not None and math.isinf(steps) else steps
    return row


def table_rows(runs: Sequence[RunRecord]) -> dict[str, Row]:
    """Label -> row for the methods of the main table, run or not, then any other label by name."""
    groups = by_label(runs)
    tasks = task_ids(runs)
    labels = ordered({*METHODS, *groups})
    return {label: table_row(label, groups.get(label, {}), groups.get("grpo", {}), tasks) for label in labels}


def caption(runs: Sequence[RunRecord]) -> str:
    """What stands behind the numbers: seeds, tasks, stand-ins, commit and config hashes."""
    counts = {label: len(seeds) for label, seeds in by_label(runs).items()}
    seeds = ", ".join(f"{METHODS.get(label, label)} {counts[label]}" for label in ordered(counts))
    tasks = " and ".join(f"{len(task_ids(runs, split))} {split}" for split in SPLITS)
    manifests = [run.manifest for run in runs]
    parts = [
        f"{part}: {_all(m.get('parts', {}).get(part) for m in manifests)}" for part in ("judge", "simulator", "engine")
    ]
    hashes = "; ".join(
        f"{METHODS.get(label, label)} {_all(run.manifest['config_hash'] for run in group.values())}"
        for label, group in sorted(by_label(runs).items(), key=lambda item: ordered(counts).index(item[0]))
    )
    return (
        "Mean [95 % bootstrap interval over seeds and tasks], greedy decoding, seen and unseen tools together unless "
        "said. Success, name F1, argument match and process over the tasks that need a call; abstention accuracy over "
        "those that do not; summary score over rollouts with something to judge. Differences are paired by task and "
        "seed; the SFT start is one set of weights and pairs with every seed. Steps to GRPO's final score: first step "
        "at which the smoothed training process reward reaches GRPO's last, median over seeds. "
        f"{NO_MEANING}: does not apply.\n\n"
        f"Seeds: {seeds}. Test tasks: {tasks}. Stand-ins: {'; '.join(parts)}. The paper's figures are its own, mean ± "
        "standard deviation of three runs of Qwen2.5-7B-Instruct on its own data, in percent: not measured here, and not "
        f"comparable in level.\n\nCommit: {_all(m.get('commit') for m in manifests)}. Configs: {hashes}."
    )


def _all(values: object) -> str:
    return ", ".join(sorted({str(v) if v is not None else "unknown" for v in values}))  # type: ignore[attr-defined]


def markdown(rows: Mapping[str, Row], note: str) -> str:
    def table(columns: Sequence[Column]) -> str:
        lines = ["| " + " | ".join(c.title for c in columns) + " |", "|---" * len(columns) + "|"]
        lines += ["| " + " | ".join(c.text(row.get(c.key)) for c in columns) + " |" for row in rows.values()]
        return "\n".join(lines)

    return (
        f"# In-domain results\n\n{table(MAIN)}\n\n{note}\n\n## Quality in detail\n\n{table(QUALITY)}\n\n"
        f"## Cost\n\n{table(COST)}\n"
    )


LATEX_ESCAPES = {"\\": r"\textbackslash{}", "–": "--", "±": r"$\pm$"} | {c: f"\\{c}" for c in "&%$#_{}"}


def latex(rows: Mapping[str, Row], note: str) -> str:
    """The main table as a ``table`` environment (needs booktabs); text is escaped."""

    def escape(text: str) -> str:
        return "".join(LATEX_ESCAPES.get(c, c) for c in text)

    lines = [
        " & ".join(escape(c.title) for c in MAIN),
        *(" & ".join(escape(c.text(r.get(c.key))) for c in MAIN) for r in rows.values()),
    ]
    body = "\n".join([lines[0] + r" \\", r"\midrule", *(f"{line} \\\\" for line in lines[1:])])
    return (
        "\\begin{table*}\n\\centering\\small\n"
        f"\\begin{{tabular}}{{l{'r' * (len(MAIN) - 1)}}}\n\\toprule\n{body}\n\\bottomrule\n\\end{{tabular}}\n"
        f"\\caption{{{escape(' '.join(note.split()))}}}\n\\end{{table*}}\n"
    )


def write_csv(rows: Mapping[str, Row], path: Path) -> None:
    """One line per label, unscaled numbers; an estimate takes three columns: its key, ``_low`` and ``_high``."""
    keys = list(dict.fromkeys(c.key for columns in (MAIN, QUALITY, COST) for c in columns))
    wide = {k for k in keys if any(isinstance(row.get(k), Estimate) for row in rows.values())}
    with open(path, "w", newline="", encoding="utf-8") as f:
        writer = csv.writer(f, lineterminator="\n")
        writer.writerow(
            ["label", *(name for k in keys for name in ((k, f"{k}_low", f"{k}_high") if k in wide else (k,)))]
        )
        for label, row in rows.items():
            line: list[str] = [label]
            for key in keys:
                cell = row.get(key)
                values: tuple[Cell, ...] = cell[:3] if isinstance(cell, Estimate) else (cell,)
                texts = [NOT_RUN if v is None else f"{v:.6g}" if isinstance(v, float) else str(v) for v in values]
                line += texts * 3 if key in wide and len(texts) == 1 else texts
            writer.writerow(line)


def write_table(runs: Sequence[RunRecord], out: Path) -> list[Path]:
    """Write table.csv, table.md, table.tex and comparison.md into ``out``; returns their paths."""
    out.mkdir(parents=True, exist_ok=True)
    rows, note = table_rows(runs), caption(runs)
    write_csv(rows, out / "table.csv")
    texts = {"table.md": markdown(rows, note), "table.tex": latex(rows, note), "comparison.md": comparison_text(runs)}
    for name, text in texts.items():
        (out / name).write_text(text, encoding="utf-8")
    return [out / name for name in ("table.csv", *texts)]


def main(argv: Sequence[str] | None = None) -> None:
    args = source_arguments("Make the results table from run records.").parse_args(argv)
    try:
        paths = write_table(runs_of(args), args.out)
    except RecordError as error:
        raise SystemExit(f"error: {error}") from error
    print("\n".join(map(str, paths)))


if __name__ == "__main__":
    main()
