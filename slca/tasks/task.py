"""The record every task source is turned into: generated, public Toucan release, a user's own JSONL."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

#: Kinds of task of the generated set; a task carries exactly one of them among its tags.
KINDS = ("single", "choice", "parallel", "dependent", "missing_info", "abstention")


@dataclass(frozen=True)
class Call:
    """One function call: a tool's name and its arguments (a JSON object)."""

    name: str
    arguments: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "arguments": self.arguments}


@dataclass(frozen=True)
class Fact:
    """Something that a good summary must state: the value at ``path`` of the response of ``tool``.

    ``path`` is a dotted path into the response object (``"price"``, ``"items.0.name"``); ``step`` and ``index``
    say which gold call answered it (``gold[step][index]``); ``value`` is what that call returned when the task
    was made (a JSON scalar).
    """

    tool: str
    path: str
    value: Any
    step: int = 0
    index: int = 0


@dataclass(frozen=True)
class Task:
    """One request to a tool-calling agent, with what is needed to simulate, reward and judge it.

    Attributes:
        id: unique within its file.
        messages: chat so far, ``{"role", "content"}`` each; the last one is the user's.
        tools: OpenAI function schemas, ``{"type": "function", "function": {"name", "description", "parameters"}}``.
        gold: steps of calls; the calls of one step are parallel. Empty when no call is right.
        facts: what the summary must state; empty when there is nothing to state.
        tags: the kind (one of ``KINDS`` for generated tasks) and free labels.
        returns: tool name -> JSON Schema of its response; hidden from the policy, used by the simulator.
        sim_seed: the simulator's seed; all rollouts of the task share it, so the same call gets the same answer.
        meta: split, domain, source and whatever a loader wants to keep.
    """

    id: str
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    gold: list[list[Call]]
    facts: list[Fact] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    returns: dict[str, dict[str, Any]] = field(default_factory=dict)
    sim_seed: int = 0
    meta: dict[str, Any] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """The first tag that is one of ``KINDS``, else ``"other"``."""
        return next((t for t in self.tags if t in KINDS), "other")

    @property
    def needs_call(self) -> bool:
        return any(self.gold)
