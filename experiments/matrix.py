"""The cells of an experiment, several processes side by side, with progress; finished cells are never repeated.

Each cell is a process of its own (``python -m experiments.train``): one that fails or is killed takes no other with
it, and on a machine with few cores two single-threaded processes do more than one with two threads.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from experiments.common import START, cell_config, usable_cores
from slca.config import Config
from slca.runs import Run, write_json

#: What evaluating a cell costs, in training steps, for the estimate before one was measured.
EVAL_STEPS = 6


@dataclass
class Cell:
    """One method with one seed. ``process`` is set while it runs, ``outcome`` when it is over."""

    label: str
    seed: int
    folder: Path
    steps: int
    process: subprocess.Popen[bytes] | None = None
    outcome: str = ""
    log: Any = field(default=None, repr=False)

    @property
    def done(self) -> float:
        """Work done, in steps; the evaluation counts ``EVAL_STEPS``."""
        if self.outcome == "finished":
            return self.steps + EVAL_STEPS
        metrics = self.folder / "metrics.jsonl"
        return min(self.steps, metrics.read_bytes().count(b"\n")) if metrics.is_file() else 0

    @property
    def work(self) -> float:
        return self.steps + EVAL_STEPS


def cells_of(config: Config, root: Path, labels: Sequence[str] = (), seeds: Sequence[int] = ()) -> list[Cell]:
    """The SFT start, then all methods of one seed before the next seed, so that a part is already a comparison."""
    chosen = [label for label in config.matrix.methods if not labels or label in labels]
    pairs = [(START, config.matrix.seeds[0])] if not labels or START in labels else []
    pairs += [(label, seed) for seed in (seeds or config.matrix.seeds) for label in chosen]
    cells = []
    for label, seed in pairs:
        own = cell_config(config, label, seed)
        cells.append(Cell(label, seed, Run.folder_of(root, own), 0 if label == START else own.train.steps))
    return cells


def adopt_twin(cell: Cell) -> bool:
    """Take over a finished run with the same config hash and seed under another label; False if there is none.

    Ablations share arms: what was run for one need not be run again for another. The manifest says whose run it is.
    """
    digest = cell.folder.name.rpartition("-")[2]
    for twin in sorted(cell.folder.parent.glob(f"*-seed{cell.seed}-{digest}")):
        if twin == cell.folder or twin.name.startswith(f"{START}-") or cell.label == START or not Run.is_finished(twin):
            continue
        partial = cell.folder.with_name(cell.folder.name + ".partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        for file in ("metrics.jsonl", "eval.jsonl"):
            shutil.copyfile(twin / file, partial / file)
        manifest = json.loads((twin / "manifest.json").read_text(encoding="utf-8"))
        manifest |= {"label": cell.label, "same_run_as": twin.name}
        manifest["config"] |= {"label": cell.label}
        write_json(partial / "manifest.json", manifest)
        shutil.rmtree(cell.folder, ignore_errors=True)
        partial.rename(cell.folder)
        return True
    return False


class MatrixRunner:
    """Runs the cells that are missing with ``jobs`` processes.

    Args:
        profile: what ``--profile`` of the child processes gets; ``overrides`` go to their ``--set``.
        varied: config keys that the arms differ in, for the record.
    """

    def __init__(
        self, profile: str, overrides: Sequence[str], root: Path, threads: int, varied: Sequence[str] = (), jobs: int = 0
    ) -> None:
        self.profile, self.overrides, self.root, self.varied = profile, list(overrides), root, list(varied)
        self.threads = threads
        self.jobs = jobs or max(1, usable_cores() // threads)

    def run(self, cells: Sequence[Cell]) -> bool:
        """True when all cells are finished. Ctrl-C ends the children too; what they saved stays."""
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        for cell in cells:
            cell.outcome = "finished" if Run.is_finished(cell.folder) or adopt_twin(cell) else ""
        total = sum(c.work for c in cells)
        began, before = time.monotonic(), sum(c.done for c in cells)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
                   TextColumn("{task.fields[left]}"))  # fmt: skip
        try:
            with Progress(*columns, refresh_per_second=1) as progress:
                bar = progress.add_task("starting", total=total, left="")
                while self._advance(cells, progress):
                    done = sum(c.done for c in cells)
                    names = ", ".join(f"{c.label}/{c.seed}" for c in cells if c.process)
                    progress.update(bar, completed=done, description=names, left=_left(began, before, done, total))
                    time.sleep(1.0)
                progress.update(bar, completed=sum(c.done for c in cells), description="all cells", left="")
        finally:
            self._stop(cells)
        for cell in cells:
            if cell.outcome != "finished":
                print(f"{cell.label}, seed {cell.seed}: {cell.outcome or 'not run'}", file=sys.stderr)
        return all(c.outcome == "finished" for c in cells)

    def _advance(self, cells: Sequence[Cell], progress: Any) -> bool:
        """Collect the children that ended, start new ones; False when nothing is left to do."""
        for cell in cells:
            if cell.process is not None and cell.process.poll() is not None:
                code, cell.process = cell.process.returncode, None
                cell.log.close()
                cell.outcome = "finished" if code == 0 else f"failed, see {cell.folder / 'log.txt'}"
                progress.console.print(f"{cell.label}, seed {cell.seed}: {cell.outcome}{_score(cell)}")
        running = sum(c.process is not None for c in cells)
        for cell in cells:
            if running < self.jobs and not cell.outcome and cell.process is None:
                self._start(cell)
                running += 1
        return running > 0

    def _start(self, cell: Cell) -> None:
        cell.folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "experiments.train", "--profile", self.profile, "--method", cell.label]
        command += ["--seed", str(cell.seed), "--runs", str(self.root)]
        command += ["--set", *self.overrides] if self.overrides else []
        command += ["--varied", *self.varied] if self.varied else []
        threads = str(self.threads)
        env = {**os.environ, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads, "TOKENIZERS_PARALLELISM": "false"}
        cell.log = open(cell.folder / "log.txt", "ab")  # noqa: SIM115 (closed when the child ends)
        cell.process = subprocess.Popen(
            command, stdout=cell.log, stderr=subprocess.STDOUT, env=env, preexec_fn=_die_with_parent
        )

    def _stop(self, cells: Sequence[Cell]) -> None:
        for cell in cells:
            if cell.process is not None:
                cell.process.terminate()
        for cell in cells:
            if cell.process is not None:
                cell.process.wait()
                cell.process, cell.outcome = None, "interrupted; call again to go on"


def _die_with_parent() -> None:
    """On Linux a child gets SIGTERM when its parent is killed, so that no run goes on unseen."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def _left(began: float, before: float, done: float, total: float) -> str:
    if done <= before:
        return "estimating"
    seconds = (time.monotonic() - began) / (done - before) * (total - done)
    return f"about {seconds / 60:.0f} min left" if seconds > 90 else f"about {seconds:.0f} s left"


def _score(cell: Cell) -> str:
    summary = Run.summary_of(cell.folder) or {}
    part = summary.get("eval", {}).get("seen/greedy", {}).get("success", {})
    return "" if part.get("mean") is None else f", Success@0.9 on seen tools {part['mean']:.3f}"
