"""From what a model wrote to a value that fits the response schema: read, mend, and at last replace (ours).

The text is data and is only ever parsed. ``fit`` mends as little as it can: a value of the wrong type is coerced where
its meaning is plain, else taken from the schema backend's answer at the same place, like fields that are missing.
"""

from __future__ import annotations

import json
from typing import Any

from slca.simulator.coerce import NOTHING, coerce
from slca.simulator.jsonvalue import refusal
from slca.simulator.validation import plain_validator

_LONGEST = 100_000


def read_json(text: str) -> tuple[Any, bool]:
    """(value, strictly): the JSON value that ``text`` is, or the first one in it; ``NOTHING`` where there is none.

    Prose and code fences around it are dropped, and a value that was cut off is closed; then ``strictly`` is False.
    """
    text = text[:_LONGEST]
    try:
        value = json.loads(text)
        return (value, True) if sound(value) else (NOTHING, False)
    except (ValueError, RecursionError):
        pass
    starts = [i for i in (text.find("{"), text.find("[")) if i >= 0]
    if not starts:
        return NOTHING, False
    text = text[min(starts) :]
    try:
        value, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        value = _closed(text)
    return (value, False) if value is not NOTHING and sound(value) else (NOTHING, False)


def sound(value: Any) -> bool:
    """Has the value a JSON text that every reader takes (no NaN, no lone surrogates, no depth without end)?"""
    return refusal({"value": value}) is None


def _closed(text: str) -> Any:
    """The value of a JSON text that was cut off: strings and brackets closed, a half entry dropped."""
    ends: list[str] = []
    in_string = escaped = False
    safe: list[tuple[int, str]] = []  # where the text can be cut, and what closes it there
    for i, ch in enumerate(text):
        if in_string:
            escaped = ch == "\\" and not escaped
            if ch == '"' and not escaped:
                in_string = False
        elif ch == '"':
            in_string = True
        elif ch in "{[":
            ends.append("}" if ch == "{" else "]")
            safe.append((i + 1, "".join(reversed(ends))))
        elif ch in "}]":
            if not ends or ends.pop() != ch:
                return NOTHING
        elif ch == ",":
            safe.append((i, "".join(reversed(ends))))
    tail = ('"' if in_string else "") + "".join(reversed(ends))
    for cut, end in [(len(text), tail), *reversed(safe[-8:])]:
        try:
            return json.loads(text[:cut] + end)
        except (ValueError, RecursionError):
            continue
    return NOTHING


def fit(value: Any, schema: Any, spare: Any) -> Any:
    """``value`` mended to fit ``schema`` (without ``$ref``); ``spare`` is a value that fits, for what is missing."""
    if not isinstance(schema, dict):
        return spare if schema is False or value is NOTHING else value
    if value is not NOTHING and plain_validator(schema).is_valid(value):
        return value
    if isinstance(value, dict) and isinstance(spare, dict):
        value = _object(value, schema, spare)
    elif isinstance(value, list) and isinstance(spare, list):
        value = _array(value, schema, spare)
    else:
        value = _alternative(value, schema, spare)
    return value if value is not NOTHING and plain_validator(schema).is_valid(value) else spare


def _object(value: dict[str, Any], schema: dict[str, Any], spare: dict[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties") or {}
    out: dict[str, Any] = {}
    for key, item in value.items():
        if key in properties:
            out[key] = fit(item, properties[key], spare.get(key))
            if key not in spare and not plain_validator({"properties": {key: properties[key]}}).is_valid(out):
                del out[key]
        elif schema.get("additionalProperties", True) is not False:
            out[key] = item
    for key in (*schema.get("required", ()), *properties):
        if key not in out and key in spare:
            out[key] = spare[key]
    return out


def _array(value: list[Any], schema: dict[str, Any], spare: list[Any]) -> list[Any]:
    items = schema.get("items")
    out = [fit(v, items, spare[n % len(spare)]) for n, v in enumerate(value)] if spare else list(value)
    if schema.get("uniqueItems"):
        out = [v for n, v in enumerate(out) if v not in out[:n]]
    out = out[: schema.get("maxItems", len(out))]
    return out + [v for v in spare if v not in out][: max(0, schema.get("minItems", 0) - len(out))]


def _alternative(value: Any, schema: dict[str, Any], spare: Any) -> Any:
    """A scalar coerced; a value under anyOf or oneOf by the first member that takes it."""
    if value is NOTHING:
        return NOTHING
    for member in [*schema.get("anyOf", ()), *schema.get("oneOf", ())]:
        if isinstance(member, dict) and (read := coerce(value, member)) is not NOTHING:
            return read
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        low, high = schema.get("minimum"), schema.get("maximum")
        if isinstance(low, (int, float)) and value < low:
            return low
        if isinstance(high, (int, float)) and value > high:
            return high
    if isinstance(value, str) and "maxLength" in schema and len(value) > schema["maxLength"]:
        return value[: schema["maxLength"]]
    return coerce(value, schema)
