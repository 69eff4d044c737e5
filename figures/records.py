"""Run folders as records: what tables and figures are made of, and nothing else is.

A run folder holds ``manifest.json``, ``metrics.jsonl`` (one object per training step) and ``eval.jsonl`` (one object
per evaluated rollout). The committed copy under ``results/<profile>/records`` has the same shape, with the fields no
figure reads left out and the evaluation gzipped; whoever loads records need not know which of the two it is.
"""

from __future__ import annotations

import argparse
import gzip
import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval.in_domain import metric_value, write_records

Array = NDArray[np.float64]
Json = dict[str, Any]

#: Label -> name in tables and legends, in the order of the table's rows; other labels follow by name.
METHODS = {"sft": "SFT start", "grpo": "GRPO", "toolpo": "ToolPO", "rltr": "RLTR", "slca": "SLCA-GRPO"}
#: Label of the SFT start: one set of weights that every method begins with, so it pairs with every seed.
START = "sft"
#: Parts of a dotted config key in which runs of one table may differ: what is compared, and its own settings.
FREE_KEYS = frozenset({"method", "seed", "label", "lr", "learning_rate", "ablation", "name"})
MANIFEST_KEYS = (
    "label", "seed", "status", "config", "config_hash", "commit", "versions", "machine", "wall_seconds", "parts", "varied",
    "same_run_as",
)  # fmt: skip
METRIC_KEYS = (
    "step", "reward/tool", "reward/summary", "reward/total", "reward/process", "reward/outcome", "reward/success",
    "tokens/policy", "tokens/total", "tokens/policy_cum", "tokens/total_cum", "seconds", "seconds_cum",
    "calls_per_task", "turns_per_task", "kl", "entropy", "clip_ratio", "grad_norm", "contamination/tool",
    "contamination/summary", "sign_disagreement", "gradient/norm_tool", "gradient/norm_summary", "gradient/cosine",
    "gradient/noise_tool", "gradient/noise_summary", "gradient/noise",
)  # fmt: skip


class RecordError(ValueError):
    """A record that is damaged, incomplete or not comparable; the message names the file and the mend."""


@dataclass(frozen=True)
class RunRecord:
    """One finished run: its folder, manifest, training steps in order, and evaluated examples."""

    folder: Path
    manifest: Json
    metrics: list[Json]
    examples: list[Json]

    @property
    def label(self) -> str:
        return str(self.manifest["label"])

    @property
    def seed(self) -> int:
        return int(self.manifest["seed"])

    def series(self, key: str) -> Array:
        """The metric ``key`` of every step, (steps,) float64; RecordError naming the step that lacks it."""
        for row in self.metrics:
            if not isinstance(row.get(key), (int, float)):
                raise RecordError(
                    f"{self.folder}/metrics.jsonl: step {row.get('step')} has no number {key!r}; "
                    "delete the run folder and train again"
                )
        return np.array([row[key] for row in self.metrics], dtype=np.float64)


def load_runs(path: Path) -> list[RunRecord]:
    """The finished runs under ``path``, sorted by label and seed; folders of unfinished runs are passed over.

    Raises:
        RecordError: no such folder, a damaged file (named with its line), or two runs of one label and seed.
    """
    if not path.is_dir():
        raise RecordError(f"{path}: no such folder of runs; train first, or give another with --runs or --records")
    return load_run_folders(sorted(p.parent for p in path.glob("*/manifest.json")))


def load_run_folders(folders: Iterable[Path]) -> list[RunRecord]:
    """The finished runs among these folders, as ``load_runs`` gives them."""
    found: dict[tuple[str, int], RunRecord] = {}
    for folder in folders:
        manifest = _read_manifest(folder / "manifest.json")
        if manifest.get("status") != "finished":
            continue
        for key in ("label", "seed", "config", "config_hash"):
            if key not in manifest:
                raise RecordError(f"{folder}/manifest.json: {key!r} is missing; delete the run folder and train again")
        run = RunRecord(folder, manifest, _read_lines(folder, "metrics.jsonl"), _read_lines(folder, "eval.jsonl"))
        other = found.setdefault((run.label, run.seed), run)
        if other is not run:
            raise RecordError(
                f"two finished runs of {run.label}, seed {run.seed}: {other.folder} and {folder}; "
                "one table holds one, move the other elsewhere"
            )
    return [found[key] for key in sorted(found)]


def _read_manifest(path: Path) -> Json:
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise RecordError(f"{path}: not JSON ({error}); delete the run folder and train again") from error
    if not isinstance(manifest, dict):
        raise RecordError(f"{path}: expected a JSON object, got {type(manifest).__name__}")
    return manifest


def _read_lines(folder: Path, name: str) -> list[Json]:
    """Objects of ``name`` or ``name.gz`` in the folder; an absent file has none."""
    path = folder / name
    if not path.exists() and not (path := folder / f"{name}.gz").exists():
        return []
    rows: list[Json] = []
    number = 0
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else open(path, encoding="utf-8") as f:
            for number, line in enumerate(f, 1):  # noqa: B007 (named by the error below)
                row = json.loads(line)
                if not isinstance(row, dict):
                    raise ValueError(f"expected a JSON object, got {type(row).__name__}")
                if "step" in row and rows and row["step"] <= rows[-1]["step"]:
                    raise ValueError(f"step {row['step']} follows step {rows[-1]['step']}")
                rows.append(row)
    except (ValueError, EOFError, OSError) as error:
        raise RecordError(
            f"{path}, line {max(number, 1)}: damaged ({error}); restore the file or run it again"
        ) from error
    return rows


def by_label(runs: Iterable[RunRecord]) -> dict[str, dict[int, RunRecord]]:
    """Label -> seed -> run."""
    out: dict[str, dict[int, RunRecord]] = {}
    for run in runs:
        out.setdefault(run.label, {})[run.seed] = run
    return out


def pair_seeds(a: Mapping[int, RunRecord], b: Mapping[int, RunRecord]) -> tuple[list[RunRecord], list[RunRecord]]:
    """Runs of ``a`` and ``b`` (seed -> run) side by side for the seeds they share; the SFT start pairs with every seed."""
    start = next((run for run in a.values() if run.label == START), None)
    if start is not None and len(a) == 1:
        return [start] * len(b), [b[s] for s in sorted(b)]
    shared = sorted(a.keys() & b.keys())
    return [a[s] for s in shared], [b[s] for s in shared]


def ordered(labels: Iterable[str]) -> list[str]:
    """Labels in the order of ``METHODS``, all others after them by name."""
    place = {label: i for i, label in enumerate(METHODS)}
    return sorted(labels, key=lambda label: (place.get(label, len(place)), label))


def flatten(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mapping -> dotted keys; anything that is not a mapping is a leaf."""
    out: dict[str, Any] = {}
    for key, value in config.items():
        out |= flatten(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return out


def check_comparable(runs: Sequence[RunRecord]) -> None:
    """Refuse to compare runs that differ in more than what is compared.

    Two runs of one label may differ in the seed only. Runs of two labels may also differ in keys with a part in
    ``FREE_KEYS``, and in those that a manifest lists as ``varied``, as an ablation does (dotted keys or prefixes).

    Raises:
        RecordError: names the two folders, the key and both values.
    """
    firsts: dict[str, RunRecord] = {}
    for run in runs:
        first = firsts.setdefault(run.label, run)
        _refuse_difference(first, run, frozenset({"seed"}))
    labels = list(firsts.values())
    for run in labels[1:]:
        _refuse_difference(labels[0], run, FREE_KEYS)


def _refuse_difference(a: RunRecord, b: RunRecord, free: frozenset[str]) -> None:
    left, right = flatten(a.manifest["config"]), flatten(b.manifest["config"])
    varied = [*a.manifest.get("varied", ()), *b.manifest.get("varied", ())] if a.label != b.label else []
    for key in sorted(left.keys() | right.keys()):
        if free & set(key.split(".")) or any(key == v or key.startswith(f"{v}.") for v in varied):
            continue
        if (x := left.get(key, "absent")) != (y := right.get(key, "absent")):
            raise RecordError(
                f"{a.folder.name} and {b.folder.name} differ in {key}: {x!r} and {y!r}; one table compares runs of one "
                "base config, so move one of them elsewhere or run it again"
            )


def task_ids(runs: Iterable[RunRecord], split: str | None = None) -> list[str]:
    """Sorted ids of all tasks the runs were evaluated on, of one split or of all."""
    return sorted({r["task"] for run in runs for r in run.examples if split in (None, r["split"])})


def score_matrix(runs: Sequence[RunRecord], metric: str, tasks: Sequence[str], mode: str = "greedy") -> Array:
    """Scores (len(runs), len(tasks)) float64 of a metric of ``eval.in_domain.METRICS``.

    An entry is the mean over the run's samples of that task in that mode, NaN where none has a value.
    """
    column = {task: i for i, task in enumerate(tasks)}
    sums, counts = np.zeros((2, len(runs), len(tasks)))
    for i, run in enumerate(runs):
        for number, record in enumerate(run.examples, 1):
            try:
                if record["mode"] != mode or record["task"] not in column:
                    continue
                value = metric_value(record, metric)
            except (KeyError, TypeError) as error:
                raise RecordError(
                    f"{run.folder}/eval.jsonl, line {number}: no usable {error}; evaluate again"
                ) from error
            if not np.isnan(value):
                sums[i, column[record["task"]]] += value
                counts[i, column[record["task"]]] += 1
    return np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)


def export_runs(runs: Iterable[RunRecord], out: Path, limit_bytes: int = 3_000_000) -> int:
    """Write a compact copy of the runs, one folder each, in place of what ``out`` holds; returns its size in bytes.

    Numbers of training steps keep six significant digits; fields no figure reads are dropped. The same runs give the
    same bytes (no time stamps), so the version control sees no change where there is none.

    Raises:
        RecordError: the copy is larger than ``limit_bytes`` (it is meant to be committed); ``out`` is left as it was.
    """
    fresh = out.with_name(out.name + ".tmp")
    shutil.rmtree(fresh, ignore_errors=True)
    for run in runs:
        folder = fresh / run.folder.name
        folder.mkdir(parents=True)
        manifest = {key: run.manifest[key] for key in MANIFEST_KEYS if key in run.manifest}
        (folder / "manifest.json").write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        rows = ({k: _short(row[k]) for k in METRIC_KEYS if k in row} for row in run.metrics)
        write_records(rows, folder / "metrics.jsonl")
        text = "".join(json.dumps({k: _short(v) for k, v in r.items()}) + "\n" for r in run.examples)
        (folder / "eval.jsonl.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    size = sum(f.stat().st_size for f in fresh.rglob("*") if f.is_file())
    if size > limit_bytes:
        shutil.rmtree(fresh)
        raise RecordError(f"{out}: records would take {size:,} bytes, more than {limit_bytes:,}; export fewer runs")
    if fresh.exists():
        shutil.rmtree(out, ignore_errors=True)
        fresh.rename(out)
    return size


def _short(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) else value


def source_arguments(description: str) -> argparse.ArgumentParser:
    """The arguments that every command on records shares."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--profile", default="tiny", help="profile whose runs are meant (default: tiny)")
    parser.add_argument("--runs", type=Path, help="folder of run folders; reads RUNS/PROFILE instead of the records")
    parser.add_argument("--records", type=Path, help="committed records (default: results/PROFILE/records)")
    parser.add_argument("--out", type=Path, help="output folder (default: results/PROFILE)")
    return parser


def runs_of(args: argparse.Namespace) -> list[RunRecord]:
    """The comparable finished runs that the arguments name; also fills in the defaults of ``records`` and ``out``."""
    args.out = args.out or Path("results") / args.profile
    args.records = args.records or Path("results") / args.profile / "records"
    folder = args.runs / args.profile if args.runs else args.records
    runs = load_runs(folder)
    if not runs:
        raise RecordError(f"{folder}: no finished run; train and evaluate first, or give another folder with --runs")
    check_comparable(runs)
    return runs


def main(argv: Sequence[str] | None = None) -> None:
    """Copy the finished runs of a profile into its records, to be committed."""
    parser = source_arguments("Copy finished runs in compact form, for committing.")
    args = parser.parse_args(argv)
    if args.runs is None:
        parser.error("--runs is needed: the folder to copy from")
    try:
        runs = runs_of(args)
        size = export_runs(runs, args.records)
    except RecordError as error:
        raise SystemExit(f"error: {error}") from error
    print(f"{len(runs)} runs, {size / 1e6:.2f} MB: {args.records}")


if __name__ == "__main__":
    main()
