"""R_tool: its components against plain loops on random calls, its bounds, and the corners of value matching."""

from __future__ import annotations

import json
from typing import Any

import pytest
from helpers_rollouts import call_text, play
from hypothesis import given, settings
from hypothesis import strategies as st

from slca.rewards.process import SUCCESS, WEIGHTS, count_right, exactly_right, loosely_equal, score_process
from slca.rollout.parser import parse_turn
from slca.rollout.rollout import Rollout
from slca.tasks.task import Call, Task

REPLY = "That is all I found."
NAMES = st.sampled_from(["weather", "price", "now"])
VALUES = st.sampled_from(["Oslo", " oslo ", "Rome", 1, 1.0, "1", 2, True, "true", None, [1, 2], {"a": 1}])
CALLS = st.builds(Call, NAMES, st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3))
STEPS = st.lists(st.lists(CALLS, min_size=1, max_size=3), min_size=1, max_size=3)


def task_of(gold: list[list[Call]]) -> Task:
    return Task("t", [{"role": "user", "content": "Please."}], [], gold)


def rollout_of(steps: list[list[Call]], reply: str = REPLY) -> Rollout:
    texts = ["".join(call_text(c.name, **c.arguments) for c in step) for step in steps]
    return Rollout("t", 0, [], 0, [], [], [parse_turn(t) for t in [*texts, reply]], [], "answer")


def parts(gold: list[list[Call]], steps: list[list[Call]]) -> tuple[float, ...]:
    p = score_process(task_of(gold), rollout_of(steps))
    return p.format, p.name, p.key, p.value, p.parallel


# -- the reference ------------------------------------------------------------------------------------------------


def same(a: Any, b: Any) -> bool:
    """Loose equality of the values drawn here."""

    def read(v: Any) -> Any:
        if v is True or v is False:
            return str(v).lower()
        if isinstance(v, str):
            v = v.strip().lower()
            return ("number", float(v)) if v.replace(".", "", 1).isdigit() else v
        if isinstance(v, int | float):
            return ("number", float(v))
        return ("none",) if v is None else json.dumps(v, sort_keys=True)

    return read(a) == read(b)


def reference(gold: list[list[Call]], steps: list[list[Call]]) -> tuple[float, ...]:
    wanted, made = [c for s in gold for c in s], [c for s in steps for c in s]
    spare, hits = [c.name for c in made], 0
    for g in wanted:
        if g.name in spare:
            spare.remove(g.name)
            hits += 1
    precision, recall = hits / len(made), hits / len(wanted)
    name = 2 * precision * recall / (precision + recall) if hits else 0.0

    def worth(g: Call, c: Call) -> tuple[int, float]:
        keys, theirs = set(g.arguments), set(c.arguments)
        equal = len([k for k in keys & theirs if same(g.arguments[k], c.arguments[k])])
        return equal, len(keys & theirs) / len(keys | theirs) if keys | theirs else 1.0

    # Greedy: the best pair that is still free, the earlier gold and the earlier call first.
    free_gold, free_made, pair = list(range(len(wanted))), list(range(len(made))), {}
    while True:
        best = None
        for i in free_gold:
            for j in free_made:
                same_tool = wanted[i].name == made[j].name
                if same_tool and (best is None or worth(wanted[i], made[j]) > worth(wanted[best[0]], made[best[1]])):
                    best = i, j
        if best is None:
            break
        pair[best[0]] = made[best[1]]
        free_gold.remove(best[0])
        free_made.remove(best[1])
    keys, equal, total = [], 0, 0
    for i, g in enumerate(wanted):
        if g.arguments:
            total += len(g.arguments)
            found = worth(g, pair[i]) if i in pair else (0, 0.0)
            equal += found[0]
            keys.append(found[1])
    key, value = (sum(keys) / len(keys), equal / total) if total else (1.0, 1.0)
    return 1.0, name, key, value, float(len(steps[0]) == len(gold[0]))


@given(STEPS, STEPS)
@settings(max_examples=300, deadline=None)
def test_components_equal_the_reference(gold: list[list[Call]], steps: list[list[Call]]) -> None:
    found = parts(gold, steps)
    assert found == pytest.approx(reference(gold, steps))
    assert all(0.0 <= part <= 1.0 for part in found)
    for weights in WEIGHTS.values():
        total = score_process(task_of(gold), rollout_of(steps)).total(weights)
        named = (weights.format, weights.name, weights.key, weights.value, weights.parallel)
        assert total == pytest.approx(sum(w * part for w, part in zip(named, found, strict=True)))
        assert 0.0 <= total <= 1.0 + 1e-12


@given(STEPS)
@settings(max_examples=100, deadline=None)
def test_the_gold_calls_earn_one_in_every_component_and_are_all_right(gold: list[list[Call]]) -> None:
    assert parts(gold, gold) == (1.0, 1.0, 1.0, 1.0, 1.0)
    assert score_process(task_of(gold), rollout_of(gold)).total(WEIGHTS["paper"]) == pytest.approx(1.0)
    flat = [c for step in gold for c in step]
    assert count_right(flat, flat) == len(flat)


@given(STEPS, STEPS, st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_order_within_a_step_counts_for_no_name_and_no_right_call(
    gold: list[list[Call]], steps: list[list[Call]], rng: Any
) -> None:
    shuffled = [rng.sample(step, len(step)) for step in steps]
    before, after = parts(gold, steps), parts(gold, shuffled)
    assert (before[0], before[1], before[4]) == (after[0], after[1], after[4])
    flat = [c for step in gold for c in step]
    assert count_right([c for s in steps for c in s], flat) == count_right([c for s in shuffled for c in s], flat)


@given(STEPS)
@settings(max_examples=50, deadline=None)
def test_distinct_gold_calls_in_any_order_of_one_step_earn_one(gold: list[list[Call]]) -> None:
    step = [Call(c.name, {"id": k, **c.arguments}) for k, c in enumerate(c for s in gold for c in s)]
    assert parts([step], [step[::-1]]) == (1.0, 1.0, 1.0, 1.0, 1.0)


# -- corners ------------------------------------------------------------------------------------------------------


def test_the_best_match_is_taken_before_the_first() -> None:
    a, b = Call("weather", {"city": "Oslo", "days": 1}), Call("weather", {"city": "Rome", "days": 2})
    half = Call("weather", {"city": "Rome", "days": 1})
    # Both gold calls share one value with ``half``, the first one its days; the exact call is not given away.
    assert parts([[a, b]], [[half, a]])[3] == pytest.approx(3 / 4)


def test_one_call_serves_one_gold_call() -> None:
    oslo = Call("weather", {"city": "Oslo"})
    assert parts([[oslo, oslo]], [[oslo]]) == pytest.approx((1, 2 / 3, 0.5, 0.5, 0))
    assert count_right([oslo], [oslo, oslo]) == 1 and count_right([oslo, oslo], [oslo]) == 1


def test_gold_calls_without_arguments_leave_key_and_value() -> None:
    now, oslo = Call("now", {}), Call("weather", {"city": "Oslo"})
    assert parts([[now]], [[oslo]]) == (1, 0, 1, 1, 1)
    assert parts([[now, oslo]], [[now, Call("weather", {"town": "Oslo"})]]) == (1, 1, 0, 0, 1)
    assert parts([[now]], [[Call("now", {"zone": "CET"})]]) == (1, 1, 1, 1, 1)
    assert not exactly_right(Call("now", {"zone": "CET"}), now)


def test_the_known_hole_a_lone_call_of_a_wrong_tool_earns_two_fifths() -> None:
    p = score_process(task_of([[Call("weather", {"city": "Oslo"})]]), rollout_of([[Call("price", {"item": "x"})]]))
    assert p.total(WEIGHTS["paper"]) == pytest.approx(0.40) and p.total(WEIGHTS["paper"]) < SUCCESS


def test_only_the_first_step_counts_for_parallel() -> None:
    a, b, c = (Call("weather", {"city": city}) for city in ("Oslo", "Rome", "Bern"))
    assert parts([[a], [b, c]], [[a], [b], [c]])[4] == 1
    assert parts([[a, b], [c]], [[a], [b, c]])[4] == 0


def test_format_counts_the_larger_number_of_tags_outside_thoughts() -> None:
    ok = call_text("now")
    task = task_of([[Call("now", {})]])
    for texts, expected in [
        ([ok + "</tool_call>", REPLY], 1 / 2),
        ([ok, ok + "<tool_call>[]</tool_call>", REPLY], 2 / 3),
        (["<think><tool_call>{</think>" + ok, REPLY], 1),
        (["</tool_call>", REPLY], 0),
        (['<tool_call>[{"name": "now"}, {"name": "now"}]</tool_call>', REPLY], 1),
        ([ok, "<tool_call>" + "x" * 50], 1 / 2),
    ]:
        assert score_process(task, play(task, *texts)).format == pytest.approx(expected), texts


def test_success_needs_nine_tenths_and_rounding_does_not_cost_it() -> None:
    gold = [[Call("weather", {"city": "Oslo", "days": 2})]]
    near = score_process(task_of(gold), rollout_of([[Call("weather", {"city": "Oslo", "days": 3})]]))
    assert near.total(WEIGHTS["paper"]) == pytest.approx(0.9) and near.total(WEIGHTS["paper"]) >= SUCCESS
    far = score_process(task_of(gold), rollout_of([[Call("weather", {"city": "Rome", "days": 3})]]))
    assert far.total(WEIGHTS["paper"]) == pytest.approx(0.8) and far.total(WEIGHTS["paper"]) < SUCCESS


@pytest.mark.parametrize(
    ("a", "b"), [(1234567890, 1234567891), ("4155550124", "4155550125"), (1e12, 1e12 + 1), (0.1, 0.1000001)]
)
def test_neighbouring_numbers_are_not_the_same_number(a: Any, b: Any) -> None:
    assert not loosely_equal(a, b) and loosely_equal(a, a) and loosely_equal(b, str(b))


def test_numbers_within_the_published_tolerance_are_equal() -> None:
    assert loosely_equal(0.1 + 0.2, 0.3) and loosely_equal("0.30", 0.3) and loosely_equal(5, "5.0")
    assert not loosely_equal(1.0, 1.0 + 1e-8)


def test_a_right_call_is_taken_off_by_place_not_by_pythons_equality() -> None:
    one, yes = Call("now", {"a": 1}), Call("now", {"a": True})
    assert one == yes and not exactly_right(one, yes)
    assert count_right([one, yes], [yes, one]) == 2
