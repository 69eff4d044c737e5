"""Advantages of every method against a float64 reference in plain loops, and the properties that define them."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from helpers_rollouts import random_batch
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines import make_method
from slca.credit import SLCA, GroupBatch, advantage_stats, group_normalise
from slca.segments import NONE, SUMMARY, TOOL, segment

ARMS = [
    ("slca", {}), ("slca", {"lambda_tool": 0.5, "lambda_sum": 2.0}), ("slca", {"scale_by_std": False}),
    ("slca", {"boundary": "structural"}), ("grpo", {}), ("grpo", {"scale_by_std": False}), ("toolpo", {}),
    ("toolpo", {"normalisation": "mean"}), ("toolpo", {"outcome": "judge"}), ("rltr", {}), ("rltr", {"repeat": 1.0}),
]  # fmt: skip


# -- the reference: written from the equations, one number at a time ----------------------------------------------


def runs_of(mask: list[bool]) -> list[list[int]]:
    runs: list[list[int]] = []
    for t, on in enumerate(mask):
        if on and (t == 0 or not mask[t - 1]):
            runs.append([])
        if on:
            runs[-1].append(t)
    return runs


def segments_of(mask: list[bool], opens: list[bool], structural: bool) -> tuple[set[int], set[int]]:
    """(tool positions, summary positions)."""
    runs = runs_of(mask)
    if not runs:
        return set(), set()
    tool = {t for run in runs[:-1] for t in run}
    if structural and any(opens[t] for t in runs[-1]):
        return tool | set(runs[-1]), set()
    return tool, set(runs[-1])


def z(values: dict[int, float], scale: bool = True) -> dict[int, float]:
    if len(values) <= 1:
        return dict.fromkeys(values, 0.0)
    mean = math.fsum(values.values()) / len(values)
    std = math.sqrt(math.fsum((v - mean) ** 2 for v in values.values()) / (len(values) - 1))
    return {i: (v - mean) / (std + 1e-6) if scale else v - mean for i, v in values.items()}


def reference(name: str, options: dict, batch: GroupBatch) -> list[list[float]]:
    n, length = batch.policy_mask.shape
    masks, opens, groups = batch.policy_mask.tolist(), batch.opens_call.tolist(), batch.group.tolist()
    reward = {k: v.tolist() for k, v in batch.rewards.items()}
    out = [[0.0] * length for _ in range(n)]
    parts = [segments_of(masks[i], opens[i], options.get("boundary") == "structural") for i in range(n)]
    for g in set(groups):
        members = [i for i in range(n) if groups[i] == g]

        def spread(values: dict[int, float], where: int | None, scale: bool, weight: float = 1.0) -> None:
            for i, a in z(values, scale).items():
                positions = parts[i][where] if where is not None else parts[i][0] | parts[i][1]
                for t in positions:
                    out[i][t] += weight * a

        scale = options.get("scale_by_std", True)
        if name == "slca":
            for which, key, weight in ((0, "tool", "lambda_tool"), (1, "summary", "lambda_sum")):
                present = {i: reward[key][i] for i in members if parts[i][which]}
                spread(present, which, scale, options.get(weight, 1.0))
        elif name == "grpo":
            spread({i: reward["total"][i] for i in members}, None, scale)
        elif name == "toolpo":
            scale = options.get("normalisation", "z") == "z"
            outcome = "success" if options.get("outcome", "rule") == "rule" else "outcome"
            success = {i: reward["total"][i] if reward["no_call"][i] else reward[outcome][i] for i in members}
            spread(success, None, scale)
            spread({i: reward["action" if scale else "n_correct"][i] for i in members}, 0, scale)
        elif name == "rltr":
            planner = {}
            for i in members:
                planner[i] = reward["complete"][i] - options.get("repeat", 0.1) * reward["repeats"][i]
                planner[i] -= 0.2 * reward["invalid"][i]
                planner[i] = planner[i] if reward["format_valid"][i] else -1.0
                planner[i] = reward["total"][i] if reward["no_call"][i] else planner[i]
            spread(planner, 0, True)
    return out


@pytest.mark.parametrize(("name", "options"), ARMS, ids=lambda x: str(x))
def test_advantages_equal_the_reference(name: str, options: dict) -> None:
    for seed in range(40):
        batch = random_batch(seed)
        credit = make_method(name, **options)(batch)
        expected = torch.tensor(reference(name, options, batch), dtype=torch.float64)
        torch.testing.assert_close(credit.advantages.double(), expected, rtol=1e-5, atol=1e-5)
        trained = batch.policy_mask & (credit.segments == TOOL) if name == "rltr" else batch.policy_mask
        assert torch.equal(credit.loss_mask, trained)
        assert not credit.advantages[~batch.policy_mask].any()


# -- properties -------------------------------------------------------------------------------------------------


def moved(name: str, reward: str, which: int, seed: int) -> bool:
    """Whether any advantage on tokens of a segment moves when one reward is drawn anew."""
    batch = random_batch(seed)
    generator = torch.Generator().manual_seed(seed)
    fresh = torch.rand(len(batch.group), generator=generator, dtype=torch.float64)
    rewards = {**batch.rewards, reward: fresh}
    # The scalar of GRPO is the sum of both segment rewards.
    rewards["total"] = rewards["tool"] + rewards["summary"]
    before = replace(batch, rewards={**batch.rewards, "total": batch.rewards["tool"] + batch.rewards["summary"]})
    method = make_method(name, **({"outcome": "judge"} if name == "toolpo" else {}))
    if name == "toolpo":
        rewards["outcome"] = rewards["summary"]
        before.rewards["outcome"] = before.rewards["summary"]
    a, b = method(before), method(replace(batch, rewards=rewards))
    tokens = a.segments == which
    return bool((a.advantages[tokens] != b.advantages[tokens]).any())


@pytest.mark.parametrize("seed", range(12))
def test_slca_locks_the_segments_exactly(seed: int) -> None:
    assert not moved("slca", "summary", TOOL, seed)
    assert not moved("slca", "tool", SUMMARY, seed)


@pytest.mark.parametrize("name", ["grpo", "toolpo"])
def test_the_baselines_let_the_summary_move_the_calls(name: str) -> None:
    assert any(moved(name, "summary", TOOL, seed) for seed in range(4))


def test_slca_moves_with_its_own_reward() -> None:
    assert moved("slca", "tool", TOOL, 0) and moved("slca", "summary", SUMMARY, 0)


def test_rltr_trains_no_summary_token() -> None:
    for seed in range(10):
        credit = make_method("rltr")(random_batch(seed))
        assert not (credit.loss_mask & (credit.segments == SUMMARY)).any()


@pytest.mark.parametrize(("name", "options"), ARMS, ids=lambda x: str(x))
@given(seed=st.integers(0, 5000))
@settings(max_examples=15, deadline=None)
def test_order_of_rollouts_and_names_of_groups_do_not_matter(name: str, options: dict, seed: int) -> None:
    batch = random_batch(seed)
    method = make_method(name, **options)
    order = torch.randperm(len(batch.group), generator=torch.Generator().manual_seed(seed))
    shuffled = GroupBatch(
        (7 - batch.group)[order], batch.policy_mask[order], batch.opens_call[order],
        {k: v[order] for k, v in batch.rewards.items()},
    )  # fmt: skip
    torch.testing.assert_close(method(shuffled).advantages, method(batch).advantages[order], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("name", "options"), ARMS, ids=lambda x: str(x))
def test_equal_rewards_and_lone_rollouts_get_exactly_zero(name: str, options: dict) -> None:
    batch = random_batch(3)
    third = torch.full_like(batch.rewards["tool"], 0.1) + 0.2
    same = replace(batch, rewards=dict.fromkeys(batch.rewards, third))
    assert not make_method(name, **options)(same).advantages.any()
    lonely = replace(batch, group=torch.arange(len(batch.group)))
    assert not make_method(name, **options)(lonely).advantages.any()


def test_a_segment_only_one_rollout_has_gets_zero_not_the_raw_score() -> None:
    mask = torch.tensor([[1, 0, 1], [0, 0, 1], [0, 0, 1]], dtype=torch.bool)
    rewards = {"tool": torch.tensor([1.0, 0.2, 0.0]), "summary": torch.tensor([1.0, 0.5, 0.0])}
    credit = SLCA()(GroupBatch(torch.zeros(3, dtype=torch.long), mask, torch.zeros_like(mask), rewards))
    assert credit.advantages[0].tolist()[0] == 0.0
    assert credit.advantages[:, 2].tolist() == pytest.approx([1.0, 0.0, -1.0], abs=1e-5)


def test_weights_act_after_normalisation() -> None:
    batch = random_batch(5)
    one, three = SLCA()(batch), SLCA(lambda_tool=3.0)(batch)
    tool = one.segments == TOOL
    torch.testing.assert_close(three.advantages[tool], 3 * one.advantages[tool])
    assert torch.equal(three.advantages[~tool], one.advantages[~tool])
    scaled = replace(batch, rewards={**batch.rewards, "tool": 3 * batch.rewards["tool"]})
    torch.testing.assert_close(SLCA()(scaled).advantages, one.advantages, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize(
    ("name", "reward"), [("slca", "tool"), ("grpo", "total"), ("toolpo", "action"), ("rltr", "complete")]
)
def test_a_reward_that_is_not_finite_is_refused_with_the_rollout_named(name: str, reward: str, bad: float) -> None:
    batch = random_batch(1)
    batch.rewards[reward][2] = bad
    with pytest.raises(ValueError, match=f"reward '{reward}' of rollout {batch.ids[2]}"):
        make_method(name)(batch)


def test_a_missing_reward_and_unknown_names_are_refused() -> None:
    batch = replace(random_batch(1), rewards={})
    with pytest.raises(ValueError, match="no reward 'total'"):
        make_method("grpo")(batch)
    with pytest.raises(ValueError, match="did you mean 'slca'"):
        make_method("slac")
    with pytest.raises(ValueError, match="did you mean 'repeat'"):
        make_method("rltr", repeats=1)
    with pytest.raises(ValueError, match="ToolPO takes"):
        make_method("toolpo", normalisation="rank")


def test_normalisation_is_in_float64() -> None:
    values = torch.tensor([1e8, 1e8 + 1, 1e8 + 2], dtype=torch.float64)
    advantage = group_normalise(values, torch.zeros(3, dtype=torch.long))
    assert advantage.tolist() == pytest.approx([-1.0, 0.0, 1.0], abs=1e-5)
    assert group_normalise(torch.zeros(0), torch.zeros(0, dtype=torch.long)).shape == (0,)


def test_statistics_per_segment() -> None:
    batch = random_batch(2)
    credit = SLCA()(batch)
    stats = advantage_stats(credit)
    tool = credit.advantages[credit.segments == TOOL].double()
    assert stats["advantage/tool/tokens"] == len(tool)
    assert stats["advantage/tool/std"] == pytest.approx(tool.std(unbiased=False).item())
    assert stats["advantage/tool/nonzero"] == pytest.approx((tool != 0).double().mean().item())


# -- segments ---------------------------------------------------------------------------------------------------


@given(st.lists(st.booleans(), min_size=0, max_size=20), st.booleans(), st.integers(0, 100))
@settings(max_examples=200, deadline=None)
def test_segments_equal_the_reference(mask: list[bool], structural: bool, seed: int) -> None:
    opens = [bool((seed >> (t % 7)) & 1) for t in range(len(mask))]
    row = torch.tensor([mask], dtype=torch.bool).reshape(1, len(mask))
    call = torch.tensor([opens], dtype=torch.bool).reshape(1, len(mask))
    found = segment(row, call, "structural" if structural else "paper")[0].tolist()
    tool, summary = segments_of(mask, opens, structural)
    expected = [TOOL if t in tool else SUMMARY if t in summary else NONE for t in range(len(mask))]
    assert found == expected


def test_segments_refuse_what_they_cannot_read() -> None:
    mask = torch.ones(1, 3, dtype=torch.bool)
    with pytest.raises(ValueError, match="bool"):
        segment(mask.float())
    with pytest.raises(ValueError, match="needs opens_call"):
        segment(mask, None, "structural")
    with pytest.raises(ValueError, match="unknown boundary"):
        segment(mask, mask, "papers")  # type: ignore[arg-type]
