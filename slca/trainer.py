"""The training loop: rollouts -> rewards -> the method's advantages -> policy update. Methods differ in nothing else.

Every random choice derives from (seed, step), so a run that is resumed from a checkpoint goes on exactly as if it had
not been interrupted.
"""

from __future__ import annotations

import copy
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from slca.assembly import make_simulator
from slca.config import Config
from slca.credit import Credit, GroupBatch, Method, advantage_stats
from slca.diagnostics import contamination, segment_gradients
from slca.objective import clipped_surrogate
from slca.packing import completion_logprobs, pack
from slca.policy import Policy
from slca.rewards.breakdown import RewardBreakdown
from slca.rewards.hierarchy import reward_tensors, score, turn_tensor
from slca.rewards.judge import Judge
from slca.rewards.options import RewardConfig
from slca.rollout.agent import Engine, Sampling, rollout_groups
from slca.rollout.rollout import Rollout
from slca.runs import Run
from slca.simulator.metrics import merge
from slca.simulator.simulator import Simulator
from slca.tasks.task import Task


class TrainingFailure(RuntimeError):
    """The run cannot go on: a loss or gradient is not finite. The text names the step and the rollouts."""


@dataclass
class StepBatch:
    """Rollouts of one step, flat, groups one after the other, with tensors over completions (N, T)."""

    rollouts: list[Rollout]
    breakdowns: list[RewardBreakdown]
    group: Tensor
    policy_mask: Tensor
    opens_call: Tensor
    old_logprobs: Tensor

    def ids(self) -> list[str]:
        return [f"{r.task_id}#{r.sample}" for r in self.rollouts]

    def group_batch(self) -> GroupBatch:
        rewards = reward_tensors(self.breakdowns)
        turns = turn_tensor(self.breakdowns)
        return GroupBatch(self.group, self.policy_mask, self.opens_call, rewards, ids=self.ids(), turn_rewards=turns)


def stack(groups: Sequence[Sequence[Rollout]], breakdowns: Sequence[Sequence[RewardBreakdown]]) -> StepBatch:
    """Tensors of a step: column j of row i is token ``prompt_length + j`` of rollout i."""
    rollouts = [r for group in groups for r in group]
    group = torch.tensor([g for g, members in enumerate(groups) for _ in members])
    length = max(1, *(len(r.token_ids) - r.prompt_length for r in rollouts))
    mask = torch.zeros(len(rollouts), length, dtype=torch.bool)
    opens = torch.zeros_like(mask)
    logprobs = torch.zeros(len(rollouts), length)
    for i, r in enumerate(rollouts):
        n = len(r.token_ids) - r.prompt_length
        mask[i, :n] = torch.tensor(r.policy_mask[r.prompt_length :], dtype=torch.bool)
        logprobs[i, :n] = torch.tensor(r.logprobs[r.prompt_length :])
        for turn, (start, end) in zip(r.turns, r.turn_spans, strict=True):
            opens[i, start - r.prompt_length : end - r.prompt_length] = turn.opens_call
    return StepBatch(rollouts, [b for part in breakdowns for b in part], group, mask, opens, logprobs)


def task_order(n_tasks: int, per_step: int, step: int, seed: int) -> list[int]:
    """Indices of the tasks of step ``step``: passes over the data, each in an order fixed by (seed, pass)."""
    chosen = []
    for position in range(step * per_step, (step + 1) * per_step):
        epoch, offset = divmod(position, n_tasks)
        generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
        chosen.append(int(torch.randperm(n_tasks, generator=generator)[offset]))
    return chosen


def learning_rate(step: int, config: Any) -> float:
    """Learning rate of ``step`` (0-based): linear warm-up, then constant, linear or cosine decay to zero."""
    warm = min(1.0, (step + 1) / max(1, config.warmup_steps)) if config.warmup_steps else 1.0
    progress = step / max(1, config.steps)
    decay = {
        "constant": 1.0,
        "linear": 1.0 - progress,
        "cosine": 0.5 * (1.0 + torch.cos(torch.tensor(progress * torch.pi)).item()),
    }[config.schedule]
    return float(config.lr * warm * decay)


class Trainer:
    """Trains ``policy`` with ``method`` as ``config`` says and records everything in ``run``."""

    def __init__(
        self,
        config: Config,
        run: Run,
        method: Method,
        policy: Policy,
        tasks: Sequence[Task],
        judge: Judge,
        rewards: RewardConfig,
        engine: Engine,
        simulator: Simulator | None = None,
    ) -> None:
        from accelerate import Accelerator

        self.config, self.run, self.method, self.policy = config, run, method, policy
        self.tasks, self.judge, self.rewards, self.engine = tasks, judge, rewards, engine
        self.simulator = simulator or make_simulator(config)
        train = config.train
        self.accelerator = Accelerator(cpu=policy.device.type == "cpu")
        self.optimizer = torch.optim.AdamW(
            [p for p in policy.model.parameters() if p.requires_grad],
            lr=train.lr,
            betas=(train.betas[0], train.betas[1]),
            weight_decay=train.weight_decay,
        )
        self.reference = None
        if train.kl_coef > 0:
            self.reference = copy.deepcopy(policy.model).eval().requires_grad_(False)
        self.policy.model, self.optimizer = self.accelerator.prepare(policy.model, self.optimizer)
        self.totals: dict[str, float] = {}
        self._simulated: dict[str, Any] | None = None  # what the simulator did before this process

    def simulated(self) -> dict[str, Any]:
        """What the simulator did in this run, also before an interruption."""
        return merge(self._simulated, self.simulator.metrics.summary())

    # -- one step ---------------------------------------------------------------------------------------------

    def collect(self, step: int) -> StepBatch:
        """Rollouts of a step with their rewards."""
        config = self.config
        chosen = task_order(len(self.tasks), config.train.prompts_per_step, step, config.seed)
        tasks = [self.tasks[i] for i in chosen]
        sampling = Sampling(config.rollout.temperature, seed=config.seed * 1_000_003 + step)
        size = config.rollout.group_size
        groups = rollout_groups(
            tasks, size, self.engine, self.policy.codec, config.rollout, sampling, self.simulator
        )
        scored = [
            [score(task, rollout, self.judge, self.rewards) for rollout in group]
            for task, group in zip(tasks, groups, strict=True)
        ]
        return stack(groups, scored)

    def update(self, step: int, batch: StepBatch, credit: Credit) -> dict[str, float]:
        """Optimiser steps over the mini-batches of this step; returns the objective's statistics."""
        train = self.config.train
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(step, train)
        sums: Counter[str] = Counter()
        n_groups = int(batch.group.max()) + 1
        for epoch in range(train.epochs):
            generator = torch.Generator().manual_seed((self.config.seed * 1_000_003 + step) * 31 + epoch)
            order = torch.randperm(n_groups, generator=generator).tolist()
            for start in range(0, n_groups, train.minibatch_prompts):
                members = order[start : start + train.minibatch_prompts]
                sums.update(self._minibatch(step, batch, credit, members))
        tokens = max(1.0, sums.pop("tokens", 0.0))
        updates = max(1.0, sums.pop("updates", 0.0))
        stats = {k: v / tokens for k, v in sums.items() if k != "grad_norm"}
        return {**stats, "grad_norm": sums["grad_norm"] / updates, "lr": learning_rate(step, train)}

    def _minibatch(self, step: int, batch: StepBatch, credit: Credit, groups: list[int]) -> dict[str, float]:
        rows = torch.isin(batch.group, torch.tensor(groups)).nonzero().flatten()
        # The same denominator for every method: all policy tokens, also those that a method does not train.
        denominator = max(1, int(batch.policy_mask[rows].sum()))
        if self.config.train.loss_average == "constant":  # Dr.GRPO: the same whatever was sampled
            denominator = len(rows) * self.config.rollout.max_tokens
        sums: Counter[str] = Counter()
        for part in self._microbatches(batch, groups):
            loss, stats = self._loss(batch, credit, part, denominator)
            if not torch.isfinite(loss):
                self._fail(step, batch, part, f"loss is {loss.item()}")
            if loss.requires_grad:
                self.accelerator.backward(loss)
            sums.update({**stats, "loss": loss.item() * denominator})
        norm = self.accelerator.clip_grad_norm_(self.policy.model.parameters(), self.config.train.max_grad_norm)
        if not torch.isfinite(norm):
            self._fail(step, batch, rows, f"gradient norm is {norm.item()}")
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return {**sums, "tokens": float(denominator), "grad_norm": float(norm), "updates": 1.0}

    def _microbatches(self, batch: StepBatch, groups: list[int]) -> Iterator[Tensor]:
        """Row indices of whole groups up to ``microbatch_tokens`` packed tokens."""
        part: list[Tensor] = []
        used = 0
        for g in groups:
            rows = (batch.group == g).nonzero().flatten()
            members = [batch.rollouts[i] for i in rows.tolist()]
            cost = members[0].prompt_length + sum(len(m.token_ids) - m.prompt_length for m in members)
            if part and used + cost > self.config.train.microbatch_tokens:
                yield torch.cat(part)
                part, used = [], 0
            part.append(rows)
            used += cost
        yield torch.cat(part)

    def _loss(
        self, batch: StepBatch, credit: Credit, rows: Tensor, denominator: int
    ) -> tuple[Tensor, dict[str, float]]:
        train = self.config.train
        members = [batch.rollouts[i] for i in rows.tolist()]
        packed = pack(
            [m.token_ids for m in members], [m.prompt_length for m in members], batch.group[rows].tolist()
        )
        width = max(1, *(len(m.token_ids) - m.prompt_length for m in members))
        mask = batch.policy_mask[rows, :width]
        temperature = self.config.rollout.temperature
        logprobs, entropy = completion_logprobs(self.policy.model, packed, mask, temperature=temperature)
        reference = None
        if self.reference is not None:
            with torch.no_grad():
                reference, _ = completion_logprobs(self.reference, packed, mask, temperature=temperature)
        loss, stats = clipped_surrogate(
            logprobs,
            batch.old_logprobs[rows, :width].to(logprobs.device),
            credit.advantages[rows, :width].to(logprobs.device),
            credit.loss_mask[rows, :width].to(logprobs.device),
            denominator,
            clip_low=train.clip_low,
            clip_high=train.clip_high,
            ratio=train.ratio,
            ref_logprobs=reference,
            kl_coef=train.kl_coef,
        )
        return loss, {**{k: float(v) for k, v in stats.items()}, "entropy": float(entropy.sum())}

    def diagnose(self, batch: StepBatch, credit: Credit) -> dict[str, float]:
        """See ``slca.diagnostics``; one forward and two backward passes, nothing is updated."""
        rows = [(batch.group == g).nonzero().flatten().tolist() for g in batch.group.unique()]

        def logprobs_of(members: list[int]) -> Tensor:
            own = [batch.rollouts[i] for i in members]
            packed = pack([r.token_ids for r in own], [r.prompt_length for r in own], [0] * len(own))
            mask = batch.policy_mask[members][:, : packed.targets.shape[1]]
            return completion_logprobs(self.policy.model, packed, mask, temperature=self.config.rollout.temperature)[0]

        parameters = [p for p in self.policy.model.parameters() if p.requires_grad]
        gradients = segment_gradients(parameters, rows, logprobs_of, credit)
        return {**contamination(batch.group_batch(), credit), **gradients}

    def _fail(self, step: int, batch: StepBatch, rows: Tensor, what: str) -> None:
        ids = batch.ids()
        text = f"step {step}: {what}; rollouts {', '.join(ids[i] for i in rows.tolist())}"
        self.run.fail(text)
        raise TrainingFailure(text)

    # -- the loop ---------------------------------------------------------------------------------------------

    def train(self, on_step: Callable[[int, dict[str, float]], None] = lambda step, record: None) -> None:
        """Run all steps that are left, checkpoint as configured; ``on_step`` sees each step's record."""
        start = self._resume()
        steps = self.config.train.steps
        for step in range(start, steps):
            began = time.monotonic()
            batch = self.collect(step)
            sampled = time.monotonic()
            credit = self.method(batch.group_batch())
            every = self.config.train.diagnose_every
            diagnosed = self.diagnose(batch, credit) if every and step % every == 0 else {}
            measured = time.monotonic()
            stats = self.update(step, batch, credit)
            update = time.monotonic() - measured
            record = {**step_metrics(batch), **advantage_stats(credit), **stats, **diagnosed}
            record |= {"seconds": sampled - began + update, "seconds/rollout": sampled - began, "seconds/update": update}
            for key in ("tokens/policy", "tokens/total", "seconds"):
                self.totals[key] = self.totals.get(key, 0.0) + record[key]
                record[f"{key}_cum"] = self.totals[key]
            self.run.log(step, record)
            on_step(step, record)
            every = self.config.train.checkpoint_every
            if (step + 1) % every == 0 or step + 1 == steps:
                self.run.save_rollouts(step, rollout_records(batch))
                extra = {"totals": dict(self.totals), "simulator": self.simulated()}
                self.run.save_checkpoint(step + 1, self._weights(), self.optimizer, extra)

    def _weights(self) -> dict[str, Tensor]:
        return dict(self.accelerator.unwrap_model(self.policy.model).state_dict())

    def _resume(self) -> int:
        found = self.run.latest_checkpoint()
        if found is None:
            self.run.forget_after(0)  # steps of an attempt that was killed before its first checkpoint
            return 0
        step, path = found
        extra = self.run.load_checkpoint(path, self.policy.model, self.optimizer)
        self.totals, self._simulated = dict(extra["totals"]), extra.get("simulator")
        return step


#: Fields of the reward breakdown whose mean is logged at every step.
METRICS = (
    "tool", "summary", "total", "process", "outcome", "success", "action", "complete", "format", "name", "key", "value",
    "parallel", "no_call", "repeats", "invalid",
)  # fmt: skip


def step_metrics(batch: StepBatch) -> dict[str, float]:
    """Means over the rollouts of a step: each reward component, calls, tokens, how rollouts ended."""
    n = len(batch.rollouts)
    parts = [b.as_dict() for b in batch.breakdowns]

    def mean(key: str) -> float:
        return sum(float(p[key] or 0.0) for p in parts) / n

    record = {f"reward/{name}": mean(name) for name in METRICS}
    judged = [float(p["judge"]) for p in parts if p["judge"] is not None]
    record["reward/judge"] = sum(judged) / max(1, len(judged))
    record["calls_per_task"] = mean("n_calls")
    record["turns_per_task"] = sum(len(r.turns) for r in batch.rollouts) / n
    record["tokens/policy"] = float(batch.policy_mask.sum())
    record["tokens/total"] = float(sum(len(r.token_ids) for r in batch.rollouts))
    record["completions/mean_length"] = record["tokens/policy"] / n
    for reason, count in Counter(r.stop_reason for r in batch.rollouts).items():
        record[f"stop/{reason}"] = count / n
    return record


def rollout_records(batch: StepBatch) -> list[dict[str, Any]]:
    """What a person wants to see of a step's rollouts: turns, responses, rewards."""
    return [
        {
            "id": name,
            "turns": [{"text": t.text, "responses": [x.content for x in t.responses]} for t in r.turns],
            "stop_reason": r.stop_reason,
            "rewards": b.as_dict(),
        }
        for name, r, b in zip(batch.ids(), batch.rollouts, batch.breakdowns, strict=True)
    ]
