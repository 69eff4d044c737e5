"""A response schema for a tool that comes without one: from recorded answers, or from its name and description (ours)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from slca.simulator.effects import is_cancel, noun_of
from slca.simulator.vocabulary import FORMAT_WORDS, NUMBERS, STRINGS, SUCCESS, lookup, words

#: What a read of such a thing usually tells, where the description does not say.
_FIELDS = {
    "weather": "condition temperature humidity",
    "forecast": "condition high low",
    "flight": "flight_number airline departure_time arrival_time price",
    "hotel": "hotel_id name price rating",
    "restaurant": "name address rating",
    "order": "order_id status total",
    "product": "product_id name price stock",
    "event": "event_id title date time",
    "email": "email_id sender subject date",
    "message": "message_id sender text",
    "file": "name size modified_date",
    "user": "user_id name email",
    "customer": "customer_id name email",
    "stock": "symbol price change",
    "price": "price currency",
    "account": "account_id balance currency",
    "route": "distance duration",
    "distance": "distance unit",
    "news": "title source date",
    "movie": "title year rating genre",
    "song": "title artist album",
    "book": "title author year",
    "recipe": "name duration calories",
    "appointment": "appointment_id date time doctor",
    "shipment": "shipment_id status eta",
    "ticket": "ticket_id status priority",
    "task": "task_id title status",
}
_LISTS = frozenset(("list", "search", "find", "query", "browse"))
_MOST_FIELDS = 8
_STOP = frozenset(re.findall(r"\w+", "the a an its their his her and or of for with all any given specified current"))
_UNTIL = r"[.;:]|$|\b(?:for|of|based|given|using|in|from|by|if|when|that|which|as|within|on|at|matching)\b"


def infer_returns(name: str, description: str, parameters: dict[str, Any], effect: str) -> dict[str, Any]:
    """A response schema: an object that echoes the ids it was asked about and tells what the tool is likely to tell.

    >>> infer_returns("get_time", "Returns the time and zone of a city.", {"properties": {"city": {}}}, "read")["properties"]
    {'time': {'type': 'string', 'format': 'time'}, 'zone': {'type': 'string'}}
    """
    properties: dict[str, Any] = {}
    for key in parameters.get("properties") or {}:
        if key == "id" or key.endswith(("_id", "Id")):
            properties[key] = {"type": "string", "x-echo": key}
    told = _told(description)
    noun = noun_of(name)
    if effect == "read":
        fields = told or (_FIELDS[noun].split() if noun in _FIELDS else [noun or "result"])
        inner = {f: _of_name(f) for f in fields}
        if not told and not _LISTS.isdisjoint(words(name)):
            item = {"type": "object", "properties": inner, "required": list(inner)}
            properties["results"] = {"type": "array", "items": item, "minItems": 1, "maxItems": 3}
        else:
            properties = {**properties, **inner}
    else:
        if effect == "create" and (own := f"{noun or 'item'}_id") not in properties:
            properties[own] = _of_name(own)
        status = {"create": "created", "delete": "deleted"}.get(effect, "cancelled" if is_cancel(name) else "updated")
        properties |= {"status": {"type": "string", "enum": [status]}} | {f: _of_name(f) for f in told if f != "status"}
    return {"type": "object", "properties": properties, "required": list(properties)}


def _told(description: str) -> list[str]:
    """Fields that a sentence such as "Returns the price, currency and stock of ..." names."""
    found = re.search(rf"\breturn(?:s|ing)?\s+(.+?)(?:{_UNTIL})", description, re.IGNORECASE)
    if not found:
        return []
    fields: list[str] = []
    for part in re.split(r",|\band\b|\bor\b|/", found[1]):
        kept = [w for w in words(part) if w not in _STOP]
        if (
            0 < len(kept) <= 3
            and (name := "_".join(kept)) not in fields
            and name not in ("list", "information", "details")
        ):
            fields.append(name)
    return fields[:_MOST_FIELDS]


def _of_name(name: str) -> dict[str, Any]:
    """The schema of a field of this name."""
    parts = words(name) or [""]
    if parts[-1] == "id":
        return {"type": "string", "x-id": "".join(w[:3] for w in parts[:-1]).upper()[:3] or "ID"}
    if parts[0] in ("is", "has", "can") or parts[-1] in SUCCESS - {"scheduled", "cancelled"}:
        return {"type": "boolean"}
    if kind := FORMAT_WORDS.get(parts[-1]):
        return {"type": "string", "format": kind}
    if lookup(STRINGS, name) is None and (bounds := lookup(NUMBERS, name)) is not None:
        return {"type": "integer" if bounds[2] == "1" else "number"}
    return {"type": "string"}


def schema_of(values: Iterable[Any]) -> dict[str, Any]:
    """The narrowest plain schema that all recorded answers fit: types, properties, those that are always there.

    >>> schema_of([{"a": 1, "b": "x"}, {"a": 2.5}])
    {'type': 'object', 'properties': {'a': {'type': 'number'}, 'b': {'type': 'string'}}, 'required': ['a']}
    """
    seen = list(values)
    kinds = list(dict.fromkeys(_kind(v) for v in seen))
    if "number" in kinds and "integer" in kinds:
        kinds.remove("integer")
    out: dict[str, Any] = {"type": kinds[0] if len(kinds) == 1 else kinds} if kinds else {}
    objects = [v for v in seen if isinstance(v, dict)]
    if objects:
        names = list(dict.fromkeys(k for o in objects for k in o))
        out["properties"] = {n: schema_of([o[n] for o in objects if n in o]) for n in names}
        out["required"] = [n for n in names if all(n in o for o in objects)]
    items = [item for v in seen if isinstance(v, list) for item in v]
    if items:
        out["items"] = schema_of(items)
    return out


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    kinds = {int: "integer", float: "number", str: "string", list: "array"}
    return next((kind for cls, kind in kinds.items() if isinstance(value, cls)), "object")
