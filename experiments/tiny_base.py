"""Build the embedded default policy: tokenizer, tiny decoder, warm start on imperfect demonstrations.

    python -m experiments.tiny_base [--steps 4400] [--out slca/assets/tiny-base]

The first part of training shows perfect demonstrations (the use of tools and copying are learned from them), the last
part imperfect ones, so that the policy knows how to do the task and also does it wrong at known rates: that is what RL
then has to gain.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from slca.policy import ASSETS, Policy, TinyConfig, build_tiny, save_policy, train_tokenizer
from slca.rewards.hierarchy import score
from slca.rewards.judge import RubricJudge
from slca.rewards.options import RewardConfig
from slca.rollout.agent import Sampling, rollout_groups
from slca.rollout.chat import END, ChatFormat, chat_format
from slca.rollout.engine import TransformersEngine
from slca.rollout.options import Limits
from slca.sft import Example, encode_demonstration, train_sft
from slca.tasks.cipher import Cipher, make_cipher
from slca.tasks.demonstrate import Noise, demonstrate
from slca.tasks.generate import SPLITS, generate
from slca.tasks.task import Task

#: Rates of each mistake in the imperfect demonstrations.
NOISE = Noise(
    wrong_tool=0.2,
    wrong_value=0.15,
    drop_argument=0.08,
    serial_instead_of_parallel=0.55,
    drop_call=0.3,
    redundant_call=0.2,
    needless_call=0.4,
    omitted_call=0.05,
    omit_fact=0.45,
    invent_fact=0.15,
)
#: Share of demonstrations in other words, each in a cipher of its own.
CIPHERED = 0.6
#: Tasks between two looks at the policy, and how many are looked at.
EPOCH, PROBE = 4000, 100


def demonstration_text(task: Task, chat: ChatFormat) -> str:
    """The text of a perfect demonstration, for training the tokenizer."""
    text = chat.prompt(task.messages, task.tools)
    for turn in demonstrate(task, 0, Noise()).turns:
        text += (chat.call_turn(turn.calls) if turn.calls else turn.reply) + END
        text += chat.after_turn([r.content for r in turn.responses]) if turn.calls else ""
    return text


class Demonstrations:
    """The k-th data set of the warm start: new tasks each time, imperfect once ``imperfect`` is set."""

    def __init__(self, policy: Policy, seed: int) -> None:
        self.policy, self.seed, self.imperfect = policy, seed, False

    def __call__(self, epoch: int) -> Sequence[Example]:
        noise = NOISE if self.imperfect else Noise()
        # Seed 1 is that of the RL tasks; those are not shown here.
        tasks = generate(EPOCH, "train", self.seed + 1000 + epoch)
        codec = self.policy.codec
        return [encode_demonstration(task, epoch, noise, codec, some_cipher(task, epoch)) for task in tasks]


def some_cipher(task: Task, epoch: int) -> Cipher | None:
    """A cipher for a share of the demonstrations, so that the policy reads its tools instead of knowing them."""
    rng = random.Random(f"{task.id}/cipher/{epoch}")
    return make_cipher(task, rng) if rng.random() < CIPHERED else None


def probe(policy: Policy, greedy: bool) -> str:
    """Process reward, success and summary score on a few tasks of each split."""
    engine, judge = TransformersEngine(policy.model, max_rows=256), RubricJudge()
    parts = []
    for split in SPLITS:
        tasks = generate(PROBE, split, 77)
        sampling = Sampling(0.0 if greedy else 1.0, seed=1)
        groups = rollout_groups(tasks, 1, engine, policy.codec, Limits(4, 8, 96, 768), sampling)
        found = [score(t, g[0], judge, RewardConfig()) for t, g in zip(tasks, groups, strict=True)]
        needed = [b for t, b in zip(tasks, found, strict=True) if t.needs_call]
        success = sum(b.success for b in needed) / len(needed)
        process = sum(b.process for b in needed) / len(needed)
        outcome = sum(b.outcome for b in needed) / len(needed)
        parts.append(f"{split} success {success:.2f} process {process:.2f} summary {outcome:.2f}")
    return f"  {'greedy' if greedy else 'sampled'}: " + "; ".join(parts)


def build(args: argparse.Namespace) -> Policy:
    chat = chat_format("compact")
    tasks = generate(4000, "train", args.seed)
    shape = TinyConfig(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        layers=args.layers,
        heads=args.hidden // 32,
        kv_heads=args.hidden // 32,
        intermediate_size=args.hidden * 8 // 3 // 32 * 32,
    )
    rng = random.Random(args.seed)
    # A fifth of the texts in other words: the vocabulary keeps the pieces that unknown words are made of.
    texts = [
        make_cipher(t, rng).apply(text) if i % 5 == 0 else text
        for i, t in enumerate(tasks)
        for text in [demonstration_text(t, chat)]
    ]
    tokenizer = train_tokenizer(texts, shape.vocab_size)
    policy = build_tiny(shape, tokenizer, args.seed)
    print(f"{policy.n_parameters():,} parameters, vocabulary {len(tokenizer)}", flush=True)
    data = Demonstrations(policy, args.seed)

    def report(r: dict[str, float]) -> None:
        left = r["seconds"] / r["step"] * (r["steps"] - r["step"])
        print(
            f"step {r['step']:.0f}/{r['steps']:.0f} tokens {r['tokens']:,.0f} loss {r['loss']:.4f} "
            f"{r['seconds']:.0f} s, {left:.0f} s left",
            flush=True,
        )
        data.imperfect = r["step"] >= args.imperfect_from * r["steps"]
        if r["step"] % args.probe_every == 0:
            print(probe(policy, greedy=True), flush=True)
            if args.keep:
                save_policy(policy, Path(args.keep), {"made_by": "experiments.tiny_base", "step": r["step"]})
            policy.model.train()

    done = train_sft(
        policy, data, args.steps, args.batch_tokens, args.lr, args.muon_lr, args.context_weight, args.seed, report
    )
    manifest = {
        "made_by": "experiments.tiny_base",
        "arguments": {k: v for k, v in vars(args).items() if k not in ("out", "keep")},
        "shape": asdict(shape),
        "noise": asdict(NOISE),
        "ciphered": CIPHERED,
        "training": done,
    }
    save_policy(policy, Path(args.out), manifest)
    return policy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=4400, help="optimiser steps")
    parser.add_argument("--batch-tokens", type=int, default=4096, help="padded tokens of a batch")
    parser.add_argument("--imperfect-from", type=float, default=0.85, help="share of the steps with perfect ones")
    parser.add_argument("--vocab", type=int, default=2048)
    parser.add_argument("--hidden", type=int, default=160)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--lr", type=float, default=3e-3, help="AdamW: embeddings and norms")
    parser.add_argument("--muon-lr", type=float, default=0.02, help="Muon: matrices of the layers")
    parser.add_argument("--context-weight", type=float, default=0.1, help="loss weight of tokens not the policy's")
    parser.add_argument("--probe-every", type=int, default=400, help="steps between two evaluations on a few tasks")
    parser.add_argument("--keep", help="also save the policy to this folder at every evaluation")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", default=str(ASSETS / "tiny-base"))
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    began = time.time()
    policy = build(args)
    print(probe(policy, greedy=True), probe(policy, greedy=False), sep="\n")
    print(f"written to {args.out} in {time.time() - began:.0f} s")


if __name__ == "__main__":
    main()
