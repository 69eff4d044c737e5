"""The tools of one task, read once: parameters, response schema, effect on the state."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from slca.simulator.cache import key_of
from slca.simulator.effects import effect_of, noun_of
from slca.simulator.flatten import flatten
from slca.simulator.infer import infer_returns
from slca.simulator.normalise import HopelessSchema, normalise
from slca.simulator.schema_backend import answer
from slca.simulator.validation import CompiledSchema, compile_tool, parameters_of, plain_validator


@dataclass(frozen=True, eq=False)
class Tool:
    """One tool.

    Attributes:
        name, description: as given.
        parameters: JSON Schema of the arguments, normalised.
        compiled: the same, ready to check arguments.
        returns: JSON Schema of the response, normalised, without ``$ref`` and ``allOf``.
        inferred: was ``returns`` inferred, for none was given?
        effect: ``read``, ``create``, ``update`` or ``delete``.
        noun: what it is about ("order" of ``cancel_order``), "" when the name does not say.
        digest: one text per (name, description, parameters, returns).
        notes: what had to be read into the schemas.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    compiled: CompiledSchema
    returns: dict[str, Any]
    inferred: bool
    effect: str
    noun: str
    digest: str
    notes: tuple[str, ...]

    def fits(self, value: Any) -> bool:
        """Is ``value`` valid under ``returns``?"""
        return bool(_validator(json.dumps(self.returns)).is_valid(value))


class Toolset(Mapping[str, Tool]):
    """Tools by name.

    Args:
        tools: OpenAI function schemas. ``x-effect`` (read, create, update, delete) or MCP ``annotations`` on a function
            say what it does where its name does not.
        returns: tool name -> JSON Schema of its response. Without one the schema is inferred from the tool.

    ``checks_ids``: must ids in arguments have been returned or mentioned before? Only where response schemas are given:
    recorded public data names ids that nobody returned.

    Raises:
        ValueError: a tool without name, a name given twice, a hopeless schema; names the tool and the path.
    """

    def __init__(self, tools: Sequence[dict[str, Any]], returns: Mapping[str, dict[str, Any]] | None = None) -> None:
        self.checks_ids = bool(returns)
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            name, _ = parameters_of(tool)
            if name in self._tools:
                raise ValueError(f"tool {name!r} is given twice; names must differ within a task")
            given = (returns or {}).get(name)
            self._tools[name] = _read(json.dumps(tool), None if given is None else json.dumps(given))

    def __getitem__(self, name: str) -> Tool:
        return self._tools[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)


@lru_cache(maxsize=8192)
def _read(tool_text: str, returns_text: str | None) -> Tool:
    tool = json.loads(tool_text)
    name, _ = parameters_of(tool)
    compiled = compile_tool(tool)
    function = tool.get("function", tool)
    description = function.get("description")
    description = description if isinstance(description, str) else ""
    effect, noun = effect_of(name, function), noun_of(name)
    given = json.loads(returns_text) if returns_text is not None else None
    if given is None:
        given = infer_returns(name, description, compiled.parameters, effect)
    try:
        returns, notes = normalise(given, root=False)
        returns = flatten(returns)
        if returns_text is not None:
            _refuse_unanswerable(name, returns)
    except HopelessSchema as err:
        raise ValueError(f"tool {name!r}, response schema at {err}") from err
    digest = key_of(name, description, json.dumps(compiled.parameters, sort_keys=True), json.dumps(returns)).hex()
    return Tool(
        name, description, compiled.parameters, compiled, returns, returns_text is None, effect, noun, digest,
        (*compiled.notes, *(f"response schema, {n}" for n in notes)),
    )  # fmt: skip


def _refuse_unanswerable(name: str, returns: dict[str, Any]) -> None:
    """Better at load than in the middle of a run: can the schema backend, on which all others fall back, fulfil it?"""
    value = answer(name, {}, returns, 0)
    error = next(iter(_validator(json.dumps(returns)).iter_errors(value)), None)
    if error is not None:
        where = ".".join(map(str, error.absolute_path)) or "top level"
        raise ValueError(f"tool {name!r}, response schema at {where}: no answer fits all its rules ({error.message[:80]})")


@lru_cache(maxsize=8192)
def _validator(returns: str) -> Any:
    return plain_validator(json.loads(returns))
