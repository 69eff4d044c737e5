"""In-domain evaluation: one record per rollout, means over records, nothing else.

Success@0.9 (paper, section 5) is ``process >= 0.9`` over the tasks that need a call. Tasks whose gold is empty
(abstention, missing information) have no process score to speak of: a rollout is right there if it made no call.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from slca.rewards.breakdown import RewardBreakdown
from slca.rollout.rollout import Rollout
from slca.tasks.task import Task

#: ``rollouts(tasks, samples, greedy, seed)`` -> for each task a list of ``samples`` rollouts.
RolloutFn = Callable[[Sequence[Task], int, bool, int], list[list[Rollout]]]
Scorer = Callable[[Task, Rollout], RewardBreakdown]
Record = dict[str, Any]

SPLITS = ("seen", "unseen")
MODES = ("greedy", "sampled")
#: Judge score 4 of 5, ``(4 - 1) / 4``: from here on a summary counts as right in joint success (ours).
GOOD_SUMMARY = 0.75

#: Metric of ``summarise`` -> (field of the record, which records: those of tasks with gold, without gold, or all).
METRICS: dict[str, tuple[str, bool | None]] = {
    "success": ("success", True),
    "name_f1": ("name_f1", True),
    "argument_match": ("argument_match", True),
    "process": ("process", True),
    "summary": ("summary", None),
    "joint_success": ("joint_success", None),
    "abstention": ("abstention_correct", False),
    "calls": ("n_calls", None),
    "redundant_calls": ("redundant_calls", None),
    "tool_turns": ("tool_turns", None),
    "policy_tokens": ("policy_tokens", None),
    "total_tokens": ("total_tokens", None),
}


def split_of(task: Task) -> str:
    """``seen`` or ``unseen``, from ``task.meta["split"]`` (``test_seen`` is ``seen``); ValueError for any other."""
    split = str(task.meta.get("split", "")).removeprefix("test_")
    if split not in SPLITS:
        raise ValueError(f"task {task.id}: meta.split is {task.meta.get('split')!r}; expected one of {SPLITS}")
    return split


def example_record(task: Task, rollout: Rollout, breakdown: RewardBreakdown, mode: str = "greedy") -> Record:
    """The per-example record of one rollout (a JSON object).

    ``argument_match`` is the value component of the process reward. ``summary`` is None where there was nothing to
    judge. ``abstention_correct`` is None on tasks that need a call. A block that was opened but did not parse is an
    attempted call: it spoils an abstention, though it does not count in ``n_calls``.
    """
    if mode not in MODES:
        raise ValueError(f"mode is {mode!r}; expected one of {MODES}")
    attempted = breakdown.n_calls > 0 or any(t.opens_call for t in rollout.turns)
    summary = None if breakdown.judge is None else breakdown.outcome
    if task.needs_call:
        joint = breakdown.success and summary is not None and summary >= GOOD_SUMMARY
    else:
        joint = not attempted and bool(rollout.reply)
    return {
        "task": task.id,
        "split": split_of(task),
        "kind": task.kind,
        "sample": rollout.sample,
        "mode": mode,
        "success": bool(breakdown.success),
        "name_f1": breakdown.name,
        "argument_match": breakdown.value,
        "process": breakdown.process,
        "summary": summary,
        "joint_success": joint,
        "abstention_correct": None if task.needs_call else not attempted,
        "n_calls": breakdown.n_calls,
        "n_gold": breakdown.n_gold,
        "redundant_calls": max(0, breakdown.n_calls - breakdown.n_gold),
        "tool_turns": sum(t.opens_call for t in rollout.turns),
        "policy_tokens": sum(rollout.policy_mask),
        "total_tokens": len(rollout.token_ids),
        "stop_reason": rollout.stop_reason,
    }


def metric_value(record: Mapping[str, Any], metric: str) -> float:
    """The record's value of a metric of ``METRICS`` as a float; NaN where the metric does not speak of this record."""
    name, needs_gold = METRICS[metric]
    if needs_gold is not None and needs_gold != (record["n_gold"] > 0):
        return math.nan
    value = record[name]
    return math.nan if value is None else float(value)


def summarise(records: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, float | int | None]]:
    """Metric name -> ``{"mean", "n"}``: the mean over the records the metric speaks of and their number.

    The mean is None, not 0, when no record has a value.
    """
    rows = list(records)
    out: dict[str, dict[str, float | int | None]] = {}
    for metric in METRICS:
        values = [v for v in (metric_value(r, metric) for r in rows) if not math.isnan(v)]
        out[metric] = {"mean": math.fsum(values) / len(values) if values else None, "n": len(values)}
    return out


def evaluate(
    rollouts: RolloutFn, scorer: Scorer, tasks: Sequence[Task], folder: Path, *, samples: int = 4, seed: int = 0
) -> dict[str, dict[str, dict[str, float | int | None]]]:
    """Evaluate a policy on all ``tasks`` (seen and unseen), once greedily and ``samples`` times sampled.

    Args:
        rollouts: the policy with its engine; called once per mode with all tasks, so it may batch as it likes.
        scorer: rewards of one rollout, the same as in training.
        tasks: test tasks, ``meta["split"]`` seen or unseen.
        folder: run folder; ``eval.jsonl`` in it is replaced as a whole or not at all.
        samples: sampled rollouts per task; 0 leaves the sampled mode out.
        seed: seed of the sampled mode.

    Returns:
        ``"seen/greedy"``, ``"seen/sampled"``, ``"unseen/greedy"``, ... -> ``summarise`` of those records; a part
        without records is absent.

    Raises:
        ValueError: two tasks share an id, or ``rollouts`` returned other tasks or counts than it was asked for.
    """
    ids = [t.id for t in tasks]
    if len(set(ids)) != len(ids):
        twice = next(i for i in ids if ids.count(i) > 1)
        raise ValueError(f"task id {twice!r} appears twice in the evaluation set; ids must be unique")
    records: list[Record] = []
    for mode, count in (("greedy", 1), ("sampled", samples)):
        if count == 0:
            continue
        groups = rollouts(tasks, count, mode == "greedy", seed)
        if len(groups) != len(tasks):
            raise ValueError(f"{mode} evaluation: asked for {len(tasks)} groups of rollouts, got {len(groups)}")
        for task, group in zip(tasks, groups, strict=True):
            if len(group) != count or any(r.task_id != task.id for r in group):
                raise ValueError(
                    f"{mode} evaluation: task {task.id} should have {count} rollouts of its own, "
                    f"got {[r.task_id for r in group]}"
                )
            records += [example_record(task, r, scorer(task, r), mode) for r in group]
    write_records(records, folder / "eval.jsonl")
    parts = {(s, m): [r for r in records if r["split"] == s and r["mode"] == m] for s in SPLITS for m in MODES}
    return {f"{split}/{mode}": summarise(rows) for (split, mode), rows in parts.items() if rows}


def write_records(records: Iterable[Mapping[str, Any]], path: Path) -> None:
    """Write one JSON object per line; a reader sees the old file or the whole new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".tmp")
    with open(partial, "w", encoding="utf-8") as f:
        f.writelines(json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n" for record in records)
        f.flush()
        os.fsync(f.fileno())
    os.replace(partial, path)
