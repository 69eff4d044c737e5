"""Contamination of advantages and the gradients of both segments, against references written out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers_rollouts import batch_of, random_batch

from baselines import make_method
from slca.credit import Credit, GroupBatch
from slca.diagnostics import contamination, segment_gradients
from slca.segments import SUMMARY, TOOL, segment


def one_group(n: int = 8, seed: int = 0) -> GroupBatch:
    rng = np.random.default_rng(seed)
    tool, summary = rng.random(n), rng.random(n)
    return batch_of([0] * n, ["cc.w"] * n, tool=tool.tolist(), summary=summary.tolist(), total=(tool + summary).tolist())


@pytest.mark.parametrize("seed", range(6))
def test_slca_is_clean_and_the_others_are_not(seed: int) -> None:
    batch = random_batch(seed, n_groups=6, size=8)
    found = contamination(batch, make_method("slca")(batch))
    assert found["contamination/tool"] < 1e-9 and found["contamination/summary"] < 1e-9 and found["sign_disagreement"] == 0
    batch = one_group(seed=seed)
    for name in ("grpo", "gdpo", "mt_grpo", "support_control"):
        found = contamination(batch, make_method(name)(batch))
        assert found["contamination/tool"] > 0.01, name
    assert contamination(batch, make_method("mt_grpo")(batch))["contamination/summary"] < 1e-9  # its answer is locked


def test_the_share_is_the_gain_in_explained_variance() -> None:
    batch = one_group()
    credit = make_method("grpo")(batch)
    a = credit.advantages[:, 0].double().numpy()
    tool, summary = batch.rewards["tool"].numpy(), batch.rewards["summary"].numpy()

    def unexplained(*columns: np.ndarray) -> float:
        x = np.stack([np.ones(len(a)), *columns], 1)
        return float(((a - x @ np.linalg.lstsq(x, a, rcond=None)[0]) ** 2).sum())

    expected = (unexplained(tool) - unexplained(tool, summary)) / unexplained()
    assert contamination(batch, credit)["contamination/tool"] == pytest.approx(expected, abs=1e-6)


def test_signs() -> None:
    batch = batch_of([0, 0, 0], ["cc.w"] * 3, tool=[1.0, 0.5, 0.0], summary=[0.0, 0.0, 0.0], total=[0.0, 0.5, 1.0])
    # GRPO by a total against the tool reward: the outer two have the wrong sign, the middle one and the summaries count
    # only where they have an advantage; all summaries are equal, so every sign there is wrong
    found = contamination(batch, make_method("grpo")(batch))
    assert found["sign_disagreement"] == 1.0
    same = replace(batch, rewards={**batch.rewards, "total": batch.rewards["tool"]})
    assert contamination(same, make_method("grpo")(same))["sign_disagreement"] == pytest.approx(2 / 6)


@pytest.mark.parametrize("case", ["one rollout", "equal", "no tool", "nothing"])
def test_nothing_to_measure_is_zero(case: str) -> None:
    masks = {"no tool": ["..ww"] * 4, "nothing": ["...."] * 4}.get(case, ["cc.w"] * 4)
    rows = 1 if case == "one rollout" else 4
    values = [0.5] * rows
    batch = batch_of([0] * rows, masks[:rows], tool=values, summary=values, total=values)
    assert set(contamination(batch, make_method("grpo")(batch)).values()) == {0.0}


def test_gradients_against_the_whole_loss_and_explicit_groups() -> None:
    generator = torch.Generator().manual_seed(1)
    batch = random_batch(3, n_groups=5, size=4)
    n, t = batch.policy_mask.shape
    weight = torch.randn(7, dtype=torch.float64, generator=generator, requires_grad=True)
    bias = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    features = torch.randn(n, t, 7, dtype=torch.float64, generator=generator)
    unused = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    credit = make_method("slca")(batch)
    groups = [(batch.group == g).nonzero().flatten().tolist() for g in batch.group.unique()]
    found = segment_gradients([weight, bias, unused], groups, lambda rows: features[rows] @ weight + bias, credit)
    total = credit.loss_mask.sum()

    def gradient(rows: list[int], which: int | None) -> torch.Tensor:
        chosen = credit.segments[rows] == which if which is not None else credit.loss_mask[rows]
        loss = -(credit.advantages[rows] * chosen * (features[rows] @ weight + bias)).sum() / total
        return torch.cat([g.flatten() for g in torch.autograd.grad(loss, [weight, bias])])

    everyone = list(range(n))
    tool, summary = gradient(everyone, TOOL), gradient(everyone, SUMMARY)
    assert found["gradient/norm_tool"] == pytest.approx(float(tool.norm()), rel=1e-5)
    assert found["gradient/norm_summary"] == pytest.approx(float(summary.norm()), rel=1e-5)
    cosine = float(tool @ summary / tool.norm() / summary.norm())
    assert found["gradient/cosine"] == pytest.approx(cosine, abs=1e-5)
    each = torch.stack([gradient(rows, None) for rows in groups])
    spread = float(((each - each.mean(0)) ** 2).sum() / (len(groups) - 1))
    assert found["gradient/noise"] == pytest.approx(spread / float((each.mean(0) ** 2).sum()), rel=1e-4)


def test_gradients_without_advantages_are_zero() -> None:
    mask = torch.ones(2, 3, dtype=torch.bool)
    credit = Credit(torch.zeros(2, 3), mask, segment(mask))
    weight = torch.ones(3, requires_grad=True)
    found = segment_gradients([weight], [[0], [1]], lambda rows: torch.ones(len(rows), 1) * weight, credit)
    assert set(found.values()) == {0.0}


def test_a_run_logs_them_at_its_interval_and_they_change_nothing(tmp_path: Path) -> None:
    from test_trainer import make_trainer, small, weights

    from slca.config import config_hash
    from slca.runs import Run

    ends = []
    for every in (0, 2):
        config = small(f"train.diagnose_every={every}")
        with Run.open(tmp_path / str(every), config) as run:
            trainer = make_trainer(config, run)
            trainer.train()
            rows = run.metrics()
        assert ["gradient/cosine" in row for row in rows] == [bool(every) and i % 2 == 0 for i in range(len(rows))]
        ends.append((weights(trainer), config_hash(config)))
    assert ends[0][1] == ends[1][1]
    assert all(torch.equal(a, b) for a, b in zip(ends[0][0].values(), ends[1][0].values(), strict=True))
    assert rows[0]["contamination/tool"] < 1e-9 and rows[0]["gradient/norm_tool"] > 0
