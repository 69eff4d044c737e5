"""The scalar, the omission guard, abstention, and the counts that RLTR and ToolPO read."""

from __future__ import annotations

from dataclasses import replace

import pytest
from helpers import make_task
from helpers_rollouts import call_text, play
from hypothesis import given, settings
from hypothesis import strategies as st

from slca.rewards.breakdown import RewardBreakdown
from slca.rewards.hierarchy import REWARDS, reward_tensors, score
from slca.rewards.options import RewardConfig
from slca.rewards.process import WEIGHTS
from slca.rollout.rollout import Rollout
from slca.simulator.response import ToolResponse
from slca.tasks.task import Call, Task

TASK = make_task()
NONE = replace(TASK, id="n", gold=[], facts=[])
OSLO, ROME = call_text("get_weather", city="Oslo"), call_text("get_weather", city="Rome")
BROKEN = "<tool_call>{oops</tool_call>"
REPLY = "That is all I found."


class Fixed:
    """A judge that always gives the same score."""

    name, noise = "fixed", 0.0

    def __init__(self, points: float | None) -> None:
        self.points = points

    def score(self, task: Task, rollout: Rollout) -> float | None:
        return self.points


def whole(*texts: str, task: Task = TASK, judge: float | None = 3.0, **config: object) -> RewardBreakdown:
    return score(task, play(task, *texts), Fixed(judge), RewardConfig(**config))  # type: ignore[arg-type]


@given(
    st.lists(st.sampled_from([OSLO, ROME, OSLO + ROME, BROKEN, REPLY, ""]), min_size=1, max_size=4),
    st.sampled_from([None, 1.0, 2.0, 3.0, 4.0, 5.0]),
    st.sampled_from(sorted(WEIGHTS)),
    st.floats(-1, 2),
    st.floats(-1, 2),
    st.floats(-2, 0),
    st.sampled_from([TASK, NONE]),
)
@settings(max_examples=150, deadline=None)
def test_total_and_guard(
    texts: list[str], judge: float | None, weights: str, w_p: float, w_s: float, fallback: float, task: Task
) -> None:
    config = {"weights": weights, "w_process": w_p, "w_summary": w_s, "no_call_score": fallback}
    b = whole(*texts, task=task, judge=judge, **config)
    w = WEIGHTS[weights]
    process = w.format * b.format + w.name * b.name + w.key * b.key + w.value * b.value + w.parallel * b.parallel
    outcome = 0.0 if judge is None else (judge - 1) / 4
    no_call = task is TASK and not any(OSLO in t or ROME in t for t in texts)
    total = fallback if no_call else w_p * process + w_s * outcome
    assert (b.process, b.outcome, b.total) == pytest.approx((process, outcome, total))
    assert b.no_call == no_call
    guarded = no_call or b.total < 0
    assert (b.tool, b.summary) == ((0.0, b.total) if guarded else (b.process, b.outcome))


@pytest.mark.parametrize(("judge", "outcome"), [(1.0, 0.0), (2.0, 0.25), (3.0, 0.5), (5.0, 1.0), (None, 0.0)])
def test_outcome_is_the_judges_score_on_zero_to_one(judge: float | None, outcome: float) -> None:
    b = whole(OSLO, REPLY, judge=judge)
    assert (b.judge, b.outcome, b.total, b.tool, b.summary) == (judge, outcome, 1 + outcome, 1.0, outcome)


def test_the_guard_is_for_calls_that_could_not_be_parsed_not_for_wrong_ones() -> None:
    for texts in ([REPLY], [BROKEN, REPLY], [BROKEN], [""]):
        b = whole(*texts, judge=5.0)
        assert b.no_call and (b.total, b.tool, b.summary) == (-0.5, 0.0, -0.5), texts
    wrong = whole(ROME, REPLY)
    assert not wrong.no_call and wrong.tool == wrong.process == pytest.approx(0.8)
    # One call that parses is enough; the broken block costs its share of the format alone.
    assert whole(BROKEN, OSLO, REPLY).tool == pytest.approx(0.95)


def test_a_negative_total_is_guarded_too_and_zero_is_not() -> None:
    b = whole(OSLO, REPLY, judge=3.0, w_process=-1.0)
    assert not b.no_call and (b.total, b.tool, b.summary) == (-0.5, 0.0, -0.5)
    b = whole(OSLO, REPLY, judge=5.0, w_process=-1.0)
    assert (b.total, b.tool, b.summary) == (0.0, 1.0, 1.0)


def test_abstention_is_rewarded_only_where_it_is_right_and_only_as_option() -> None:
    # As published, a right abstention earns nothing: no tool response, so nothing to judge.
    b = whole(REPLY, task=NONE, judge=None)
    assert (b.total, b.tool, b.summary, b.no_call) == (0.0, 0.0, 0.0, False)
    b = whole(REPLY, task=NONE, judge=None, abstention=True)
    assert (b.outcome, b.total, b.tool, b.summary) == (1.0, 1.0, 0.0, 1.0)
    for texts in ([""], [OSLO, REPLY], [BROKEN, REPLY], ["<tool_call>"]):
        assert whole(*texts, task=NONE, judge=None, abstention=True).outcome == 0.0, texts
    assert whole(REPLY, judge=None, abstention=True).summary == -0.5, "a call was needed"


@pytest.mark.parametrize(
    ("texts", "repeats"),
    [
        ([OSLO, ROME, REPLY], 0),
        ([OSLO, OSLO, REPLY], 1),
        ([OSLO + OSLO + OSLO, REPLY], 2),
        ([OSLO, ROME, OSLO, REPLY], 0),  # equal to the one before, not to any before
        ([REPLY], 0),
    ],
)
def test_repeats(texts: list[str], repeats: int) -> None:
    assert whole(*texts).repeats == repeats


def test_invalid_calls_are_those_the_schema_refuses() -> None:
    unknown, missing = call_text("get_tide", city="Oslo"), call_text("get_weather")
    assert whole(OSLO, REPLY).invalid == 0
    assert whole(unknown + missing, OSLO, REPLY).invalid == 2
    assert whole(BROKEN, OSLO, REPLY).invalid == 0, "an unparsed block is a matter of format"
    rollout = play(TASK, OSLO, REPLY)
    rollout.turns[0].responses = [ToolResponse("{}", {}, ok=False, code="not_found")]
    assert score(TASK, rollout, Fixed(3.0), RewardConfig()).invalid == 0, "well formed, but nothing was there"


@pytest.mark.parametrize(
    ("texts", "valid"),
    [
        ([OSLO, REPLY], True),
        ([REPLY], True),
        (['<tool_call>[{"name": "get_weather"}, {"name": "get_weather"}]</tool_call>', REPLY], True),
        ([OSLO + BROKEN, REPLY], False),
        ([OSLO + "</tool_call>", REPLY], False),
        ([OSLO, "<tool_call>"], False),
        (["<think><tool_call></think>" + OSLO, REPLY], True),
    ],
)
def test_format_valid(texts: list[str], valid: bool) -> None:
    assert whole(*texts).format_valid is valid


def test_right_and_complete_calls() -> None:
    two = replace(TASK, gold=[[Call("get_weather", {"city": "Oslo"}), Call("get_weather", {"city": "Rome"})]], facts=[])
    full, half = whole(ROME + OSLO, REPLY, task=two), whole(OSLO, OSLO, REPLY, task=two)
    assert (full.n_correct, full.action, full.complete, full.n_gold) == (2, 1.0, 1.0, 2)
    assert (half.n_correct, half.action, half.complete, half.n_calls) == (1, 0.5, 0.0, 2)
    assert whole(ROME + OSLO + OSLO, REPLY, task=two).complete == 1.0, "more than needed is complete"
    assert whole(REPLY, task=NONE).complete == 1.0 and whole(REPLY, task=NONE).action == 0.0
    assert whole(OSLO, REPLY, task=NONE).complete == whole(BROKEN, REPLY, task=NONE).complete == 0.0


def test_votes_are_seeded_by_task_and_sample() -> None:
    def votes(flip: float, sample: int, name: str = "t0", n: int = 3) -> float:
        task = make_task(name)
        config = RewardConfig(verifier_flip=flip, verifier_votes=n)
        return score(task, play(task, OSLO, REPLY, sample=sample), Fixed(3.0), config).complete

    assert votes(0.0, 0) == 1.0 and votes(1.0, 0) == 0.0
    drawn = [votes(0.5, k) for k in range(60)]
    assert drawn == [votes(0.5, k) for k in range(60)] and drawn != [votes(0.5, k, "t1") for k in range(60)]
    assert {round(3 * v) for v in drawn} == {0, 1, 2, 3}
    assert {votes(0.5, k, n=1) for k in range(20)} == {0.0, 1.0}


def test_the_breakdown_names_every_component_and_tensors_carry_them() -> None:
    parts = [whole(OSLO, REPLY), whole(REPLY), whole(OSLO + BROKEN, REPLY)]
    tensors = reward_tensors(parts)
    assert set(tensors) == set(REWARDS) <= set(parts[0].as_dict())
    for name, values in tensors.items():
        assert values.tolist() == [float(p.as_dict()[name] or 0) for p in parts]
