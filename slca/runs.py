"""Run folders: everything that a run leaves, safe against kill -9 at any moment.

``<root>/<profile>/<label>-seed<k>-<hash>/`` holds

    manifest.json       config, hash, commit, versions, machine, status, summary
    metrics.jsonl       one object per training step
    rollouts/           rollouts of some steps, for people
    checkpoints/        the last checkpoint: weights, optimiser state (safetensors), counters
    eval.jsonl          one object per evaluated rollout

Files are written beside and renamed, so a reader sees the old or the new one; nothing is pickled.
"""

from __future__ import annotations

import datetime
import fcntl
import json
import math
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from slca.config import Config, config_hash, to_dict

_PACKAGES = ("torch", "transformers", "accelerate", "tokenizers", "numpy")


class RunLocked(RuntimeError):
    """Another process works in the run folder."""


class Run:
    """One run folder, locked by this process. Use ``Run.open``, and as a context manager."""

    def __init__(self, folder: Path, lock: IO[str]) -> None:
        self.folder, self._lock = folder, lock

    # -- opening ------------------------------------------------------------------------------------------------

    @staticmethod
    def folder_of(root: str | Path, config: Config) -> Path:
        name = f"{config.label}-seed{config.seed}-{config_hash(config)}"
        return Path(root) / config.profile / name

    @classmethod
    def open(cls, root: str | Path, config: Config, extra: Mapping[str, Any] | None = None) -> Run:
        """Open or create the run's folder; ``extra`` goes into the manifest of a new one.

        Raises:
            RunLocked: another process has it open.
        """
        folder = cls.folder_of(root, config)
        folder.mkdir(parents=True, exist_ok=True)
        lock = open(folder / "lock", "w", encoding="utf-8")  # noqa: SIM115 (open as long as the run is)
        try:
            # The kernel drops this lock when the process ends, however it ends.
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            raise RunLocked(f"{folder} is in use by another process; wait for it or stop it") from None
        run = cls(folder, lock)
        if not (folder / "manifest.json").is_file():
            write_json(folder / "manifest.json", {**_manifest(config), **(extra or {})})
        elif run.manifest["status"] == "failed":
            run._update(status="running", failure=None)
        return run

    def close(self) -> None:
        self._lock.close()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- manifest -----------------------------------------------------------------------------------------------

    @property
    def manifest(self) -> dict[str, Any]:
        return dict(json.loads((self.folder / "manifest.json").read_text(encoding="utf-8")))

    @property
    def finished(self) -> bool:
        return bool(self.manifest["status"] == "finished")

    @staticmethod
    def is_finished(folder: Path) -> bool:
        """Whether the folder holds a finished run, without opening it."""
        manifest = folder / "manifest.json"
        return manifest.is_file() and json.loads(manifest.read_text(encoding="utf-8"))["status"] == "finished"

    @staticmethod
    def summary_of(folder: Path) -> dict[str, Any] | None:
        """The summary of a finished run, without opening it."""
        manifest = folder / "manifest.json"
        return json.loads(manifest.read_text(encoding="utf-8")).get("summary") if manifest.is_file() else None

    def finish(self, summary: Mapping[str, Any], seconds: float) -> None:
        """Mark the run finished. ``seconds``: wall time of this process on it."""
        before = self.manifest.get("wall_seconds", 0.0)
        self._update(status="finished", finished=_now(), summary=summary, wall_seconds=before + seconds)

    def fail(self, text: str) -> None:
        self._update(status="failed", failure=text)

    def _update(self, **fields: Any) -> None:
        write_json(self.folder / "manifest.json", {**self.manifest, **fields})

    # -- metrics and rollouts -------------------------------------------------------------------------------------

    def log(self, step: int, record: Mapping[str, float]) -> None:
        """Append one line to ``metrics.jsonl``. ValueError for a value that is not finite, naming it."""
        for key, value in record.items():
            if not math.isfinite(value):
                raise ValueError(f"step {step}: metric {key} is {value}")
        with open(self.folder / "metrics.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps({"step": step, **record}) + "\n")

    def metrics(self) -> list[dict[str, Any]]:
        """The logged steps; a half-written last line is not one."""
        path = self.folder / "metrics.jsonl"
        rows = []
        for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else []:
            try:
                rows.append(json.loads(line))
            except ValueError:
                break
        return rows

    def save_rollouts(self, step: int, records: Sequence[Mapping[str, Any]]) -> None:
        (self.folder / "rollouts").mkdir(exist_ok=True)
        text = "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in records)
        _replace(self.folder / "rollouts" / f"step-{step:06d}.jsonl", text)

    # -- checkpoints ----------------------------------------------------------------------------------------------

    def save_checkpoint(self, step: int, state: Mapping[str, Tensor], optimizer: Any, extra: Mapping[str, Any]) -> None:
        """Keep weights and optimiser after ``step`` steps, in place of the checkpoint before."""
        folder = self.folder / "checkpoints"
        partial = folder / "partial"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        weights, ties = _untied(state)
        save_file(weights, partial / "model.safetensors")
        tensors, plain = _split_optimizer(optimizer.state_dict())
        save_file(tensors, partial / "optimizer.safetensors")
        write_json(partial / "state.json", {"step": step, "ties": ties, "optimizer": plain, "extra": dict(extra)})
        for file in partial.iterdir():
            _sync(file)
        target = folder / f"step-{step:06d}"
        shutil.rmtree(target, ignore_errors=True)
        os.replace(partial, target)
        _sync(folder)
        for old in folder.glob("step-*"):
            if old != target:
                shutil.rmtree(old)

    def latest_checkpoint(self) -> tuple[int, Path] | None:
        """(steps done, folder) of the newest whole checkpoint."""
        found = sorted((self.folder / "checkpoints").glob("step-*/state.json"))
        return (int(found[-1].parent.name.removeprefix("step-")), found[-1].parent) if found else None

    def load_checkpoint(self, path: Path, model: Any, optimizer: Any) -> dict[str, Any]:
        """Put weights and optimiser state back, bit for bit, and forget what was logged after them."""
        self.load_weights(path, model)
        saved = json.loads((path / "state.json").read_text(encoding="utf-8"))
        tensors = load_file(path / "optimizer.safetensors")
        optimizer.load_state_dict(_join_optimizer(tensors, saved["optimizer"]))
        self.forget_after(saved["step"])
        return dict(saved["extra"])

    @staticmethod
    def load_weights(path: Path, model: Any) -> None:
        """The checkpoint's weights into ``model``."""
        saved = json.loads((path / "state.json").read_text(encoding="utf-8"))
        weights = load_file(path / "model.safetensors")
        weights |= {name: weights[source] for name, source in saved["ties"].items()}
        model.load_state_dict(weights)

    def forget_after(self, step: int) -> None:
        """Drop metrics of steps that will be done again, and a half-written last line."""
        path = self.folder / "metrics.jsonl"
        if path.is_file():
            kept = [row for row in self.metrics() if row["step"] < step]
            _replace(path, "".join(json.dumps(row) + "\n" for row in kept))


def write_json(path: Path, value: Any) -> None:
    """Write JSON whole or not at all."""
    _replace(path, json.dumps(value, indent=1, sort_keys=True, allow_nan=False) + "\n")


def _replace(path: Path, text: str) -> None:
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, path)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _untied(state: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors without those that share the memory of an earlier one, and name -> the one it is tied to."""
    kept: dict[str, Tensor] = {}
    ties: dict[str, str] = {}
    first: dict[tuple[int, tuple[int, ...]], str] = {}
    for name, tensor in state.items():
        source = first.setdefault((tensor.data_ptr(), tuple(tensor.shape)), name)
        if source != name and tensor.numel():
            ties[name] = source
        else:
            kept[name] = tensor.detach().cpu().contiguous().clone()
    return kept, ties


def _split_optimizer(state: Mapping[str, Any]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """An optimiser's state as tensors and plain data (numbers of the groups)."""
    tensors: dict[str, Tensor] = {}
    for index, entries in state["state"].items():
        for name, value in entries.items():
            tensors[f"{index}.{name}"] = torch.as_tensor(value).detach().cpu().contiguous().clone()
    return tensors, {"param_groups": state["param_groups"]}


def _join_optimizer(tensors: Mapping[str, Tensor], plain: Mapping[str, Any]) -> dict[str, Any]:
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        index, _, name = key.partition(".")
        state.setdefault(int(index), {})[name] = value
    return {"state": state, "param_groups": plain["param_groups"]}


def _manifest(config: Config) -> dict[str, Any]:
    return {
        "profile": config.profile,
        "label": config.label,
        "seed": config.seed,
        "method": config.method.name,
        "status": "running",
        "created": _now(),
        "config": to_dict(config),
        "config_hash": config_hash(config),
        "commit": commit(),
        "versions": _versions(),
        "machine": {
            "system": platform.platform(),
            "processor": platform.processor() or platform.machine(),
            "cores": os.cpu_count(),
            "torch_threads": config.train.threads,
        },
    }


def _versions() -> dict[str, str | None]:
    found: dict[str, str | None] = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found


def commit() -> str | None:
    """Commit of the code, with ``+changes`` if tracked files differ from it; None outside a repository."""
    here = Path(__file__).resolve().parent

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(["git", *arguments], cwd=here, capture_output=True, text=True, timeout=20, check=True)
        except (OSError, subprocess.SubprocessError):
            return None
        return done.stdout.strip()

    head = git("rev-parse", "--short=12", "HEAD")
    if head is None:
        return None
    # Results and figures are written by runs themselves; only code counts as a change.
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", "../baselines", "../experiments", "../eval")
    return f"{head}+changes" if changed else head


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
