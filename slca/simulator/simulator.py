"""The simulated tools of one task: validation -> state (ids) -> backend -> record.

All rollouts of a group share one ``Simulator`` and so get the same answer to the same call; each has its own
``Episode``, so that what one rollout was told never helps another.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from slca.simulator.jsonvalue import plain_number
from slca.simulator.response import ToolResponse, dumps, failure
from slca.simulator.schema_backend import SchemaBackend
from slca.simulator.validation import ArgumentError, CompiledSchema, compile_tool, parameters_of, unknown_tool
from slca.tasks.task import Task

_MESSAGE_LIMIT = 64  # characters; a small policy reads errors token by token


class Backend(Protocol):
    """Answers a valid call. ``returns`` is the JSON Schema of the response; equal inputs give equal answers."""

    def answer(self, tool: str, arguments: dict[str, Any], returns: dict[str, Any], seed: int) -> Any: ...


#: Backends by the name a configuration uses.
BACKENDS: dict[str, type[Backend]] = {"schema": SchemaBackend}


@dataclass(frozen=True)
class Record:
    """One line of an episode's log; ``name`` and ``arguments`` are None for an unparsable call."""

    name: str | None
    arguments: Any
    response: ToolResponse


@dataclass(frozen=True)
class _Tool:
    name: str
    parameters: dict[str, Any]
    compiled: CompiledSchema


class Simulator:
    """Tools of one task and how they answer.

    Args:
        tools: OpenAI function schemas.
        returns: tool name -> JSON Schema of its response. A tool without one answers ``{"status": "ok"}`` merged
            with its scalar arguments, sorted by name. When empty, as in recorded public data, ids are not checked.
        seed: the answers' seed.
        known_text: text in which the policy may have read ids (the user's messages).
        backend: a name of ``BACKENDS``.

    Raises:
        ValueError: a tool without name, a name given twice, a schema that is no JSON Schema, an unknown backend.
    """

    def __init__(
        self,
        tools: list[dict[str, Any]],
        returns: dict[str, dict[str, Any]],
        seed: int,
        known_text: str = "",
        backend: str = "schema",
    ) -> None:
        if backend not in BACKENDS:
            raise ValueError(f"no simulator backend {backend!r}; choose one of {', '.join(sorted(BACKENDS))}")
        self.tools: dict[str, _Tool] = {}
        for tool in tools:
            name, parameters = parameters_of(tool)
            if name in self.tools:
                raise ValueError(f"tool {name!r} is given twice; names must differ within a task")
            self.tools[name] = _Tool(name, parameters, compile_tool(tool))
        self.returns, self.seed, self.known_text = returns, seed, known_text
        self.backend = BACKENDS[backend]()

    @classmethod
    def for_task(cls, task: Task, backend: str = "schema") -> Simulator:
        """The simulator of ``task``; ids in its user (and earlier tool) messages count as known."""
        texts = (_text(m.get("content")) for m in task.messages if m.get("role") in ("user", "tool"))
        return cls(task.tools, task.returns, task.sim_seed, "\n".join(texts), backend)

    def episode(self) -> Episode:
        """A fresh episode: no id has been returned yet."""
        return Episode(self)


@dataclass
class Episode:
    """The tools as one rollout meets them. ``log`` holds every call and its response in order."""

    simulator: Simulator
    log: list[Record] = field(default_factory=list, init=False)
    _ids: set[str] = field(default_factory=set, init=False, repr=False)

    def call(self, name: str, arguments: Any) -> ToolResponse:
        """Answer one call. Never raises on what a model may write: errors are responses with ``ok`` False."""
        response = self._answer(name, arguments)
        self.log.append(Record(name, arguments, response))
        return response

    def parse_error(self, code: str, message: str) -> ToolResponse:
        """The response to a call that could not be parsed."""
        response = failure(code, message)
        self.log.append(Record(None, None, response))
        return response

    def _answer(self, name: str, arguments: Any) -> ToolResponse:
        sim = self.simulator
        tool = sim.tools.get(name) if isinstance(name, str) else None
        if tool is None:
            return _failure_of([unknown_tool(name, sim.tools)])
        if errors := tool.compiled.errors(arguments):
            return _failure_of(errors)
        if sim.returns:
            for path, given, schema in id_values(arguments, tool.parameters):
                if not (given in self._ids or _is_offered(given, schema) or is_mentioned(given, sim.known_text)):
                    return failure("not_found", f"{path} not found; use an id that a tool returned")
        returns = sim.returns.get(name)
        value: Any
        if returns is None:
            value = {"status": "ok"} | {k: v for k, v in _scalars(arguments) if k != "status"}
        else:
            value = sim.backend.answer(name, arguments, returns, sim.seed)
            self._ids.update(text for _, text, _ in id_values(value, returns))
        return ToolResponse(dumps(value), value)


def id_values(value: Any, schema: Any, name: str = "", path: str = "") -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(path, text, schema) of each string in ``value`` that is an id.

    It is one when its schema has ``x-id``, or its name ends in ``_id``, or it is an item of a list named ``..._ids``.

    >>> [(path, text) for path, text, _ in id_values({"order_id": "ORD-1", "note": "x"}, {})]
    [('order_id', 'ORD-1')]
    """
    schema = schema if isinstance(schema, dict) else {}
    if isinstance(value, str):
        if "x-id" in schema or name.endswith("_id"):
            yield path, value, schema
    elif isinstance(value, dict):
        properties = schema.get("properties") or {}
        for key, item in value.items():
            yield from id_values(item, properties.get(key), key, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        item_name = name.removesuffix("s") if name.endswith("_ids") else ""
        for n, item in enumerate(value):
            yield from id_values(item, schema.get("items"), item_name, f"{path}.{n}")


def _is_offered(identifier: str, schema: dict[str, Any]) -> bool:
    """Does the tool itself name the id, as a choice or a default?"""
    return identifier in [*schema.get("enum", ()), schema.get("const"), schema.get("default")]


def is_mentioned(identifier: str, text: str) -> bool:
    """Does ``identifier`` stand in ``text`` as a whole, not as a piece of a longer word or id?

    >>> is_mentioned("ORD-48", "where is ORD-48?"), is_mentioned("ORD-48", "where is ORD-4821?")
    (True, False)
    """
    whole = rf"(?<![A-Za-z0-9_-]){re.escape(identifier)}(?![A-Za-z0-9_-])"
    return bool(identifier) and re.search(whole, text) is not None


def _scalars(arguments: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    yield from ((k, plain_number(v)) for k, v in sorted(arguments.items()) if not isinstance(v, (dict, list)))


def _text(content: Any) -> str:
    """A message's text, whether a string or a list of parts."""
    if isinstance(content, list):
        return "\n".join(p["text"] for p in content if isinstance(p, dict) and isinstance(p.get("text"), str))
    return content if isinstance(content, str) else ""


def _failure_of(errors: list[ArgumentError]) -> ToolResponse:
    """The first error's code, and as many messages as fit."""
    message = errors[0].message
    for err in errors[1:]:
        if len(message) + len(err.message) + 2 > _MESSAGE_LIMIT:
            break
        message += "; " + err.message
    return failure(errors[0].code, message)
