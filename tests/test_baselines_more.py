"""Further baselines, variants of SLCA and further rewards, against references written out in float64."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import fmean, stdev

import numpy as np
import pytest
import torch
from helpers import make_task
from helpers_rollouts import batch_of, call_text, play, random_batch

from baselines import make_method
from slca.credit import SLCA, GroupBatch
from slca.objective import clipped_surrogate
from slca.rewards.execution import execution_reward
from slca.rewards.hierarchy import score, turn_tensor
from slca.rewards.judge import RubricJudge
from slca.rewards.options import RewardConfig
from slca.rewards.toolrl import toolrl_reward
from slca.segments import SUMMARY, TOOL, segment
from slca.tasks.generate import generate
from slca.tasks.task import Call
from slca.variants import SLCAVariant, unexplained

SEEDS = range(8)


def z(values: list[float], scale: bool = True) -> list[float]:
    """z-scores with the unbiased standard deviation, 0 for one or for equal values."""
    if len(values) < 2 or max(values) - min(values) < 1e-12:
        return [0.0] * len(values)
    return [(v - fmean(values)) / ((stdev(values) + 1e-6) if scale else 1.0) for v in values]


def by_group(batch: GroupBatch, values: list[float], present: list[bool] | None = None, scale: bool = True) -> list[float]:
    out = [0.0] * len(values)
    for g in set(batch.group.tolist()):
        rows = [i for i, own in enumerate(batch.group.tolist()) if own == g and (present is None or present[i])]
        for i, a in zip(rows, z([values[i] for i in rows], scale), strict=True):
            out[i] = a
    return out


def reward(batch: GroupBatch, name: str) -> list[float]:
    return batch.rewards[name].double().tolist()


def tokens(batch: GroupBatch, which: int) -> np.ndarray:
    return (segment(batch.policy_mask) == which).numpy()


def agrees(found: torch.Tensor, expected: np.ndarray) -> None:
    np.testing.assert_allclose(found.double().numpy(), expected, atol=2e-5)


@pytest.mark.parametrize("seed", SEEDS)
def test_gdpo(seed: int) -> None:
    batch = random_batch(seed)
    both = [
        2.0 * a + 0.5 * b
        for a, b in zip(by_group(batch, reward(batch, "tool")), by_group(batch, reward(batch, "summary")), strict=True)
    ]
    mask = batch.policy_mask.numpy()
    plain = make_method("gdpo", lambda_tool=2.0, lambda_sum=0.5, whiten=False)(batch).advantages
    agrees(plain, np.array(both)[:, None] * mask)
    agrees(make_method("gdpo", lambda_tool=2.0, lambda_sum=0.5)(batch).advantages, np.array(z(both))[:, None] * mask)


@pytest.mark.parametrize("seed", SEEDS)
def test_support_control_is_routed_and_shared(seed: int) -> None:
    batch = random_batch(seed)
    expected = np.zeros(batch.policy_mask.shape)
    for own in (tokens(batch, TOOL), tokens(batch, SUMMARY)):
        expected += np.array(by_group(batch, reward(batch, "total"), own.any(1).tolist()))[:, None] * own
    agrees(make_method("support_control")(batch).advantages, expected)
    # the other reward's name must not matter: only the scalar is read
    other = replace(batch, rewards={"total": batch.rewards["total"]})
    agrees(make_method("support_control")(other).advantages, expected)


def test_support_control_is_grpo_where_every_segment_is_present() -> None:
    batch = batch_of([0, 0, 0, 1, 1], ["c.w", "c.w", "c.w", "c.w", "c.w"], total=[1.0, 0.2, 0.5, 0.0, 2.0])
    shared, grpo = (make_method(n)(batch).advantages for n in ("support_control", "grpo"))
    assert torch.allclose(shared, grpo)


@pytest.mark.parametrize("seed", SEEDS)
def test_dr_grpo_dapo_gspo_toolrl_and_mt_grpo(seed: int) -> None:
    batch = random_batch(seed)
    mask = batch.policy_mask.numpy()
    total = by_group(batch, reward(batch, "total"))
    centred = by_group(batch, reward(batch, "total"), scale=False)
    agrees(make_method("dr_grpo")(batch).advantages, np.array(centred)[:, None] * mask)
    agrees(make_method("gspo_token")(batch).advantages, np.array(total)[:, None] * mask)
    agrees(make_method("toolrl")(batch).advantages, np.array(by_group(batch, reward(batch, "toolrl")))[:, None] * mask)
    dapo = make_method("dapo")(batch)
    agrees(dapo.advantages, np.array(total)[:, None] * mask)
    values, group = reward(batch, "total"), batch.group.tolist()
    for i, row in enumerate(dapo.loss_mask):
        varied = len({v for v, g in zip(values, group, strict=True) if g == group[i]}) > 1
        assert torch.equal(row, batch.policy_mask[i] & varied)
    turn, outcome = by_group(batch, reward(batch, "tool")), by_group(batch, reward(batch, "summary"))
    expected = (np.array(turn) + 0.5 * np.array(outcome))[:, None] * tokens(batch, TOOL)
    expected = expected + np.array(outcome)[:, None] * tokens(batch, SUMMARY)
    agrees(make_method("mt_grpo", outcome_share=0.5)(batch).advantages, expected)


# -- variants of SLCA ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_a_variant_without_options_is_slca(seed: int) -> None:
    batch = random_batch(seed)
    for boundary in ("paper", "structural"):
        ours, plain = SLCAVariant(boundary=boundary)(batch), SLCA(boundary=boundary)(batch)
        assert torch.equal(ours.advantages, plain.advantages) and torch.equal(ours.segments, plain.segments)


def test_per_call_compares_turn_with_turn() -> None:
    batch = batch_of([0, 0, 0], ["c.c.w", "c.c.w", "c.w.."], summary=[0.0, 0.0, 0.0])
    batch = replace(batch, turn_rewards=torch.tensor([[0.5, 0.25, 0.0], [0.5, -0.25, 0.0], [0.2, 0.0, 0.0]]))
    first, second = z([0.5, 0.5, 0.2]), z([0.25, -0.25])
    expected = [[first[0], 0, second[0], 0, 0], [first[1], 0, second[1], 0, 0], [first[2], 0, 0, 0, 0]]
    agrees(SLCAVariant(per_call=True)(batch).advantages, np.array(expected))
    with pytest.raises(ValueError, match="needs turn_rewards"):
        SLCAVariant(per_call=True)(replace(batch, turn_rewards=None))


def test_leave_one_out_compares_with_the_others() -> None:
    batch = batch_of([0, 0, 0], ["c.w", "c.w", "..w"], tool=[1.0, 0.0, 0.0], summary=[0.9, 0.3, 0.0])
    found = SLCAVariant(leave_one_out=True, scale_by_std=False)(batch).advantages
    agrees(found, np.array([[1.0, 0, 0.75], [-1.0, 0, -0.15], [0, 0, -0.6]]))


def test_a_summary_is_compared_with_what_its_calls_predict() -> None:
    tool = torch.tensor([0.0, 0.5, 1.0, 0.5], dtype=torch.float64)
    noise = torch.tensor([0.1, -0.3, 0.1, 0.1], dtype=torch.float64)
    group, everyone = torch.zeros(4, dtype=torch.long), torch.ones(4, dtype=torch.bool)
    left = unexplained(0.8 * tool + noise, tool, group, everyone)
    slope = float(np.polyfit(tool.numpy(), (0.8 * tool + noise).numpy(), 1)[0])
    expected = 0.8 * tool + noise - slope * (tool - tool.mean())
    np.testing.assert_allclose(left.numpy(), expected.numpy(), atol=1e-12)
    assert abs(float(np.corrcoef(left.numpy(), tool.numpy())[0, 1])) < 1e-9
    two = torch.tensor([0.0, 1.0], dtype=torch.float64)  # two points predict each other: nothing would be left
    assert torch.equal(unexplained(two, two, group[:2], everyone[:2]), two)
    with pytest.raises(ValueError, match="summary_baseline"):
        SLCAVariant(summary_baseline="other")  # type: ignore[arg-type]


@pytest.mark.parametrize("options", [{"per_call": True}, {"leave_one_out": True}, {"summary_baseline": "tool"}])
@pytest.mark.parametrize("seed", SEEDS)
def test_variants_keep_the_lock_and_the_order_of_rollouts_does_not_matter(seed: int, options: dict) -> None:
    batch = random_batch(seed)
    generator = torch.Generator().manual_seed(seed)
    batch = replace(batch, turn_rewards=torch.rand(len(batch.group), 4, generator=generator, dtype=torch.float64))
    method = SLCAVariant(**options)
    before = method(batch)
    luck = {**batch.rewards, "summary": torch.rand(len(batch.group), generator=generator)}
    after = method(replace(batch, rewards=luck))
    tool = before.segments == TOOL
    assert torch.equal(before.advantages[tool], after.advantages[tool])
    order = torch.randperm(len(batch.group), generator=generator)
    rewards, turns = {k: v[order] for k, v in batch.rewards.items()}, batch.turn_rewards[order]
    shuffled = GroupBatch(
        batch.group[order], batch.policy_mask[order], batch.opens_call[order], rewards, turn_rewards=turns
    )
    assert torch.allclose(method(shuffled).advantages, before.advantages[order], atol=1e-6)


# -- objective -----------------------------------------------------------------------------------------------------


def test_the_sequence_ratio_is_gspo_tokens() -> None:
    generator = torch.Generator().manual_seed(0)
    mask = torch.tensor([[1, 1, 1, 0], [1, 1, 0, 0]], dtype=torch.bool)
    old = torch.randn(2, 4, generator=generator, dtype=torch.float64)
    new = (old + 0.3 * torch.randn(2, 4, generator=generator, dtype=torch.float64)).requires_grad_()
    advantages = torch.tensor([[0.7], [-1.2]], dtype=torch.float64).expand(2, 4)
    loss, _ = clipped_surrogate(new, old, advantages, mask, 5, clip_low=0.5, clip_high=0.5, ratio="sequence")
    loss.backward()
    ratios = [math.exp(fmean((new - old)[i, mask[i]].tolist())) for i in range(2)]
    terms = [n * min(r * a, min(max(r, 0.5), 1.5) * a) for n, r, a in zip((3, 2), ratios, (0.7, -1.2), strict=True)]
    assert loss.item() == pytest.approx(-sum(terms) / 5, abs=1e-12)
    expected = torch.stack([-ratios[i] * advantages[i] * mask[i] / 5 for i in range(2)])
    assert torch.allclose(new.grad, expected, atol=1e-12)
    token, _ = clipped_surrogate(old, old, advantages, mask, 5)
    same, _ = clipped_surrogate(old, old, advantages, mask, 5, ratio="sequence")
    assert torch.equal(token, same)  # at ratio 1 there is no difference


# -- rewards -------------------------------------------------------------------------------------------------------

GOLD = [Call("a", {"x": 1, "y": "u"}), Call("b", {})]


@pytest.mark.parametrize("calls, valid, expected", [
    (GOLD, True, 1 + 6 * (1 + (1 + 2) + 1) / 5 - 3),                             # 4: all right
    (GOLD[::-1], True, 4.0),                                                     # order does not matter
    ([], False, 0 + 0 - 3),                                                      # nothing
    ([Call("a", {"x": 1})], True, 1 + 6 * (1 / 2 + 1 / 2 + 1) / 5 - 3),          # a half
    ([Call("c", {"x": 1})], True, 1 - 3),                                        # a wrong tool
    ([Call("a", {"x": 2, "z": 1}), *GOLD], True, 4.0),                           # the best match counts
])  # fmt: skip
def test_toolrl_reward(calls: list[Call], valid: bool, expected: float) -> None:
    assert toolrl_reward(calls, GOLD, valid) == pytest.approx(expected)


def test_toolrl_where_no_call_is_right() -> None:
    assert toolrl_reward([], [], True) == 4.0 and toolrl_reward([Call("a", {})], [], True) == 1 + 0 - 3


def test_execution_counts_what_was_brought_about() -> None:
    for task in generate(60, "train", 11):
        gold = [[call_text(c.name, **c.arguments) for c in step] for step in task.gold]
        right = play(task, *("".join(step) for step in gold), "done")
        assert execution_reward(task, right) == (1.0 if task.gold else 0.0), task.id
        assert execution_reward(task, play(task, "nothing")) == 0.0


def test_execution_holds_further_writes_against_a_rollout_but_no_reads() -> None:
    task = make_task()
    [[call]] = task.gold
    once = call_text(call.name, **call.arguments)
    assert execution_reward(task, play(task, once, once, "done")) == 1.0  # a read twice
    singles = [t for t in generate(200, "train", 3) if t.kind == "single"]
    task = next(t for t in singles if t.gold[0][0].name.startswith(("create", "book")))
    [[call]] = task.gold
    once = call_text(call.name, **call.arguments)
    assert execution_reward(task, play(task, once, once, "done")) == pytest.approx(0.5)


def test_the_execution_reward_takes_the_place_of_the_match_but_not_in_success() -> None:
    task = make_task()
    [[call]] = task.gold
    rollout = play(task, call_text(call.name, **call.arguments), "done, all is well")
    matched, executed = (score(task, rollout, RubricJudge(), RewardConfig(tool=t)) for t in ("process", "execution"))
    assert executed.tool == executed.execution == 1.0 and executed.process == matched.process == matched.tool
    assert executed.success == matched.success


def test_turn_gains_add_up_to_the_process_reward() -> None:
    for task in generate(80, "train", 5):
        texts = ["".join(call_text(c.name, **c.arguments) for c in step) for step in task.gold]
        breakdown = score(task, play(task, *texts, "done and done"), RubricJudge(), RewardConfig())
        assert sum(breakdown.turn_gains) == pytest.approx(breakdown.process)
        assert len(breakdown.turn_gains) == len(texts) + 1 and breakdown.turn_gains[-1] == 0.0
    assert turn_tensor([breakdown, replace(breakdown, turn_gains=())]).shape == (2, len(texts) + 1)
