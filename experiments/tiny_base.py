"""Build the embedded default policy: tokenizer, tiny decoder, warm start on imperfect demonstrations.

    python -m experiments.tiny_base [--steps 9000] [--out slca/assets/tiny-base]

The first part of training shows perfect demonstrations (the tools' use and copying are learned from them), the last
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
from slca.rollout.agent import TextCodec
from slca.rollout.chat import END, chat_format
from slca.sft import Example, encode_demonstration, train_sft
from slca.tasks.demonstrate import Noise, demonstrate
from slca.tasks.generate import generate

#: Rates of each mistake in the imperfect demonstrations.
NOISE = Noise(
    wrong_tool=0.12,
    wrong_value=0.12,
    drop_argument=0.05,
    serial_instead_of_parallel=0.3,
    drop_call=0.2,
    redundant_call=0.12,
    needless_call=0.3,
    omitted_call=0.05,
    omit_fact=0.35,
    invent_fact=0.15,
)


def demonstration_text(index: int, seed: int, codec_chat: str = "compact") -> str:
    """Text of one demonstration, for training the tokenizer."""
    task = generate(1, "train", seed + index)[0]
    return task_text(task, codec_chat)


def task_text(task, chat_name: str) -> str:  # type: ignore[no-untyped-def]
    chat = chat_format(chat_name)
    text = chat.prompt(task.messages, task.tools)
    for turn in demonstrate(task, 0, Noise()).turns:
        text += (chat.call_turn(turn.calls) if turn.calls else turn.reply) + END
        text += chat.after_turn([r.content for r in turn.responses]) if turn.calls else ""
    return text


class Demonstrations:
    """The k-th data set of the warm start: new tasks each time, imperfect from ``perfect_epochs`` on."""

    def __init__(self, codec: TextCodec, size: int, perfect_epochs: int, seed: int) -> None:
        self.codec, self.size, self.perfect_epochs, self.seed = codec, size, perfect_epochs, seed

    def __call__(self, epoch: int) -> Sequence[Example]:
        noise = Noise() if epoch < self.perfect_epochs else NOISE
        tasks = generate(self.size, "train", self.seed + 1000 + epoch)
        return [encode_demonstration(task, epoch, noise, self.codec) for task in tasks]


def build(args: argparse.Namespace) -> Policy:
    tasks = generate(4000, "train", args.seed)
    shape = TinyConfig(vocab_size=args.vocab, hidden_size=args.hidden, layers=args.layers, heads=args.hidden // 32,
                       intermediate_size=args.hidden * 8 // 3 // 32 * 32)
    tokenizer = train_tokenizer((task_text(t, "compact") for t in tasks), shape.vocab_size)
    policy = build_tiny(shape, tokenizer, args.seed)
    print(f"{policy.n_parameters():,} parameters, vocabulary {len(tokenizer)}")
    data = Demonstrations(policy.codec, args.tasks, args.perfect_epochs, args.seed)

    def report(r: dict[str, float]) -> None:
        left = r["seconds"] / r["step"] * (r["steps"] - r["step"])
        print(f"step {r['step']:.0f}/{r['steps']:.0f} epoch {r['epoch']:.0f} tokens {r['tokens']:,.0f} "
              f"loss {r['loss']:.4f} {r['seconds']:.0f}s, {left:.0f}s left", flush=True)

    done = train_sft(policy, data, args.steps, args.batch_tokens, args.lr, args.muon_lr, args.context_weight,
                     args.seed, report)
    manifest = {"made_by": "experiments.tiny_base", "arguments": {k: v for k, v in vars(args).items() if k != "out"},
                "shape": asdict(shape), "noise": asdict(NOISE), "training": done}
    save_policy(policy, Path(args.out), manifest)
    return policy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=9000, help="optimiser steps")
    parser.add_argument("--batch-tokens", type=int, default=8192, help="padded tokens of a batch")
    parser.add_argument("--tasks", type=int, default=8000, help="tasks of one data set (an epoch)")
    parser.add_argument("--perfect-epochs", type=int, default=6, help="epochs on perfect demonstrations")
    parser.add_argument("--vocab", type=int, default=1024)
    parser.add_argument("--hidden", type=int, default=160)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--lr", type=float, default=3e-3, help="AdamW: embeddings and norms")
    parser.add_argument("--muon-lr", type=float, default=0.02, help="Muon: matrices of the layers")
    parser.add_argument("--context-weight", type=float, default=0.1, help="loss weight of tokens that are not the policy's")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", default=str(ASSETS / "tiny-base"))
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    random.seed(args.seed)
    began = time.time()
    build(args)
    print(f"written to {args.out} in {time.time() - began:.0f} s")


if __name__ == "__main__":
    main()
