"""What the tiny profile costs: task generation, rollouts, the packed update against padded rows, peak memory.

    python -m benchmarks.tiny_profile [--rounds 5]

Prints and writes results/benchmarks/tiny_profile.json.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from slca.config_load import load_config
from slca.packing import completion_logprobs, pack
from slca.policy import load_policy
from slca.rollout.agent import Sampling, rollout_groups
from slca.rollout.engine import TransformersEngine
from slca.rollout.options import Limits
from slca.rollout.rollout import Rollout
from slca.tasks.generate import generate


def timed(function: Callable[[], object]) -> float:
    began = time.perf_counter()
    function()
    return time.perf_counter() - began


def padded_update(model: torch.nn.Module, rollouts: list[Rollout]) -> None:
    """Forward and backward with one padded row per rollout and logits of every token, as trainers usually do it."""
    longest = max(len(r.token_ids) for r in rollouts)
    rows = torch.tensor([r.token_ids + [0] * (longest - len(r.token_ids)) for r in rollouts])
    mask = torch.tensor([r.policy_mask + [False] * (longest - len(r.token_ids)) for r in rollouts])
    logprobs = model(input_ids=rows).logits[:, :-1].float().log_softmax(-1)
    logprobs.gather(-1, rows[:, 1:, None]).squeeze(-1)[mask[:, 1:]].sum().backward()


def packed_update(model: torch.nn.Module, rollouts: list[Rollout], groups: list[int]) -> None:
    """The same by shared-prefix packing, policy tokens only."""
    packed = pack([r.token_ids for r in rollouts], [r.prompt_length for r in rollouts], groups)
    mask = torch.zeros(packed.targets.shape, dtype=torch.bool)
    for i, r in enumerate(rollouts):
        mask[i, : len(r.token_ids) - r.prompt_length] = torch.tensor(r.policy_mask[r.prompt_length :])
    completion_logprobs(model, packed, mask)[0].sum().backward()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="how often each is measured, in turn")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    config = load_config("tiny")
    r, t = config.rollout, config.train
    policy = load_policy("tiny-base")
    engine = TransformersEngine(policy.model, r.max_rows)
    limits = Limits(r.max_turns, r.max_calls, r.max_tokens, r.max_context)
    tasks = generate(t.prompts_per_step, "train", 1)
    found: dict[str, list[float]] = {"generate_10000_s": [timed(lambda: generate(10_000, "train", 5))]}
    sampled: list[list[Rollout]] = []
    for k in range(args.rounds):
        began = time.perf_counter()
        sampled = rollout_groups(tasks, r.group_size, engine, policy.codec, limits, Sampling(1.0, k))
        seconds = time.perf_counter() - began
        found.setdefault("rollouts_s", []).append(seconds)
        tokens = sum(sum(x.policy_mask) for group in sampled for x in group)
        found.setdefault("sampled_tokens_per_s", []).append(tokens / seconds)
    half = sampled[: t.minibatch_prompts]
    rollouts = [x for group in half for x in group]
    groups = [g for g, group in enumerate(half) for _ in group]
    for _ in range(args.rounds):
        a = timed(lambda: padded_update(policy.model, rollouts))
        b = timed(lambda: packed_update(policy.model, rollouts, groups))
        found.setdefault("padded_update_s", []).append(a)
        found.setdefault("packed_update_s", []).append(b)
        found.setdefault("padded_over_packed", []).append(a / b)
    scale = 1024 if sys.platform == "darwin" else 1
    medians = {k: statistics.median(v) for k, v in found.items()}
    medians["peak_memory_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / scale / 1024
    for name, value in medians.items():
        print(f"{name:24s} {value:10.3f}")
    out = Path("results/benchmarks/tiny_profile.json")
    out.parent.mkdir(parents=True, exist_ok=True)
    settings = {"threads": args.threads, "rounds": args.rounds, "prompts": t.prompts_per_step, "group_size": r.group_size}
    out.write_text(json.dumps({**settings, "median": medians, "all": found}, indent=1) + "\n", encoding="utf-8")
    print(out)


if __name__ == "__main__":
    main()
