"""Ids in arguments and responses, and whether the agent can have read them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any


def is_id(name: str, schema: Any) -> bool:
    """Is a string of this name and schema an id? By ``x-id`` in the schema, or a name that is or ends in id."""
    return (isinstance(schema, dict) and "x-id" in schema) or name.endswith("_id")


def id_values(value: Any, schema: Any, name: str = "", path: str = "") -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(path, text, schema) of each string in ``value`` that is an id.

    It is one when its schema has ``x-id``, or its name ends in ``_id``, or it is an item of a list named ``..._ids``.

    >>> [(path, text) for path, text, _ in id_values({"order_id": "ORD-1", "note": "x"}, {})]
    [('order_id', 'ORD-1')]
    """
    schema = schema if isinstance(schema, dict) else {}
    if isinstance(value, str):
        if is_id(name, schema):
            yield path, value, schema
    elif isinstance(value, dict):
        properties = schema.get("properties") or {}
        for key, item in value.items():
            yield from id_values(item, properties.get(key), key, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        item_name = name.removesuffix("s") if name.endswith("_ids") else ""
        for n, item in enumerate(value):
            yield from id_values(item, schema.get("items"), item_name, f"{path}.{n}")


def is_offered(identifier: str, schema: dict[str, Any]) -> bool:
    """Does the tool itself name the id, as a choice or a default?"""
    return identifier in [*schema.get("enum", ()), schema.get("const"), schema.get("default")]


def is_mentioned(identifier: str, text: str) -> bool:
    """Does ``identifier`` stand in ``text`` as a whole, not as a piece of a longer word or id?

    >>> is_mentioned("ORD-48", "where is ORD-48?"), is_mentioned("ORD-48", "where is ORD-4821?")
    (True, False)
    """
    whole = rf"(?<![A-Za-z0-9_-]){re.escape(identifier)}(?![A-Za-z0-9_-])"
    return bool(identifier) and re.search(whole, text) is not None
