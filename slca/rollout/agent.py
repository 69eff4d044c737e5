"""The agent loop of one rollout: policy turn -> parser -> simulator -> next turn.

A ``Conversation`` holds everything that belongs to one rollout; an engine only samples tokens for it. Text is
encoded once, when it is appended; what the policy sampled is kept as ids and never tokenised again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

from slca.rollout.chat import END, ChatFormat
from slca.rollout.options import Limits
from slca.rollout.parser import parse_turn
from slca.rollout.rollout import Rollout, Turn
from slca.simulator.response import ToolResponse
from slca.simulator.simulator import Episode, Simulator
from slca.tasks.task import Task


@dataclass(frozen=True)
class Sampling:
    """How tokens are drawn. ``temperature`` 0 is greedy; ``seed`` with task id and sample fixes every draw."""

    temperature: float = 1.0
    seed: int = 0

    @property
    def greedy(self) -> bool:
        return self.temperature == 0.0


class TextCodec:
    """Encoding and decoding with the special tokens of the call format kept."""

    def __init__(self, tokenizer: Any, chat: ChatFormat) -> None:
        self.tokenizer = tokenizer
        self.chat = chat
        end = tokenizer.convert_tokens_to_ids(END)
        if end is None or end == tokenizer.unk_token_id:
            raise ValueError(f"the tokenizer has no token {END!r}, which ends a turn in chat format {chat.name!r}")
        self.end_id: int = int(end)

    def encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def decode(self, ids: Sequence[int]) -> str:
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False))


class Conversation:
    """One rollout in the making.

    The engine calls ``append_sampled`` for every token and asks ``turn_over``; at the end of a turn it calls
    ``close_turn``. A conversation that then ``awaits`` answers gets them by ``answer_turns``, which returns the ids to
    feed before the next turn, or None when the rollout is over.
    """

    def __init__(self, task: Task, sample: int, prompt: list[int], episode: Episode, codec: TextCodec, limits: Limits):
        self.task, self.sample, self.codec, self.limits = task, sample, codec, limits
        self.episode = episode
        self.token_ids = list(prompt)
        self.prompt_length = len(prompt)
        self.policy_mask = [False] * len(prompt)
        self.logprobs = [0.0] * len(prompt)
        self.turns: list[Turn] = []
        self.turn_spans: list[tuple[int, int]] = []
        self.stop_reason = "context" if len(prompt) >= limits.max_context else ""
        self._turn_start = len(prompt)
        self.awaits = False

    @property
    def done(self) -> bool:
        return bool(self.stop_reason)

    @property
    def n_sampled(self) -> int:
        """Policy tokens so far: the index of the next random draw."""
        return sum(end - start for start, end in self.turn_spans) + len(self.token_ids) - self._turn_start

    def append_sampled(self, token: int, logprob: float) -> None:
        self.token_ids.append(token)
        self.policy_mask.append(True)
        self.logprobs.append(logprob)

    @property
    def turn_over(self) -> bool:
        length = len(self.token_ids) - self._turn_start
        return length > 0 and (
            self.token_ids[-1] == self.codec.end_id
            or length >= self.limits.max_tokens
            or len(self.token_ids) >= self.limits.max_context
        )

    def close_turn(self) -> None:
        """Parse the turn just sampled; its calls, if it has any, now await their answers."""
        ids = self.token_ids[self._turn_start :]
        ended = ids[-1] == self.codec.end_id
        turn = parse_turn(self.codec.decode(ids[:-1] if ended else ids), max_calls=self.limits.max_calls)
        self.turns.append(turn)
        self.turn_spans.append((self._turn_start, len(self.token_ids)))
        self.awaits = turn.opens_call
        self._turn_start = len(self.token_ids)
        if not ended:
            full = len(self.token_ids) >= self.limits.max_context
            self.stop_reason = "context" if full else "max_tokens"
        elif not turn.opens_call:
            self.stop_reason = "answer"
        elif any(e.code == "too_many_calls" for e in turn.errors):
            self.stop_reason = "max_calls"
        elif len(self.turns) >= self.limits.max_turns:
            self.stop_reason = "max_turns"

    def read(self, responses: Sequence[ToolResponse]) -> list[int] | None:
        """Take in the answers to the turn's calls; the ids of their text, already appended, or None: over."""
        turn = self.turns[-1]
        turn.responses.extend(responses)
        turn.responses.extend(self.episode.parse_error(e.code, e.message) for e in turn.errors)
        self.awaits = False
        if self.done:
            return None
        glue = self.codec.encode(self.codec.chat.after_turn([r.content for r in turn.responses]))
        if len(self.token_ids) + len(glue) >= self.limits.max_context:
            self.stop_reason = "context"
            return None
        self.token_ids.extend(glue)
        self.policy_mask.extend([False] * len(glue))
        self.logprobs.extend([0.0] * len(glue))
        self._turn_start = len(self.token_ids)
        return glue

    def rollout(self) -> Rollout:
        return Rollout(
            task_id=self.task.id,
            sample=self.sample,
            token_ids=self.token_ids,
            prompt_length=self.prompt_length,
            policy_mask=self.policy_mask,
            logprobs=self.logprobs,
            turns=self.turns,
            turn_spans=self.turn_spans,
            stop_reason=self.stop_reason,
        )


def answer_turns(conversations: Sequence[Conversation]) -> list[list[int] | None]:
    """Answer the calls of all these closed turns in one batch; for each what ``Conversation.read`` returns."""
    calls = [(c.episode, call.name, call.arguments) for c in conversations for call in c.turns[-1].calls]
    responses = iter(conversations[0].episode.simulator.call_batch(calls) if calls else ())
    return [c.read(list(islice(responses, len(c.turns[-1].calls)))) for c in conversations]


class Engine(Protocol):
    """Samples whole conversations. Conversations of one task follow each other and share their prompt."""

    def run(self, conversations: Sequence[Conversation], sampling: Sampling) -> None: ...


def rollout_groups(
    tasks: Sequence[Task],
    samples: int,
    engine: Engine,
    codec: TextCodec,
    limits: Limits,
    sampling: Sampling,
    simulator: Simulator | None = None,
) -> list[list[Rollout]]:
    """``samples`` rollouts of each task, in the order of ``tasks``; each rollout has an episode of its own.

    ``simulator`` answers the calls; by default the schema backend does.
    """
    simulator = simulator or Simulator()
    groups = []
    for task in tasks:
        prompt = codec.encode(codec.chat.prompt(task.messages, task.tools))
        episodes = simulator.episodes(task, samples, salt=str(sampling.seed))
        groups.append([Conversation(task, s, prompt, e, codec, limits) for s, e in enumerate(episodes)])
    engine.run([c for group in groups for c in group], sampling)
    return [[c.rollout() for c in group] for group in groups]
