"""The training loop: exact resumption, micro-batches, failures, and nothing but the method differs between methods."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from baselines import METHODS, make_method
from experiments.common import run_cell
from slca.assembly import make_engine, make_judge, train_tasks
from slca.config import Config
from slca.config_load import load_config
from slca.credit import Credit, GroupBatch
from slca.policy import load_policy
from slca.runs import Run
from slca.trainer import Trainer, TrainingFailure, learning_rate, task_order

SMALL = [
    "train.steps=4", "train.prompts_per_step=3", "train.minibatch_prompts=2", "rollout.group_size=3",
    "tasks.train_size=10", "train.checkpoint_every=2", "eval.size_seen=4", "eval.size_unseen=4", "eval.samples=1",
    "rollout.max_turns=3",
]  # fmt: skip


def small(*overrides: str) -> Config:
    return load_config("tiny", [*SMALL, *overrides])


def make_trainer(config: Config, run: Run, method: object = None) -> Trainer:
    torch.set_num_threads(1)
    policy = load_policy(config.policy.checkpoint)
    method = method or make_method(config.method.name, **config.method.options)
    return Trainer(
        config, run, method, policy, train_tasks(config), make_judge(config), config.rewards,
        make_engine(config, policy),
    )  # fmt: skip


def weights(trainer: Trainer) -> dict[str, torch.Tensor]:
    return {k: v.clone() for k, v in trainer._weights().items()}


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


def without_times(run: Run) -> list[dict[str, float]]:
    return [{k: v for k, v in row.items() if "seconds" not in k} for row in run.metrics()]


class Interrupted(Exception):
    pass


def stop_at(step: int):
    def on_step(done: int, record: dict[str, float]) -> None:
        if done == step:
            raise Interrupted

    return on_step


@pytest.mark.parametrize("stop", [0, 2])
def test_an_interrupted_run_ends_with_the_same_weights(tmp_path: Path, stop: int) -> None:
    """Interrupted before the first checkpoint (after step 2) and behind it."""
    config = small("train.kl_coef=0.01")
    with Run.open(tmp_path / "a", config) as run:
        whole = make_trainer(config, run)
        start = weights(whole)
        whole.train()
        rows = without_times(run)
    with Run.open(tmp_path / "b", config) as run:
        with pytest.raises(Interrupted):
            make_trainer(config, run).train(stop_at(stop))
        assert [r["step"] for r in run.metrics()] == list(range(stop + 1))
        resumed = make_trainer(config, run)
        resumed.train()
        assert without_times(run) == rows and len(rows) == 4
    assert same(weights(resumed), weights(whole)) and not same(weights(whole), start)
    assert resumed.simulated()["calls"] == whole.simulated()["calls"] > 0  # what happened before counts too


def test_kill_9_at_any_moment_loses_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "experiments.train", "--method", "slca", "--set", *SMALL]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}

    def final(root: str) -> dict[str, torch.Tensor]:
        (file,) = (tmp_path / root).glob("tiny/*/checkpoints/*/model.safetensors")
        return load_file(file)

    subprocess.run([*command, "--runs", str(tmp_path / "a")], check=True, env=env, capture_output=True)
    victim = subprocess.Popen([*command, "--runs", str(tmp_path / "b")], env=env, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and victim.poll() is None:
        logged = list((tmp_path / "b").glob("tiny/*/metrics.jsonl"))
        if logged and logged[0].read_bytes().count(b"\n") >= 3:
            break
        time.sleep(0.02)
    assert victim.poll() is None, "the run ended before it could be killed"
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    done = subprocess.run([*command, "--runs", str(tmp_path / "b")], check=True, env=env, capture_output=True, text=True)
    assert "step 4/4" in done.stdout and "step 1/4" not in done.stdout
    assert same(final("a"), final("b"))
    again = subprocess.run([*command, "--runs", str(tmp_path / "b")], check=True, env=env, capture_output=True, text=True)
    assert "finished" in again.stdout and "step" not in again.stdout.replace("steps", "")


@pytest.mark.parametrize("method", METHODS)
def test_micro_batches_give_the_gradient_of_the_whole(tmp_path: Path, method: str) -> None:
    gradients = []
    for tokens in (1, 10_000_000):
        config = small(f"method.name={method}", f"train.microbatch_tokens={tokens}", "train.kl_coef=0.05")
        with Run.open(tmp_path, config) as run:
            trainer = make_trainer(config, run)
            batch = trainer.collect(0)
            parameters = list(trainer.policy.model.parameters())
            kept = [p.detach().clone() for p in parameters]
            # The step of plain gradient descent shows the gradient as the change of the weights.
            trainer.optimizer = trainer.accelerator.prepare(torch.optim.SGD(parameters, lr=1.0))
            trainer._minibatch(0, batch, trainer.method(batch.group_batch()), [0, 1, 2])
            gradients.append([a - b.detach() for a, b in zip(kept, parameters, strict=True)])
    assert any(g.abs().max() > 0 for g in gradients[0])
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


def test_the_first_batch_is_the_same_for_every_method(tmp_path: Path) -> None:
    seen = set()
    for method in METHODS:
        config = small(f"method.name={method}")
        with Run.open(tmp_path, config) as run:
            batch = make_trainer(config, run).collect(0)
        seen.add((tuple(tuple(r.token_ids) for r in batch.rollouts), tuple(b.total for b in batch.breakdowns)))
    assert len(seen) == 1


def test_the_old_logprobs_are_those_of_the_policy(tmp_path: Path) -> None:
    """First update of a batch: ratio 1 everywhere, nothing clipped, no divergence."""
    config = small("train.minibatch_prompts=3")
    with Run.open(tmp_path, config) as run:
        trainer = make_trainer(config, run)
        batch = trainer.collect(0)
        stats = trainer.update(0, batch, trainer.method(batch.group_batch()))
    assert stats["clip_ratio"] == 0 and abs(stats["approx_kl"]) < 1e-7 and stats["entropy"] > 0


class Broken:
    """A method whose advantages are not finite from the second step on."""

    name = "broken"

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, batch: GroupBatch) -> Credit:
        self.calls += 1
        credit = make_method("slca")(batch)
        bad = torch.full_like(credit.advantages, float("nan"))
        return dataclasses.replace(credit, advantages=bad) if self.calls > 1 else credit


def test_a_loss_that_is_not_finite_stops_the_run_and_names_step_and_rollouts(tmp_path: Path) -> None:
    config = small()
    with Run.open(tmp_path, config) as run:
        trainer = make_trainer(config, run, Broken())
        with pytest.raises(TrainingFailure, match=r"step 1: loss is nan; rollouts train-1-\d+#0"):
            trainer.train()
        assert run.manifest["status"] == "failed" and "step 1" in run.manifest["failure"]
        assert all(torch.isfinite(v).all() for v in weights(trainer).values())


def test_no_reference_model_without_kl(tmp_path: Path) -> None:
    config = small("train.kl_coef=0")
    with Run.open(tmp_path, config) as run:
        trainer = make_trainer(config, run)
        assert trainer.reference is None
        batch = trainer.collect(0)
        assert trainer.update(0, batch, trainer.method(batch.group_batch()))["kl"] == 0


def test_a_cell_leaves_a_record_and_is_not_repeated(tmp_path: Path) -> None:
    config = small("train.steps=2", "rewards.judge_noise=0.5")
    run = run_cell(config, tmp_path)
    manifest = run.manifest
    assert manifest["status"] == "finished"
    assert manifest["parts"]["judge"] == "rubric (noise 0.5 in training, 0 in evaluation)"
    assert "seen/greedy" in manifest["summary"]["eval"] and (run.folder / "eval.jsonl").is_file()
    row = run.metrics()[-1]
    for key in (
        "reward/tool", "reward/summary", "reward/process", "advantage/tool/std", "advantage/summary/std", "kl",
        "entropy", "clip_ratio", "grad_norm", "calls_per_task", "tokens/total_cum", "seconds",
    ):  # fmt: skip
        assert key in row
    before = (run.folder / "manifest.json").read_bytes()
    assert run_cell(config, tmp_path, on_step=stop_at(0)).finished
    assert (run.folder / "manifest.json").read_bytes() == before


def test_every_task_once_per_pass_in_an_order_of_its_own() -> None:
    order = [i for step in range(6) for i in task_order(12, 4, step, seed=3)]
    assert sorted(order[:12]) == sorted(order[12:]) == list(range(12))
    assert order[:12] != order[12:] and order != [i for step in range(6) for i in task_order(12, 4, step, seed=4)]
    assert [len(task_order(5, 4, step, 0)) for step in range(4)] == [4] * 4


def test_learning_rate_schedules() -> None:
    def rates(schedule: str, warmup: int) -> list[float]:
        train = load_config("tiny", ["train.steps=10", f"train.schedule={schedule}", f"train.warmup_steps={warmup}",
                                     "train.lr=1"]).train  # fmt: skip
        return [learning_rate(k, train) for k in range(10)]

    assert rates("constant", 0) == [1.0] * 10
    assert rates("constant", 4)[:5] == [0.25, 0.5, 0.75, 1.0, 1.0]
    linear, cosine = rates("linear", 0), rates("cosine", 0)
    assert linear[0] == cosine[0] == 1.0 and linear[5] == pytest.approx(0.5) == cosine[5]
    assert all(a > b for a, b in pairwise(linear))
