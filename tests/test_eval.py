"""In-domain evaluation: records and means worked out by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from eval.in_domain import METRICS, evaluate, example_record, split_of, summarise
from slca.rewards.breakdown import RewardBreakdown
from slca.rollout.rollout import ParseError, Rollout, Turn
from slca.tasks.task import Call, Task

BREAKDOWN = RewardBreakdown(
    format=1.0, name=0.8, key=1.0, value=0.5, parallel=1.0, process=0.95, judge=4.0, outcome=0.75, no_call=False,
    total=1.7, tool=0.95, summary=0.75, success=True, action=1.0, n_correct=1, complete=1.0, repeats=0, invalid=0,
    format_valid=True, n_calls=3, n_gold=1, execution=1.0, toolrl=4.0, turn_gains=(1.0, 0.0)
)  # fmt: skip
NOTHING = replace(
    BREAKDOWN, format=0.0, process=0.0, judge=None, outcome=0.0, success=False, n_calls=0, n_gold=0, total=0.0
)


def task(name: str = "t", split: str = "test_seen", gold: bool = True) -> Task:
    steps = [[Call("find", {"q": "x"})]] if gold else []
    return Task(
        name,
        [{"role": "user", "content": "?"}],
        [],
        steps,
        tags=["single" if gold else "abstention"],
        meta={"split": split},
    )


def rollout(name: str = "t", sample: int = 0, n_open: int = 1, reply: str = "It is done.") -> Rollout:
    turns = [Turn("<tool_call>", [Call("find", {})] * n_open, n_open=n_open)] if n_open else []
    turns.append(Turn(reply))
    mask = [False, False, True, True, True]
    return Rollout(name, sample, [1] * 5, 2, mask, [0.0] * 5, turns, [(2, 5)] * len(turns), "answer")


def test_record_of_a_good_rollout() -> None:
    record = example_record(task(), rollout(), BREAKDOWN, "sampled")
    assert record == {
        "task": "t", "split": "seen", "kind": "single", "sample": 0, "mode": "sampled", "success": True, "name_f1": 0.8,
        "argument_match": 0.5, "process": 0.95, "summary": 0.75, "joint_success": True, "abstention_correct": None,
        "n_calls": 3, "n_gold": 1, "redundant_calls": 2, "tool_turns": 1, "policy_tokens": 3, "total_tokens": 5,
        "stop_reason": "answer",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("change", "joint"),
    [
        ({"outcome": 0.5, "judge": 3.0}, False),
        ({"success": False}, False),
        ({"judge": None, "outcome": 0.75}, False),
        ({"judge": 5.0, "outcome": 1.0}, True),
    ],
)
def test_joint_success_needs_calls_and_summary(change: dict, joint: bool) -> None:
    assert example_record(task(), rollout(), replace(BREAKDOWN, **change))["joint_success"] is joint


@pytest.mark.parametrize(
    ("n_open", "reply", "abstained", "joint"),
    [(0, "No tool fits.", True, True), (0, "", True, False), (1, "Done.", False, False)],
)
def test_abstention(n_open: int, reply: str, abstained: bool, joint: bool) -> None:
    record = example_record(task(gold=False), rollout(n_open=n_open, reply=reply), replace(NOTHING, n_calls=n_open))
    assert record["abstention_correct"] is abstained
    assert record["joint_success"] is joint
    assert record["summary"] is None


def test_a_malformed_call_is_no_abstention() -> None:
    broken = rollout(n_open=0)
    broken.turns.insert(0, Turn("<tool_call>{", errors=[ParseError("json", "broken")], n_open=1))
    assert example_record(task(gold=False), broken, NOTHING)["abstention_correct"] is False


def test_unknown_split_and_mode_are_refused() -> None:
    assert split_of(task(split="unseen")) == "unseen"
    with pytest.raises(ValueError, match=r"task t: meta.split is 'train'"):
        split_of(task(split="train"))
    with pytest.raises(ValueError, match="mode is 'beam'"):
        example_record(task(), rollout(), BREAKDOWN, "beam")


def test_means_are_over_the_records_they_speak_of() -> None:
    records = [
        example_record(task("a"), rollout("a"), BREAKDOWN),
        example_record(task("b"), rollout("b"), replace(BREAKDOWN, success=False, process=0.5, judge=None, n_calls=1)),
        example_record(task("c", gold=False), rollout("c", n_open=0), NOTHING),
    ]
    got = summarise(records)
    assert set(got) == set(METRICS)
    assert got["success"] == {"mean": 0.5, "n": 2}
    assert got["process"] == {"mean": pytest.approx(0.725), "n": 2}
    assert got["summary"] == {"mean": 0.75, "n": 1}
    assert got["abstention"] == {"mean": 1.0, "n": 1}
    assert got["joint_success"] == {"mean": pytest.approx(2 / 3), "n": 3}
    assert got["calls"] == {"mean": pytest.approx(4 / 3), "n": 3}
    assert got["redundant_calls"] == {"mean": pytest.approx(2 / 3), "n": 3}
    assert summarise([])["success"] == {"mean": None, "n": 0}


class ScriptedPolicy:
    """Answers every task with ``count`` rollouts and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, bool, int]] = []

    def __call__(self, tasks: Sequence[Task], samples: int, greedy: bool, seed: int) -> list[list[Rollout]]:
        self.asked.append((samples, greedy, seed))
        return [[rollout(t.id, i) for i in range(samples)] for t in tasks]


def test_evaluate_writes_one_record_per_rollout(tmp_path: Path) -> None:
    policy = ScriptedPolicy()
    tasks = [task("a"), task("b", "test_unseen"), task("c", "test_unseen")]
    run = tmp_path / "run"
    run.mkdir()
    (run / "eval.jsonl").write_text("old\n")
    got = evaluate(policy, lambda _t, r: replace(BREAKDOWN, success=r.sample == 0), tasks, run, samples=2, seed=9)
    records = [json.loads(line) for line in (run / "eval.jsonl").read_text().splitlines()]
    assert policy.asked == [(1, True, 9), (2, False, 9)]
    assert [(r["task"], r["mode"], r["sample"]) for r in records][:4] == [
        ("a", "greedy", 0), ("b", "greedy", 0), ("c", "greedy", 0), ("a", "sampled", 0),
    ]  # fmt: skip
    assert len(records) == 9
    assert sorted(got) == ["seen/greedy", "seen/sampled", "unseen/greedy", "unseen/sampled"]
    assert got["unseen/sampled"]["success"] == {"mean": 0.5, "n": 4}
    assert [p.name for p in run.iterdir()] == ["eval.jsonl"]


def test_evaluate_without_samples_is_greedy_alone(tmp_path: Path) -> None:
    policy = ScriptedPolicy()
    got = evaluate(policy, lambda _t, _r: BREAKDOWN, [task()], tmp_path, samples=0)
    assert policy.asked == [(1, True, 0)]
    assert list(got) == ["seen/greedy"]


def test_evaluate_refuses_what_it_did_not_ask_for(tmp_path: Path) -> None:
    def scorer(_t: Task, _r: Rollout) -> RewardBreakdown:
        return BREAKDOWN

    with pytest.raises(ValueError, match="'t' appears twice"):
        evaluate(ScriptedPolicy(), scorer, [task(), task()], tmp_path)
    with pytest.raises(ValueError, match="asked for 1 groups of rollouts, got 0"):
        evaluate(lambda *_: [], scorer, [task()], tmp_path)
    with pytest.raises(ValueError, match="task t should have 1 rollouts of its own, got \\['other'\\]"):
        evaluate(lambda *_: [[rollout("other")]], scorer, [task()], tmp_path)
    assert not (tmp_path / "eval.jsonl").exists()


def test_a_failure_while_writing_leaves_the_old_records(tmp_path: Path) -> None:
    (tmp_path / "eval.jsonl").write_text("old\n")
    with pytest.raises(ValueError, match="Out of range float"):
        evaluate(ScriptedPolicy(), lambda _t, _r: replace(BREAKDOWN, process=float("nan")), [task()], tmp_path)
    assert (tmp_path / "eval.jsonl").read_text() == "old\n"
