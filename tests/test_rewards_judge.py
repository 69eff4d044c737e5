"""The rubric judge: what a reply must state and must not invent, its range, and its noise."""

from __future__ import annotations

from dataclasses import replace
from statistics import mean, stdev
from typing import Any

import pytest
from helpers import make_task
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slca.rewards.judge import MAX_WORDS, RubricJudge, coverage, invented, look_up, numbers_in, scalars, states
from slca.rollout.rollout import Rollout, Turn
from slca.simulator.response import ToolResponse
from slca.tasks.task import Call, Fact, Task

CALL = Call("get_weather", {"city": "Oslo"})
TASK = make_task()  # its one fact: the temperature


def answered(reply: str, *answers: Any, sample: int = 0, calls: list[Call] | None = None) -> Rollout:
    """One turn of calls with these decoded answers (None: an error), then the reply."""
    responses = [
        ToolResponse(str(a), a) if a is not None else ToolResponse("error", {"error": "x"}, False, "wrong_type")
        for a in answers
    ]
    turn = Turn("(calls)", calls=calls or [CALL] * len(answers), n_open=len(answers), responses=responses)
    return Rollout("t0", sample, [], 0, [], [], [turn, Turn(reply)], [], "answer")


def rated(reply: str, *answers: Any, task: Task = TASK) -> float | None:
    return RubricJudge().score(task, answered(reply, *answers))


WARM = {"temperature": 17}


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("It is 17 degrees in Oslo.", 5),
        ("It is 17.0 degrees in Oslo.", 5),
        ("Oslo has fine weather today.", 1),
        ("It is 170 degrees in Oslo.", 1),
        ("It is 17 degrees, wind 28 km/h.", 4),  # 5 - 1.5, rounded half up
        ("It is 17 degrees, wind 28 km/h, rain 35 mm.", 2),
        ("It is 17 degrees, wind 28 km/h, rain 35 mm, snow 46 mm.", 2),  # at most two inventions count
        ("It is 17 degrees. It is 17 degrees.", 4),
        ("It is 17 degrees. It IS 17 degrees. Bye.", 4),
        ("It is 17 degrees. " + "word " * (MAX_WORDS - 4), 5),
        ("It is 17 degrees. " + "word " * (MAX_WORDS - 3), 4),
        ("It's 17 C.", 5),
        ("It's 17 C", None),  # nine characters
        ("   17 C   ", None),
        ("", None),
    ],
)
def test_rubric_by_hand(reply: str, expected: float | None) -> None:
    assert rated(reply, WARM) == expected


def test_nothing_is_judged_without_a_tool_response_or_a_final_reply() -> None:
    reply = "It is 17 degrees in Oslo."
    assert RubricJudge().score(TASK, Rollout("t0", 0, [], 0, [], [], [Turn(reply)], [], "answer")) is None
    cut = answered(reply, WARM)
    cut.turns[-1].n_open = 1  # the last turn opens a call: it is no reply
    assert RubricJudge().score(TASK, cut) is None


def test_the_fact_is_what_the_own_successful_call_returned() -> None:
    assert rated("It is 21 degrees in Rome.", {"temperature": 21}) == 5
    assert rated("It is 3 degrees in Oslo.", {"temperature": 21}) == 1, "the value at the time of making is no answer"
    assert rated("It is 17 degrees in Oslo.", None, WARM) == 5, "failed calls are passed over"
    assert rated("There was an error, sorry.", None) == 1
    assert rated("It is lovely in Oslo.", {"wind": "low"}) == 1, "the answer lacks the field"


def test_the_second_fact_of_a_tool_is_of_its_second_call() -> None:
    task = replace(TASK, gold=[[CALL], [CALL]], facts=[Fact("get_weather", "temperature", 0, s) for s in (0, 1)])
    warm, cold = {"temperature": 17}, {"temperature": -4}
    assert coverage(task, answered("x", warm, cold), "First 17, then -4 degrees.") == 1.0
    assert coverage(task, answered("x", warm, cold), "It was -4 degrees.") == 0.5
    assert coverage(task, answered("x", warm), "First 17, then -4 degrees.") == 0.5
    other = answered("x", warm, cold, calls=[CALL, Call("get_tide", {})])
    assert coverage(task, other, "First 17, then -4 degrees.") == 0.5, "answers of another tool do not count"
    assert rated("It was -4 degrees.", warm, cold, task=task) == 3


def test_without_facts_a_reply_starts_from_three() -> None:
    task = replace(TASK, facts=[])
    assert rated("I hope that helps you.", WARM, task=task) == 3
    assert rated("It will be 99 degrees tomorrow.", WARM, task=task) == 2


@pytest.mark.parametrize(
    ("reply", "found"),
    [
        ("It is 17 degrees in Oslo.", []),
        ("It is 17C, or 17°.", []),
        ("About 7 degrees.", ["7"]),  # 7 is not held by 17
        ("Order BK-4821 on 2026-03-05.", ["bk-4821", "2026-03-05"]),
        ("Mail me@oslo.no, please!", ["me@oslo.no"]),
        ("Costs $1,299.50.", ["1,299.50"]),
    ],
)
def test_invented_values(reply: str, found: list[str]) -> None:
    assert invented(TASK, answered(reply, WARM), reply) == found


def test_values_of_request_arguments_and_answers_are_not_invented() -> None:
    task = replace(TASK, messages=[{"role": "user", "content": "Weather on 2026-03-05 in Oslo?"}])
    rollout = answered("x", {"id": "BK-4821"}, calls=[Call("get_weather", {"city": "Oslo", "days": 14})])
    assert invented(task, rollout, "BK-4821: from 2026-03-05 on for 14 days.") == []
    assert invented(TASK, answered("x", WARM), "BK-4821: from 2026-03-05 on for 14 days.") != []


@given(st.text(max_size=200), st.floats(0, 5), st.integers(0, 9), st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3), max_leaves=5,
))  # fmt: skip
@example("9" * 200, 0.0, 0, {"temperature": 10**100})
@settings(max_examples=200, deadline=None)
def test_any_reply_and_any_answer_get_a_whole_score_or_none(reply: str, noise: float, seed: int, answer: Any) -> None:
    rollout = answered(reply, answer)
    found = RubricJudge(noise, seed).score(TASK, rollout)
    assert (found is None) == (len(reply.strip()) < 10)
    assert found in (None, 1.0, 2.0, 3.0, 4.0, 5.0)
    assert found == RubricJudge(noise, seed).score(TASK, rollout)


def test_noise_depends_on_seed_task_sample_and_reply_only() -> None:
    def drawn(seed: int = 0, task: str = "t0", sample: int = 0, reply: str = "It is 17 degrees in Oslo.") -> float:
        judge = RubricJudge(noise=1.0, seed=seed)
        return judge._gaussian(replace(TASK, id=task), answered(reply, WARM, sample=sample), reply)

    base = drawn()
    assert base == drawn()
    others = [drawn(seed=1), drawn(task="t1"), drawn(sample=1), drawn(reply="It is 17 degrees in Oslo!")]
    assert len({base, *others}) == 5
    values = [drawn(sample=k) for k in range(2000)]
    assert abs(mean(values)) < 0.08 and abs(stdev(values) - 1) < 0.06
    assert drawn(sample=1999) == values[-1], "no state from one score to the next"


def test_noise_moves_scores_and_none_leaves_them() -> None:
    middle = replace(TASK, facts=[])
    rollouts = [answered("I hope that helps you.", WARM, sample=k) for k in range(400)]
    assert {RubricJudge().score(middle, r) for r in rollouts} == {3.0}
    noisy = [RubricJudge(noise=0.5).score(middle, r) for r in rollouts]
    # Rounding leaves 3 for |noise| < 0.5, which is one standard deviation: 68 %.
    assert 0.60 < noisy.count(3.0) / 400 < 0.76 and {2.0, 4.0} <= set(noisy)


def test_reading_values() -> None:
    assert numbers_in("1,299.50, -3 and A3, 2.5") == [1299.5, -3.0, 2.5]
    assert states("Code ab-12.", "AB-12") and not states("cab-12", "ab-12") and states("anything", "")
    tree = {"a": [1, {"b": "x"}], "c": None}
    assert list(scalars(tree)) == [1, "x", None]
    assert look_up(tree, "a.1.b") == "x" and look_up(tree, "a.2") is None and look_up(tree, "c.d") is None
