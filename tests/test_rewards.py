"""HierR by hand: process components, the judge's rubric, the scalar and the guard."""

from __future__ import annotations

import random

import pytest
from helpers_rollouts import call_text, play
from hypothesis import given, settings
from hypothesis import strategies as st

from slca.rewards.hierarchy import reward_tensors, score
from slca.rewards.judge import RubricJudge, invented, states
from slca.rewards.options import RewardConfig
from slca.rewards.process import WEIGHTS, loosely_equal, make_weights, score_process
from slca.simulator.simulator import episode_of
from slca.tasks.generate import generate
from slca.tasks.task import Call, Fact, Task

NUMBER = {"type": "integer", "minimum": 1, "maximum": 99}


def tool(name: str, **properties: str) -> dict:
    schema = {"type": "object", "properties": {k: {"type": v} for k, v in properties.items()}, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "description": name, "parameters": schema}}


TOOLS = [tool("weather", city="string"), tool("price", item="string", count="integer"), tool("now")]
RETURNS = {
    "weather": {"type": "object", "properties": {"temperature": NUMBER}},
    "price": {"type": "object", "properties": {"total": NUMBER}},
    "now": {"type": "object", "properties": {"hour": NUMBER}},
}


def make(*gold: list[Call]) -> Task:
    """A task with these gold steps; a fact for the one field of each gold call's response."""
    base = Task("t", [{"role": "user", "content": "Please."}], TOOLS, list(gold), returns=RETURNS, sim_seed=3)
    episode = episode_of(base)
    facts = []
    for s, step in enumerate(gold):
        for i, c in enumerate(step):
            ((field, value),) = episode.call(c.name, c.arguments).value.items()
            facts.append(Fact(c.name, field, value, s, i))
    return Task("t", base.messages, TOOLS, list(gold), facts, ["single"], RETURNS, 3)


OSLO, ROME = Call("weather", {"city": "Oslo"}), Call("weather", {"city": "Rome"})
LAMPS = Call("price", {"item": "lamp", "count": 2})
ONE, TWO, CHAIN = make([OSLO]), make([OSLO, LAMPS]), make([OSLO], [LAMPS])
NONE = Task("n", [{"role": "user", "content": "Hello there."}], TOOLS, [], returns=RETURNS)
oslo, rome = call_text("weather", city="Oslo"), call_text("weather", city="Rome")
lamps = call_text("price", item="lamp", count=2)
REPLY = "That is all I found."


@pytest.mark.parametrize(
    ("task", "texts", "expected"),
    [
        # (format, name, key, value, parallel)
        (ONE, [oslo, REPLY], (1, 1, 1, 1, 1)),
        (ONE, [rome, REPLY], (1, 1, 1, 0, 1)),
        (ONE, [call_text("weather", city=" oslo "), REPLY], (1, 1, 1, 1, 1)),
        (ONE, [call_text("weather", town="Oslo"), REPLY], (1, 1, 0, 0, 1)),
        (ONE, [call_text("weather", city="Oslo", unit="c"), REPLY], (1, 1, 0.5, 1, 1)),
        (ONE, [lamps, REPLY], (1, 0, 0, 0, 1)),
        (ONE, [oslo, oslo, REPLY], (1, 2 / 3, 1, 1, 1)),
        (ONE, [oslo + lamps, REPLY], (1, 2 / 3, 1, 1, 0)),
        (ONE, [REPLY], (0, 0, 0, 0, 0)),
        (ONE, ["<tool_call>{oops</tool_call>", REPLY], (0, 0, 0, 0, 0)),
        (ONE, [oslo + "<tool_call>{oops", REPLY], (0.5, 1, 1, 1, 1)),
        (ONE, ["<tool_call>{oops</tool_call>", oslo, REPLY], (0.5, 1, 1, 1, 1)),
        (TWO, [oslo + lamps, REPLY], (1, 1, 1, 1, 1)),
        (TWO, [lamps + oslo, REPLY], (1, 1, 1, 1, 1)),
        (TWO, [oslo, lamps, REPLY], (1, 1, 1, 1, 0)),
        (TWO, [oslo, REPLY], (1, 2 / 3, 0.5, 1 / 3, 0)),
        (TWO, [oslo + call_text("price", item="lamp"), REPLY], (1, 1, 0.75, 2 / 3, 1)),
        (CHAIN, [oslo, lamps, REPLY], (1, 1, 1, 1, 1)),
        (CHAIN, [oslo + lamps, REPLY], (1, 1, 1, 1, 0)),
        (make([Call("now", {})]), [call_text("now"), REPLY], (1, 1, 1, 1, 1)),
        (NONE, [REPLY], (0, 0, 0, 0, 0)),
        (NONE, [oslo, REPLY], (1, 0, 0, 0, 0)),
    ],
)
def test_components_by_hand(task: Task, texts: list[str], expected: tuple[float, ...]) -> None:
    p = score_process(task, play(task, *texts))
    assert (p.format, p.name, p.key, p.value, p.parallel) == pytest.approx(expected)


def test_presets_sum_to_one_and_the_paper_weights_are_the_papers() -> None:
    for weights in WEIGHTS.values():
        assert sum(vars(weights).values()) == pytest.approx(1.0)
    p = score_process(TWO, play(TWO, oslo, lamps, REPLY))
    assert p.total(WEIGHTS["paper"]) == pytest.approx(0.7)
    assert p.total(make_weights({"format": 0, "name": 0, "key": 0, "value": 0, "parallel": 2.0})) == 0
    with pytest.raises(ValueError, match="presets"):
        make_weights("papers")
    with pytest.raises(ValueError, match="unknown components"):
        make_weights({"formt": 1})


TEXTS = [oslo, rome, lamps, oslo + lamps, REPLY, "<tool_call>", "</tool_call>", "<tool_call>[]</tool_call>"]


@given(st.lists(st.sampled_from(TEXTS), max_size=5), st.sampled_from([ONE, TWO, CHAIN, NONE]))
@settings(max_examples=150, deadline=None)
def test_every_component_stays_in_its_range(texts: list[str], task: Task) -> None:
    rollout = play(task, *texts)
    b = score(task, rollout, RubricJudge(noise=1.0), RewardConfig())
    for value in (b.format, b.name, b.key, b.value, b.parallel, b.process, b.outcome, b.action, b.complete):
        assert 0.0 <= value <= 1.0
    assert b.judge in (None, 1.0, 2.0, 3.0, 4.0, 5.0) and -0.5 <= b.summary <= 1.0 and 0 <= b.tool <= 1
    assert b.n_calls == len(rollout.calls)


@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [
        ("Oslo", " oslo", True), (3, 3.0, True), ("3", 3, True), (True, "true", True), (True, 1, False),
        (None, "none", False), ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True), ([1, 2], [2, 1], False),
        (1.0, 1.0 + 1e-12, True), ("nan", "nan", True), (10**400, 10**400, True), ("1_0", 10, False),
    ],
)  # fmt: skip
def test_loose_equality(a: object, b: object, equal: bool) -> None:
    assert loosely_equal(a, b) is equal and loosely_equal(b, a) is equal


# -- the judge ----------------------------------------------------------------------------------------------------


def judged(task: Task, *texts: str) -> float | None:
    return RubricJudge().score(task, play(task, *texts))


def fact(task: Task, k: int = 0) -> int:
    return int(task.facts[k].value)


def other(*taken: int) -> int:
    return next(n for n in range(100, 999) if n not in taken)


def test_the_rubric_by_hand() -> None:
    a, b = fact(TWO), fact(TWO, 1)
    assert judged(TWO, oslo + lamps, f"It is {a} degrees and costs {b} dollars.") == 5
    assert judged(TWO, oslo + lamps, f"It is {a} degrees in Oslo now.") in ((3,) if a != b else (5,))
    assert judged(TWO, oslo + lamps, "I have looked it up for you.") == 1
    wrong = other(a, b)
    assert judged(TWO, oslo + lamps, f"It is {a} degrees, {b} dollars, {wrong} people.") == 4
    assert judged(TWO, oslo + lamps, f"It is {a} degrees and costs {b}. " + "So it is, my friend. " * 2) == 4
    assert judged(ONE, oslo, f"{fact(ONE)}") is None, "under ten characters"
    assert judged(ONE, f"It is {fact(ONE)} degrees there.") is None, "no tool response"
    assert judged(ONE, oslo) is None, "no reply"


def test_a_fact_is_what_the_rollouts_own_call_returned() -> None:
    reply = f"It is {fact(ONE)} degrees in Oslo."
    assert judged(ONE, oslo, reply) == 5
    own = play(ONE, rome, "x").responses[0].value["temperature"]
    assert own != fact(ONE)
    assert judged(ONE, rome, f"It is {own} degrees in Rome.") == 5
    assert judged(ONE, rome, reply) < 3


def test_a_needless_call_with_a_fine_reply_is_worth_three() -> None:
    assert judged(NONE, oslo, "I hope that helps you.") == 3


def test_values_are_stated_as_numbers_and_whole_words() -> None:
    assert states("It costs 1,299.50 dollars", 1299.5) and not states("13 people", 3) and not states("A3", 3)
    assert states("SUNNY today", "sunny") and not states("unsunny", "sunny")
    assert states("Yes, it does", True) and states("It is not", False)


def test_invented_values_are_found() -> None:
    rollout = play(ONE, oslo, "x")
    t = fact(ONE)
    assert invented(ONE, rollout, f"It is {t} degrees.") == []
    assert invented(ONE, rollout, "Order BK-4821 by 2026-03-05, mail a@b.com") == ["bk-4821", "2026-03-05", "a@b.com"]


def test_noise_is_seeded_and_does_not_depend_on_the_order() -> None:
    tasks = generate(30, "train", 5, ["single"])
    rollouts = [play(t, call_text(t.gold[0][0].name, **t.gold[0][0].arguments), "I have looked it up.") for t in tasks]
    judge = RubricJudge(noise=1.0, seed=4)
    first = [judge.score(t, r) for t, r in zip(tasks, rollouts, strict=True)]
    order = list(range(30))
    random.Random(0).shuffle(order)
    again = {i: RubricJudge(noise=1.0, seed=4).score(tasks[i], rollouts[i]) for i in order}
    assert first == [again[i] for i in range(30)]
    assert first != [RubricJudge(noise=1.0, seed=5).score(t, r) for t, r in zip(tasks, rollouts, strict=True)]
    assert len(set(first)) > 1 and all(s in (1, 2, 3, 4, 5) for s in first)


# -- the whole ----------------------------------------------------------------------------------------------------


def whole(task: Task, *texts: str, **settings: object):
    return score(task, play(task, *texts), RubricJudge(), RewardConfig(**settings))


def test_the_scalar_is_the_weighted_sum() -> None:
    b = whole(ONE, oslo, f"It is {fact(ONE)} degrees in Oslo.", w_process=0.5, w_summary=2.0)
    assert (b.process, b.outcome, b.total) == pytest.approx((1.0, 1.0, 2.5))
    assert (b.tool, b.summary) == (1.0, 1.0) and b.success and b.action == 1.0 and b.complete == 1.0


def test_the_guard_replaces_both_segment_rewards() -> None:
    b = whole(ONE, "I will not call anything.")
    assert b.no_call and (b.total, b.tool, b.summary) == (-0.5, 0.0, -0.5)
    b = whole(ONE, "I will not call anything.", no_call_score=-1.0)
    assert (b.total, b.tool, b.summary) == (-1.0, 0.0, -1.0)
    assert not whole(NONE, "There is nothing to call.").no_call


def test_a_right_abstention_earns_only_with_the_option() -> None:
    assert whole(NONE, "There is nothing to call.").total == 0.0
    b = whole(NONE, "There is nothing to call.", abstention=True)
    assert b.outcome == 1.0 and b.summary == 1.0
    assert whole(NONE, oslo, "There it is for you.", abstention=True).outcome == 0.5


def test_counts_that_the_baselines_read() -> None:
    b = whole(ONE, oslo, oslo, REPLY)
    assert b.repeats == 1 and b.n_correct == 1 and b.n_calls == 2 and b.invalid == 0 and b.format_valid
    b = whole(ONE, call_text("nothing"), call_text("weather", town="x"), REPLY)
    assert b.invalid == 2 and b.complete == 0.0
    assert not whole(ONE, oslo + "<tool_call>{", REPLY).format_valid


def test_verifier_votes_flip_at_their_rate() -> None:
    tasks = generate(150, "train", 6, ["single"])
    votes = []
    for t in tasks:
        rollout = play(t, call_text(t.gold[0][0].name, **t.gold[0][0].arguments), REPLY)
        votes.append(score(t, rollout, RubricJudge(), RewardConfig(verifier_votes=3, verifier_flip=0.2)).complete)
    assert 0.73 < sum(votes) / len(votes) < 0.87


def test_tensors_keep_order_and_names() -> None:
    parts = [whole(ONE, oslo, REPLY), whole(ONE, "I will not call anything.")]
    tensors = reward_tensors(parts)
    assert tensors["tool"].tolist() == [parts[0].tool, 0.0] and tensors["no_call"].tolist() == [0.0, 1.0]
