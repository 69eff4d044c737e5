"""Advantages of SLCA and the baselines in numbers worked out by hand, and whose reward moves whose tokens."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import mean, stdev
from typing import Any

import pytest
import torch
from helpers import make_task
from helpers_rollouts import batch_of, call_text, play
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines import METHODS, make_method
from slca.credit import SLCA, GroupBatch, group_normalise
from slca.rewards.hierarchy import score
from slca.rewards.judge import RubricJudge
from slca.rewards.options import RewardConfig
from slca.segments import SUMMARY, TOOL
from slca.simulator.simulator import episode_of
from slca.trainer import stack

#: Two rollouts with calls and one that made none, in one group.
MASKS = ["cc.w", "c..w", "..ww"]
BASE: dict[str, list[float]] = {
    "tool": [1.0, 0.5, 0.0], "summary": [1.0, 0.25, -0.5], "total": [2.0, 0.75, -0.5], "success": [1.0, 0.0, 0.0],
    "outcome": [1.0, 0.25, 0.0], "action": [1.0, 0.5, 0.0], "n_correct": [2.0, 1.0, 0.0], "complete": [1.0, 2 / 3, 0.0],
    "repeats": [1.0, 0.0, 0.0], "invalid": [0.0, 2.0, 0.0], "format_valid": [1.0, 1.0, 1.0], "no_call": [0.0, 0.0, 1.0],
    "toolrl": [4.0, 1.5, -2.0],
}  # fmt: skip


def group(**changes: list[float]) -> GroupBatch:
    return batch_of([0, 0, 0], MASKS, **{**BASE, **changes})


def rows(batch: GroupBatch, name: str, **options: Any) -> list[list[float]]:
    return make_method(name, **options)(batch).advantages.tolist()


def close(found: list[list[float]], expected: list[list[float]]) -> None:
    for row, wanted in zip(found, expected, strict=True):
        assert row == pytest.approx(wanted, abs=2e-5)


def z(values: list[float]) -> list[float]:
    return [(v - mean(values)) / (stdev(values) + 1e-6) for v in values]


def test_slca() -> None:
    # Tool: 1 and 0.5 over the two that called (the third leaves mean and std). Summary over all three.
    h, (a, b, c) = math.sqrt(0.5), z([1.0, 0.25, -0.5])
    close(rows(group(), "slca"), [[h, h, 0, a], [-h, 0, 0, b], [0, 0, c, c]])
    weighted = rows(group(), "slca", lambda_tool=2.0, lambda_sum=0.5)
    close(weighted, [[2 * h, 2 * h, 0, a / 2], [-2 * h, 0, 0, b / 2], [0, 0, c / 2, c / 2]])
    close(rows(group(), "slca", scale_by_std=False), [[0.25, 0.25, 0, 0.75], [-0.25, 0, 0, 0], [0, 0, -0.75, -0.75]])


def test_grpo() -> None:
    a, b, c = z([2.0, 0.75, -0.5])
    close(rows(group(), "grpo"), [[a, a, 0, a], [b, 0, 0, b], [0, 0, c, c]])
    close(rows(group(), "grpo", scale_by_std=False), [[1.25, 1.25, 0, 1.25], [0, 0, 0, 0], [0, 0, -1.25, -1.25]])


def test_toolpo_z_takes_the_share_of_right_calls() -> None:
    # The rollout without a call has outcome -0.5: deviations 5/6, -1/6, -4/6, so std = sqrt(21) / 6.
    s = math.sqrt(21)
    found = rows(group(), "toolpo")
    close(found, [[5 / s + 1, 5 / s + 1, 0, 5 / s], [-1 / s, 0, 0, -1 / s], [0, 0, -4 / s, -4 / s]])


def test_toolpo_mean_takes_the_sum_over_calls_and_no_std() -> None:
    found = rows(group(), "toolpo", normalisation="mean")
    close(found, [[5 / 6 + 1, 5 / 6 + 1, 0, 5 / 6], [-1 / 6, 0, 0, -1 / 6], [0, 0, -4 / 6, -4 / 6]])


def test_toolpo_with_the_judges_outcome() -> None:
    found = rows(group(), "toolpo", normalisation="mean", outcome="judge")
    close(found, [[1.75, 1.75, 0, 0.75], [0, 0, 0, 0], [0, 0, -0.75, -0.75]])


def test_rltr_costs_and_what_it_trains() -> None:
    # 1 - 0.1 * 1, 2/3 - 0.2 * 2, and the no-call score of the third, which counts in the statistics.
    a, b, _ = z([0.9, 2 / 3 - 0.4, -0.5])
    credit = make_method("rltr")(group())
    close(credit.advantages.tolist(), [[a, a, 0, 0], [b, 0, 0, 0], [0, 0, 0, 0]])
    assert credit.loss_mask.tolist() == [[True, True, False, False], [True] + [False] * 3, [False] * 4]
    a, b, _ = z([0.5, 2 / 3 - 2.0, -0.5])
    close(rows(group(), "rltr", repeat=0.5, error=1.0), [[a, a, 0, 0], [b, 0, 0, 0], [0, 0, 0, 0]])


def test_rltr_invalid_format_is_minus_one_unless_there_was_no_call_at_all() -> None:
    a, b, _ = z([0.9, -1.0, -0.5])
    found = rows(group(format_valid=[1.0, 0.0, 0.0]), "rltr")
    close(found, [[a, a, 0, 0], [b, 0, 0, 0], [0, 0, 0, 0]])


@pytest.mark.parametrize("name", [n for n in METHODS if n != "rltr"])
def test_all_others_train_every_policy_token_and_no_other(name: str) -> None:
    batch = group()
    credit = make_method(name)(batch)
    assert torch.equal(credit.loss_mask, batch.policy_mask)
    assert not credit.advantages[~batch.policy_mask].any()


# -- groups that lack something -----------------------------------------------------------------------------------


def test_no_rollout_of_the_group_called_a_tool() -> None:
    batch = batch_of([0, 0, 1, 1], ["..ww", "...w", "cc.w", "c..w"], tool=[1.0, 0.0, 1.0, 0.0], summary=[1, 0, 0, 1])
    h = math.sqrt(0.5)
    close(rows(batch, "slca"), [[0, 0, h, h], [0, 0, 0, -h], [h, h, 0, -h], [-h, 0, 0, h]])


def test_a_rollout_without_policy_tokens_leaves_the_statistics() -> None:
    full = batch_of([0, 0, 0], ["c.w", "c.w", "..."], tool=[1.0, 0.0, 9.0], summary=[0.0, 1.0, 9.0])
    without = batch_of([0, 0], ["c.w", "c.w"], tool=[1.0, 0.0], summary=[0.0, 1.0])
    assert rows(full, "slca") == [*rows(without, "slca"), [0.0, 0.0, 0.0]]


def test_structural_boundary_leaves_a_cut_call_out_of_the_summaries() -> None:
    batch = batch_of([0, 0, 0], ["c.w", "c.w", "c.c"], tool=[1.0, 0.5, 0.0], summary=[1.0, 0.0, 0.0])
    h = math.sqrt(0.5)
    close(rows(batch, "slca", boundary="structural"), [[1, 0, h], [0, 0, -h], [-1, 0, -1]])
    a, b, c = z([1.0, 0.0, 0.0])
    close(rows(batch, "slca"), [[1, 0, a], [0, 0, b], [-1, 0, c]])


def test_groups_do_not_see_each_other() -> None:
    one = batch_of([4, 2, 4, 2], ["c.w"] * 4, tool=[1.0, 0.3, 0.0, 0.1], summary=[0.0, 1.0, 0.5, 0.2])
    for which in (4, 2):
        pick = (one.group == which).nonzero().flatten()
        alone = GroupBatch(
            one.group[pick], one.policy_mask[pick], one.opens_call[pick], {k: v[pick] for k, v in one.rewards.items()}
        )
        assert torch.equal(SLCA()(one).advantages[pick], SLCA()(alone).advantages)


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=8), st.floats(-3, 3), st.floats(0.5, 4))
@settings(max_examples=100, deadline=None)
def test_normalised_groups_have_mean_zero_and_forget_shift_and_scale(v: list[float], shift: float, by: float) -> None:
    values, one = torch.tensor(v, dtype=torch.float64), torch.zeros(len(v), dtype=torch.long)
    found = group_normalise(values, one)
    assert abs(found.sum().item()) < 1e-4
    assert group_normalise(values, one, scale_by_std=False).tolist() == pytest.approx(
        [x - math.fsum(v) / len(v) for x in v], abs=1e-5
    )
    if stdev(v) > 1e-2:  # far above epsilon
        torch.testing.assert_close(group_normalise(by * values + shift, one), found, rtol=1e-3, atol=1e-3)
        assert found.double().std().item() == pytest.approx(1.0, abs=1e-3)


# -- whose reward moves whose tokens ------------------------------------------------------------------------------

THREE = ["cc.w", "c..w", "c.ww"]


def changed(name: str, moved: str, which: int, index: int, to: float, **options: Any) -> bool:
    """Whether an advantage in segment ``which`` changes when one rollout's reward ``moved`` becomes ``to``.

    ``total`` follows as tool + summary, ``outcome`` as summary, ``success`` as tool >= 0.9.
    """

    def advantages(tool: list[float], summary: list[float]) -> torch.Tensor:
        total = [a + b for a, b in zip(tool, summary, strict=True)]
        rewards = {**BASE, "no_call": [0.0] * 3, "tool": tool, "summary": summary, "total": total, "outcome": summary}
        rewards["success"] = [float(t >= 0.9) for t in tool]
        credit = make_method(name, **options)(batch_of([0, 0, 0], THREE, **rewards))
        return credit.advantages[credit.segments == which]

    before = {"tool": [0.7, 0.5, 0.2], "summary": [1.0, 0.25, 0.5]}
    after = {k: list(v) for k, v in before.items()}
    after[moved][index] = to
    return not torch.equal(advantages(**before), advantages(**after))


@given(st.sampled_from(["paper", "structural"]), st.booleans(), st.integers(0, 2), st.floats(-10, 10))
@settings(max_examples=60, deadline=None)
def test_slca_no_summary_moves_a_call_and_no_call_moves_a_summary(
    boundary: str, scale: bool, index: int, to: float
) -> None:
    options = {"boundary": boundary, "scale_by_std": scale, "lambda_tool": 0.7}
    assert not changed("slca", "summary", TOOL, index, to, **options)
    assert not changed("slca", "tool", SUMMARY, index, to, **options)


@pytest.mark.parametrize("index", [0, 1, 2])
def test_slca_tokens_follow_their_own_reward(index: int) -> None:
    assert changed("slca", "tool", TOOL, index, 0.9) and changed("slca", "summary", SUMMARY, index, 0.9)


@pytest.mark.parametrize("index", [0, 1, 2])
def test_grpo_and_toolpo_contaminate_both_ways(index: int) -> None:
    assert changed("grpo", "summary", TOOL, index, 0.9) and changed("grpo", "tool", SUMMARY, index, 0.9)
    assert changed("toolpo", "summary", TOOL, index, 0.9, outcome="judge")
    assert changed("toolpo", "tool", SUMMARY, index, 0.95, outcome="rule")


def test_one_shared_scalar_on_both_segments_is_grpo() -> None:
    """The support control: with the same scalar in both places, routing alone changes nothing."""
    total = [2.0, 0.75, -0.5]
    batch = batch_of([0, 0, 0], THREE, **{**BASE, "tool": total, "summary": total, "total": total})
    assert rows(batch, "slca") == rows(batch, "grpo")
    # Where a rollout lacks the tool segment, the routed statistics are over fewer members.
    assert rows(replace(batch, policy_mask=group().policy_mask), "slca") != rows(group(total=total), "grpo")


def test_same_calls_and_other_replies_from_rollout_to_advantage() -> None:
    task = make_task()
    call = call_text("get_weather", city="Oslo")
    degrees = episode_of(task).call("get_weather", {"city": "Oslo"}).value["temperature"]
    replies = [f"It is {degrees} degrees in Oslo.", "I have looked it up for you.", "It is lovely there today."]
    rollouts = [play(task, call, reply, sample=k) for k, reply in enumerate(replies)]
    parts = [score(task, r, RubricJudge(), RewardConfig()) for r in rollouts]
    assert [p.outcome for p in parts] == [1.0, 0.0, 0.0] and {p.process for p in parts} == {1.0}
    batch = stack([rollouts], [parts]).group_batch()
    tool, summary = slice(0, 2), slice(3, 5)
    a, b, c = z([1.0, 0.0, 0.0])
    slca = SLCA()(batch).advantages
    assert not slca[:, tool].any()
    assert slca[:, summary].flatten().tolist() == pytest.approx([a, a, b, b, c, c], abs=1e-5)
    for name, options in (("grpo", {}), ("toolpo", {"outcome": "judge"})):
        assert make_method(name, **options)(batch).advantages[:, tool].flatten().tolist() == pytest.approx(
            [a, a, b, b, c, c], abs=1e-5
        )
