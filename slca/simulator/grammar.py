"""A response schema made fit for structured decoding: what a model may write is bounded, closed and complete (ours).

The result is narrower than the schema, so what fits it fits the schema, but for the rules that grammars cannot express
(``uniqueItems``, ``not``, ``if``, ...); those are left to the check that follows. Bounds matter: a small model that
is free to go on writes numbers and lists without end.
"""

from __future__ import annotations

from typing import Any

from slca.simulator.coerce import NOTHING
from slca.simulator.ids import is_id
from slca.simulator.jsonvalue import canonical
from slca.simulator.schema_backend import echoed
from slca.simulator.validation import plain_validator

_TEXT = 60  # characters of a string without a bound of its own
_ITEMS = 3
_FIELDS = 16  # beyond this number of properties only the required ones are asked for
_WIDEST = 1_000_000
_DEPTH = 6
_DATE = "202[4-7]-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])"
_TIME = "([01][0-9]|2[0-3]):[0-5][0-9]"
_HEX = "[0-9a-f]"
#: Short texts of a format; the formats themselves allow fractions and labels without end.
_FORMATS = {
    "date": _DATE,
    "time": _TIME,
    "date-time": f"{_DATE}T{_TIME}:00",
    "email": r"[a-z]{2,10}\.[a-z]{2,12}@[a-z]{3,12}\.(com|org|net)",
    "uri": r"https://[a-z]{3,12}\.(com|org|net)/[a-z0-9/-]{1,24}",
    "hostname": r"[a-z]{3,12}\.(com|org|net)",
    "ipv4": r"(1?[1-9][0-9]\.){3}1?[1-9][0-9]",
    "uuid": f"{_HEX}{{8}}-{_HEX}{{4}}-4{_HEX}{{3}}-[89ab]{_HEX}{{3}}-{_HEX}{{12}}",
    "duration": r"PT[1-9][0-9]?[HM]",
}


def grammar_schema(returns: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """The JSON Schema to decode under.

    Args:
        returns: response schema without ``$ref`` and ``allOf``.
        arguments: of the call; what a field echoes (``x-echo``) is fixed.

    >>> grammar_schema({"type": "object", "properties": {"city": {"type": "string", "x-echo": "city"}}}, {"city": "Oslo"})
    {'type': 'object', 'properties': {'city': {'const': 'Oslo'}}, 'required': ['city'], 'additionalProperties': False}
    """
    return _bounded(returns, arguments, 0)


def _bounded(schema: Any, arguments: dict[str, Any], depth: int) -> dict[str, Any]:
    if not isinstance(schema, dict) or depth > _DEPTH:
        return _text({})
    if (known := _echo(schema, arguments)) is not NOTHING:
        return {"const": known}
    if "const" in schema:
        return {"const": schema["const"]}
    if schema.get("enum"):
        return {"enum": schema["enum"]}
    for key in ("anyOf", "oneOf"):
        if schema.get(key):
            outer = {k: v for k, v in schema.items() if k != key}
            members = [m for m in schema[key] if isinstance(m, dict)]
            return {"anyOf": [_bounded({**outer, **m}, arguments, depth + 1) for m in members]} if members else _text({})
    kind = schema.get("type", "object" if "properties" in schema else "array" if "items" in schema else "string")
    if isinstance(kind, list):
        # null only where nothing else is allowed: a model that may say null says nothing
        kinds = [k for k in kind if k != "null"] or ["null"]
        if len(kinds) > 1:
            return {"anyOf": [_bounded({**schema, "type": k}, arguments, depth + 1) for k in kinds]}
        kind = kinds[0]
    if kind == "object":
        return _object(schema, arguments, depth)
    if kind == "array":
        return _array(schema, arguments, depth)
    if kind in ("integer", "number"):
        return _number(schema, kind)
    return {"type": kind} if kind in ("boolean", "null") else _text(schema)


def _echo(schema: dict[str, Any], arguments: dict[str, Any]) -> Any:
    if not isinstance(source := schema.get("x-echo"), str):
        return NOTHING
    value = echoed(source, arguments)
    if value is not NOTHING and schema.get("type") == "string" and not isinstance(value, str):
        value = canonical(value)
    return value if value is not NOTHING and plain_validator(schema).is_valid(value) else NOTHING


def _object(schema: dict[str, Any], arguments: dict[str, Any], depth: int) -> dict[str, Any]:
    given = schema.get("properties") or {}
    given = {**given, **{k: {} for k in schema.get("required", ()) if k not in given}}
    names = [k for k, v in given.items() if v is not False]
    if len(names) > _FIELDS:
        names = [k for k in names if k in schema.get("required", ())] or names[:_FIELDS]
    if not names:  # anything goes: a few fields of text
        return {"type": "object", "properties": {"result": _text({})}, "required": ["result"],
                "additionalProperties": False}  # fmt: skip
    fields = {k: _bounded(_named(k, given[k]), arguments, depth + 1) for k in names}
    return {"type": "object", "properties": fields, "required": names, "additionalProperties": False}


def _named(name: str, schema: Any) -> Any:
    """A string that is an id by its name gets an id's form: a small model would write digits without end."""
    free = isinstance(schema, dict) and schema.keys() <= {"type", "description", "title"}
    if free and is_id(name, schema) and schema.get("type", "string") == "string":
        return {**schema, "x-id": "".join(w[:3] for w in name.split("_")[:-1]).upper()[:3] or "ID"}
    return schema


def _array(schema: dict[str, Any], arguments: dict[str, Any], depth: int) -> dict[str, Any]:
    first = schema.get("prefixItems") or []
    least = max(schema.get("minItems", 0), min(1, schema.get("maxItems", 1)))
    most = min(schema.get("maxItems", _ITEMS), max(_ITEMS, least))
    if schema.get("items") is False:
        least, most = min(least, len(first)), min(most, len(first))
    items = _bounded(schema.get("items", {"type": "string"}), arguments, depth + 1)
    out = {"type": "array", "items": items, "minItems": least, "maxItems": most}
    return {**out, "prefixItems": [_bounded(s, arguments, depth + 1) for s in first]} if first else out


def _number(schema: dict[str, Any], kind: str) -> dict[str, Any]:
    bounds = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
    kept: dict[str, Any] = {k: schema[k] for k in bounds if k in schema}
    if "minimum" not in kept and "exclusiveMinimum" not in kept:
        top = kept.get("maximum", kept.get("exclusiveMaximum", 1))
        kept["minimum"] = 0 if top > 0 else top - _WIDEST
    if "maximum" not in kept and "exclusiveMaximum" not in kept:
        kept["maximum"] = max(_WIDEST, kept.get("minimum", kept.get("exclusiveMinimum", 0)) + _WIDEST)
    if "multipleOf" in schema:
        kept["multipleOf"] = schema["multipleOf"]
    elif kind == "number":
        kept["multipleOf"] = 0.01 if _wide(kept) else 0.0001
    return {"type": kind, **kept}


def _wide(bounds: dict[str, Any]) -> bool:
    """Is there room for hundredths between the bounds?"""
    low, high = (bounds[k] if k in bounds else bounds[f"exclusive{k.title()}"] for k in ("minimum", "maximum"))
    return bool(high - low > 0.1)


def _text(schema: dict[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {"type": "string"}
    if isinstance(schema.get("x-id"), str):
        return {**out, "pattern": f"^{_literal(schema['x-id'])}-[1-9][0-9]{{3}}$"}
    if schema.get("format") in _FORMATS:
        return {**out, "pattern": f"^{_FORMATS[schema['format']]}$"}
    if isinstance(schema.get("pattern"), str):
        return {**out, "pattern": schema["pattern"]}
    least = schema.get("minLength", 1)
    most = schema.get("maxLength", max(_TEXT, least))
    return {**out, "minLength": min(least, most), "maxLength": min(most, max(_TEXT, least))}


def _literal(prefix: str) -> str:
    return "".join(ch if ch.isalnum() or ch == "_" else f"\\{ch}" for ch in prefix)
