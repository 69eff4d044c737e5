"""How a tool of the generated set is written down, and the JSON Schemas that follow from it.

A kind string describes a value, for parameters and response fields alike:

    "city"                     a value pool by name (``slca.tasks.values.POOLS``)
    "date" "time" "email"      ISO date, HH:MM, address
    "int:1-9" "num:5-500"      integer and number ranges (numbers with at most one decimal)
    "enum:small|medium|large"  a choice
    "bool"                     true or false
    "id:BK"                    an id such as BK-4821 (name the parameter ``..._id``)
    "list:item"                an array of 2 or 3 values of another kind
    "echo:city"                responses only: the value of that argument
    {"street": "street", ...}  a nested object (parameters only)

A trailing "?" makes a parameter optional.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from slca.tasks.values import POOLS

Kind = str | dict[str, Any]


@dataclass(frozen=True)
class Tool:
    """One tool with the ways people ask for it.

    Attributes:
        name, description: as the policy sees them; a description has 3 to 8 words.
        params: parameter -> kind.
        returns: response field -> kind.
        ask: requests with ``{param}`` slots for every required parameter; a part in square brackets is used only when
            the optional parameter in it is: ``"Weather in {city}[ in {unit}]?"``.
        reply: summaries with ``{field}`` slots, from the response or the arguments. The response fields of the first
            are the facts that a good summary states.
        vague: (parameter that is missing, request without it): one example of missing information, or None.
    """

    name: str
    description: str
    params: dict[str, Kind]
    returns: dict[str, str]
    ask: list[str]
    reply: list[str]
    vague: tuple[str, str] | None = None


@dataclass(frozen=True)
class Chain:
    """A dependent pair: ``first`` returns the id that ``second`` takes.

    ``ask`` uses the slots of ``first`` and, with the prefix ``then_``, those of ``second`` other than the id.
    """

    first: str
    second: str
    ask: list[str]


@dataclass(frozen=True)
class Domain:
    name: str
    tools: list[Tool]
    chains: list[Chain] = field(default_factory=list)


def is_optional(kind: Kind) -> bool:
    return isinstance(kind, str) and kind.endswith("?")


def schema_of(kind: Kind) -> dict[str, Any]:
    """JSON Schema of a kind (parameters and responses)."""
    if isinstance(kind, dict):
        properties = {k: schema_of(v) for k, v in kind.items()}
        return {"type": "object", "properties": properties, "required": list(kind)}
    base, _, rest = kind.removesuffix("?").partition(":")
    if base in ("date", "time", "email"):
        return {"type": "string", "format": base}
    if base in ("int", "num"):
        low, high = (float(x) for x in rest.rsplit("-", 1)) if not rest.startswith("-") else _signed(rest)
        if base == "int":
            return {"type": "integer", "minimum": int(low), "maximum": int(high)}
        return {"type": "number", "minimum": low, "maximum": high, "multipleOf": 0.5}
    if base == "enum":
        return {"type": "string", "enum": rest.split("|")}
    if base == "bool":
        return {"type": "boolean"}
    if base == "id":
        return {"type": "string", "x-id": rest}
    if base == "list":
        return {"type": "array", "items": schema_of(rest)}
    if base == "echo":
        return {"x-echo": rest}
    if base in POOLS:
        return {"type": "string"}
    raise ValueError(f"unknown kind {kind!r}; pools: {', '.join(sorted(POOLS))}")


def _signed(rest: str) -> tuple[float, float]:
    low, _, high = rest[1:].partition("-")
    return -float(low), float(high)


def function_schema(tool: Tool) -> dict[str, Any]:
    """The OpenAI function schema the policy sees. Ids are plain strings there; so are the pools."""
    properties = {}
    for name, kind in tool.params.items():
        properties[name] = {k: v for k, v in schema_of(kind).items() if k != "x-id"}
    parameters = {
        "type": "object",
        "properties": properties,
        "required": [p for p, k in tool.params.items() if not is_optional(k)],
    }
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": parameters},
    }


def return_schema(tool: Tool) -> dict[str, Any]:
    """JSON Schema of the response. Pools become enums, so that the simulator's answers fit the tool."""
    properties: dict[str, Any] = {}
    for name, kind in tool.returns.items():
        base, _, rest = kind.partition(":")
        if base == "echo":
            echoed = {k: v for k, v in schema_of(tool.params[rest]).items() if k != "x-id"}
            properties[name] = {**echoed, "x-echo": rest}
        elif base in POOLS:
            properties[name] = {"type": "string", "enum": list(POOLS[base])}
        elif base == "list" and rest in POOLS:
            properties[name] = {
                "type": "array", "items": {"type": "string", "enum": list(POOLS[rest])}, "minItems": 2, "maxItems": 2
            }
        else:
            properties[name] = schema_of(kind)
    return {"type": "object", "properties": properties, "required": list(properties)}
