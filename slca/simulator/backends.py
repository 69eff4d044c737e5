"""What every backend is: a batch of requests in, a draft for each out. Backends by the name a configuration uses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from slca.simulator.options import SimulatorConfig
from slca.simulator.replay import Recorded
from slca.simulator.response import ToolResponse
from slca.simulator.schema_backend import answer
from slca.simulator.toolset import Tool


@dataclass(frozen=True)
class Record:
    """One line of an episode's log; ``name`` and ``arguments`` are None for an unparsable call."""

    name: str | None
    arguments: Any
    response: ToolResponse


@dataclass(frozen=True)
class Request:
    """One call to be answered.

    Attributes:
        name, arguments: the call, valid under the tool's schema (in mode ``without_schema`` whatever was written).
        tool: the tool; None in mode ``without_schema``, where nobody tells the backend about it.
        seed: seed of the answer: equal requests with equal seeds are to get equal answers.
        context: what the episode did that bears on this call, oldest first.
        examples: recorded answers of this tool.
    """

    name: str
    arguments: dict[str, Any]
    tool: Tool | None
    seed: int
    context: tuple[Record, ...] = ()
    examples: tuple[Recorded, ...] = ()


@dataclass(frozen=True)
class Draft:
    """A backend's answer, not yet checked: ``text`` that a model wrote, or a ``value``; ``failed`` says why none came.

    ``fatal``: and none will come until someone mends the configuration (a wrong key, no such model).
    """

    text: str | None = None
    value: Any = None
    failed: str | None = None
    fatal: bool = False
    prompt_tokens: int = 0
    tokens: int = 0


class Backend(Protocol):
    """Answers calls.

    Attributes:
        identity: one text for everything that decides its answers (name, model, temperature, ...).
        uses_context: does an answer depend on the episode's log?
    """

    identity: str
    uses_context: bool

    def answer(self, requests: Sequence[Request]) -> list[Draft]: ...


class SchemaBackend:
    """``schema_backend.answer``: no model; an answer depends on seed, tool, arguments and response schema alone."""

    identity = "schema"
    uses_context = False

    def answer(self, requests: Sequence[Request]) -> list[Draft]:
        return [Draft(value=self.one(r)) for r in requests]

    def one(self, request: Request) -> Any:
        returns = request.tool.returns if request.tool is not None else infer_blindly(request.name, request.arguments)
        return answer(request.name, request.arguments, returns, request.seed)


class ReplayBackend:
    """Knows recorded answers only, and those are replayed before a backend is asked: what comes here is unknown."""

    identity = "replay"
    uses_context = False

    def answer(self, requests: Sequence[Request]) -> list[Draft]:
        return [Draft(failed="not recorded") for _ in requests]


def infer_blindly(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """A response schema from a call alone."""
    from slca.simulator.effects import effect_of
    from slca.simulator.infer import infer_returns

    return infer_returns(name, "", {"properties": arguments}, effect_of(name, {}))


def _llm(config: SimulatorConfig) -> Backend:
    from slca.simulator.llm_backend import LLMBackend

    return LLMBackend.from_config(config)


def _vllm(config: SimulatorConfig) -> Backend:
    from slca.simulator.vllm_backend import VLLMBackend

    return VLLMBackend.from_config(config)


def _openai(config: SimulatorConfig) -> Backend:
    from slca.simulator.openai_backend import OpenAIBackend

    return OpenAIBackend.from_config(config)


#: Name in a configuration -> how to make it (imports are late: some need a model, an engine or an endpoint).
BACKENDS: dict[str, Callable[[SimulatorConfig], Backend]] = {
    "schema": lambda config: SchemaBackend(),
    "llm": _llm,
    "vllm": _vllm,
    "openai": _openai,
    "replay": lambda config: ReplayBackend(),
}
