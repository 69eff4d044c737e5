"""Sloppy JSON Schemas as people ship them, made standard; every change is noted, hopeless ones are refused.

Seen in the wild and mended here: Python, Java and SQL names of types ("dict", "float", "str", "String"), type
unions in one word ("string | null", "list[str]"), missing or listed ``properties``, ``required: true`` on a
property, ``nullable``, bounds written as text, draft-04 ``exclusiveMinimum: true``, tuples as ``items``, enums that
are no lists. Standard schemas come back equal and without a note.
"""

from __future__ import annotations

import re
from typing import Any

TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")

_ALIASES = {
    "object": "dict dictionary map hash hashmap struct json mapping record model",
    "array": "list tuple set sequence vector arraylist",
    "string": "str text varchar char uuid file path url uri email password binary bytes byte symbol literal",
    "number": "float double decimal numeric real float32 float64",
    "integer": "int long short bigint int32 int64 uint uint32 uint64 timestamp",
    "boolean": "bool",
    "null": "none nil nonetype undefined void",
}
_TYPE_OF = {alias: kind for kind, names in _ALIASES.items() for alias in [kind, *names.split()]}
_FORMAT_OF = {"date": "date", "datetime": "date-time", "date-time": "date-time", "time": "time", "email": "email",
              "url": "uri", "uri": "uri"}  # fmt: skip
_ANYTHING = ("any", "object|any", "mixed", "unknown", "variant", "")
_NUMERIC = ("minimum", "maximum", "multipleOf", "exclusiveMinimum", "exclusiveMaximum")
_COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_INNER = (
    "items", "additionalProperties", "unevaluatedProperties", "unevaluatedItems", "contains", "propertyNames", "not",
    "if", "then", "else", "additionalItems",
)  # fmt: skip
_DEPTH = 64


class HopelessSchema(ValueError):
    """A schema that cannot be mended: the text begins with its path."""


def normalise(schema: Any, root: bool = True) -> tuple[dict[str, Any], list[str]]:
    """(a standard JSON Schema, notes ``path: what was changed``); with ``root``, the arguments of a tool: an object.

    >>> schema, notes = normalise({"type": "dict", "properties": {"n": {"type": "int", "required": True}}})
    >>> schema
    {'type': 'object', 'properties': {'n': {'type': 'integer'}}, 'required': ['n']}
    >>> notes
    ['n: type "int" read as "integer"', 'top level: type "dict" read as "object"', 'n: required moved to the object']

    Raises:
        HopelessSchema: something that no reading makes a schema of; a reference that leads nowhere.
    """
    notes = _Notes()
    if isinstance(schema, dict) and "draft-0" in str(schema.get("$schema")):
        notes.old_draft = True
    if schema is None:
        schema = {}
    if root and isinstance(schema, dict) and _is_bare_properties(schema):
        notes.append("top level: bare properties wrapped in an object")
        schema = {"type": "object", "properties": schema}
    out = _schema(schema, "", notes, 0)
    if not isinstance(out, dict):
        raise HopelessSchema(f"top level: a schema must be an object, not {out!r}")
    if root and out.get("type") != "object" and "$ref" not in out and not any(k in out for k in _LISTS):
        if out.get("type") not in (None, "null"):
            raise HopelessSchema(f"top level: arguments must be an object, not {out['type']!r}")
        if out:
            notes.append('top level: type "object" added')
            out = {**{k: v for k, v in out.items() if k != "type"}, "type": "object"}
    _check_refs(out, out, "")
    return out, notes


class _Notes(list[str]):
    """Notes of one schema; up to draft-07 a list of ``items`` is standard, later it is called ``prefixItems``."""

    old_draft = False


def _is_bare_properties(schema: dict[str, Any]) -> bool:
    """A map of properties where a schema should be: ``{"city": {"type": "string"}}``."""
    known = {"type", "$ref", "properties", "required", *_LISTS, *_MAPS, *_INNER, "enum", "const", "description"}
    return (
        bool(schema)
        and not any(isinstance(k, str) and k.startswith("$") for k in schema)
        and all(isinstance(v, dict) and ("type" in v or "description" in v or "enum" in v) for v in schema.values())
        and not known & schema.keys()
    )


def _at(path: str) -> str:
    return path or "top level"


def _schema(schema: Any, path: str, notes: _Notes, depth: int) -> Any:
    if depth > _DEPTH:
        raise HopelessSchema(f"{_at(path)}: nested deeper than {_DEPTH}")
    if isinstance(schema, bool):
        return schema
    if isinstance(schema, str):
        notes.append(f'{_at(path)}: "{schema[:40]}" read as a type')
        schema = {"type": schema}
    if not isinstance(schema, dict):
        raise HopelessSchema(f"{_at(path)}: a schema must be an object, not {type(schema).__name__}")
    out = dict(schema)
    if not isinstance(out.get("$schema", ""), str) or "json-schema.org" not in out.get("$schema", "json-schema.org"):
        notes.append(f"{_at(path)}: unknown $schema dropped")
        del out["$schema"]
    _properties(out, path, notes)
    _tuple_items(out, path, notes)
    for key in _MAPS:
        if isinstance(out.get(key), dict):
            prefix = f"{path}." if path else ""
            out[key] = {str(k): _schema(v, prefix + str(k), notes, depth + 1) for k, v in out[key].items()}
        elif key in out:
            raise HopelessSchema(f"{_at(path)}: {key} must be an object, not {type(out[key]).__name__}")
    for key in _LISTS:
        if key in out:
            if not isinstance(out[key], list) or not out[key]:
                raise HopelessSchema(f"{_at(path)}: {key} must be a list of schemas")
            out[key] = [_schema(s, f"{path}.{key}.{n}".lstrip("."), notes, depth + 1) for n, s in enumerate(out[key])]
    for key in _INNER:
        if isinstance(out.get(key), list) and key == "items":
            out[key] = [_schema(s, f"{path}.items.{n}".lstrip("."), notes, depth + 1) for n, s in enumerate(out[key])]
        elif key in out:
            out[key] = _schema(out[key], f"{path}.{key}".lstrip("."), notes, depth + 1)
    _drop_flags(out)
    _type(out, path, notes)
    _required(out, path, notes)
    _values(out, path, notes)
    return out


def _properties(out: dict[str, Any], path: str, notes: list[str]) -> None:
    given = out.get("properties", {})
    if given is None:
        notes.append(f"{_at(path)}: properties null read as none")
        out["properties"] = {}
    elif isinstance(given, list):
        if not all(isinstance(p, dict) and isinstance(p.get("name"), str) for p in given):
            raise HopelessSchema(f"{_at(path)}: properties is a list whose items have no name")
        notes.append(f"{_at(path)}: list of properties read as an object")
        out["properties"] = {p["name"]: {k: v for k, v in p.items() if k != "name"} for p in given}


def _tuple_items(out: dict[str, Any], path: str, notes: _Notes) -> None:
    if isinstance(out.get("items"), list) and not notes.old_draft:
        notes.append(f"{_at(path)}: list of items read as prefixItems")
        out["prefixItems"] = out.pop("items")
        if "additionalItems" in out:
            out["items"] = out.pop("additionalItems")
        if not out["prefixItems"]:
            del out["prefixItems"]


def _type(out: dict[str, Any], path: str, notes: list[str]) -> None:
    nullable = out.pop("nullable", None)
    if "type" in out:
        given = out["type"]
        kinds, implied = _read_type(given, path)
        for key, value in implied.items():
            out.setdefault(key, value)
        if nullable is True and kinds and "null" not in kinds:
            kinds.append("null")
        read = kinds[0] if len(kinds) == 1 and not isinstance(given, list) else kinds
        if kinds:
            out["type"] = read
        else:
            del out["type"]
        if read != given:
            notes.append(f"{_at(path)}: type {_quoted(given)} read as {_quoted(read or 'any')}")
    elif nullable is not None:
        notes.append(f"{_at(path)}: nullable without a type dropped")
    if nullable and isinstance(out.get("enum"), list) and None not in out["enum"]:
        out["enum"] = [*out["enum"], None]


def _read_type(given: Any, path: str) -> tuple[list[str], dict[str, Any]]:
    """(standard types, [] for any; keywords that the word implies)."""
    if isinstance(given, dict):
        raise HopelessSchema(f"{_at(path)}: type must be a name, not an object; use anyOf for alternatives")
    names = (
        given if isinstance(given, list) else re.split(r"\s*\|\s*|\s+or\s+", given) if isinstance(given, str) else None
    )
    if names is None or not all(isinstance(n, str) for n in names):
        raise HopelessSchema(f"{_at(path)}: type must be a name or a list of names, not {_quoted(given)}")
    kinds: list[str] = []
    extra: dict[str, Any] = {}
    for name in names:
        found, implied = _one_type(name.strip(), path)
        if found is None:
            return [], {}
        kinds += [k for k in found if k not in kinds]
        extra |= implied if len(names) == 1 else {}
    return kinds, extra


def _one_type(name: str, path: str) -> tuple[list[str] | None, dict[str, Any]]:
    """Types of one word, None for "anything goes"."""
    word = name.lower()
    if word in _TYPE_OF:
        return [_TYPE_OF[word]], {"format": _FORMAT_OF[word]} if word in _FORMAT_OF else {}
    if word in _FORMAT_OF:
        return ["string"], {"format": _FORMAT_OF[word]}
    if word in _ANYTHING:
        return None, {}
    if word == "enum":
        return None, {}
    if match := re.fullmatch(r"(list|array|set|sequence|tuple)\s*[\[<(](.+)[\]>)]", word):
        inner, implied = _one_type(match[2].split(",")[0].strip(), path)
        item = {} if not inner else {"type": inner[0] if len(inner) == 1 else inner, **implied}
        return ["array"], {"items": item}
    if match := re.fullmatch(r"(.+)\[\]", word):
        return _one_type(f"list[{match[1]}]", path)
    if match := re.fullmatch(r"optional\s*[\[<(](.+)[\]>)]", word):
        inner, implied = _one_type(match[1], path)
        return (None, {}) if inner is None else ([*inner, "null"], implied)
    if re.fullmatch(r"(dict|map|mapping|record)\s*[\[<(].+[\]>)]", word):
        return ["object"], {}
    raise HopelessSchema(f'{_at(path)}: type "{name[:40]}" is unknown; use one of {", ".join(TYPES)}')


def _required(out: dict[str, Any], path: str, notes: list[str]) -> None:
    """``required`` as a list of declared names; flags on properties are moved here."""
    properties = out.get("properties")
    given = out.pop("required", None)
    names: list[str] = []
    if isinstance(given, str):
        notes.append(f"{_at(path)}: required as text read as a list")
        names = [given]
    elif isinstance(given, list):
        names = [n for n in given if isinstance(n, str)]
        if names != given:
            notes.append(f"{_at(path)}: required holds what is no name; dropped")
    elif given is not None and not isinstance(given, bool):
        notes.append(f"{_at(path)}: required is no list; dropped")
    for name, sub in (properties or {}).items():
        flag = sub.pop(_FLAG, None) if isinstance(sub, dict) else None
        if flag is not None:
            notes.append(f"{f'{path}.{name}'.lstrip('.')}: required moved to the object")
            if flag and name not in names:
                names.append(name)
    unique = list(dict.fromkeys(names))
    if unique != names:
        notes.append(f"{_at(path)}: required names a property twice")
    undeclared = [n for n in unique if properties is not None and n not in properties]
    if undeclared and not any(k in out for k in (*_LISTS, "$ref", "patternProperties", "additionalProperties")):
        notes.append(f"{_at(path)}: required names {', '.join(undeclared)[:60]}, not declared; declared as anything")
        out["properties"] = {**(properties or {}), **{n: {} for n in undeclared}}
    if unique:
        out["required"] = unique
    elif isinstance(given, list) and not given:
        out["required"] = []
    if isinstance(given, bool) and path:
        out[_FLAG] = given  # for the object that holds this property


#: Marks a property whose own schema said ``required: true``, until the object around it has read that.
_FLAG = "\0required"


def _drop_flags(out: dict[str, Any]) -> None:
    """Off with the marks of sub-schemas that are no properties: there they mean nothing."""
    subs = [out[k] for k in _INNER if k in out] + [s for k in _LISTS for s in out.get(k, ())]
    subs += [s for k in _MAPS if k != "properties" for s in out.get(k, {}).values()]
    for sub in subs:
        if isinstance(sub, dict):
            sub.pop(_FLAG, None)


def _values(out: dict[str, Any], path: str, notes: list[str]) -> None:
    """Keywords whose value has the wrong type."""
    if "enum" in out and not isinstance(out["enum"], list):
        given = out["enum"]
        values = list(given) if isinstance(given, (dict, tuple)) else re.split(r"\s*[|,]\s*", str(given))
        notes.append(f"{_at(path)}: enum read as the list {', '.join(map(str, values))[:60]}")
        out["enum"] = values
    if out.get("enum") == []:
        notes.append(f"{_at(path)}: empty enum dropped")
        del out["enum"]
    for low, strict in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(out.get(strict), bool):
            notes.append(f"{_at(path)}: {strict} as a flag (draft-04) read as a number")
            if out.pop(strict) and _number(out.get(low)) is not None:
                out[strict] = out.pop(low)
    for key in (*_NUMERIC, *_COUNTS):
        if key in out:
            _bound(out, key, path, notes)
    for key, kind in (("description", str), ("title", str), ("pattern", str), ("format", str), ("uniqueItems", bool),
                      ("examples", list), ("$comment", str), ("deprecated", bool), ("readOnly", bool),
                      ("writeOnly", bool)):  # fmt: skip
        if key in out and not isinstance(out[key], kind):
            notes.append(f"{_at(path)}: {key} is no {kind.__name__}; dropped")
            del out[key]


def _bound(out: dict[str, Any], key: str, path: str, notes: list[str]) -> None:
    number = _number(out[key])
    if key in _COUNTS and number is not None:
        number = int(number) if number >= 0 and number == int(number) else None
    if key == "multipleOf" and number is not None and number <= 0:
        number = None
    if number is None:
        notes.append(f"{_at(path)}: {key} {_quoted(out[key])} is no usable number; dropped")
        del out[key]
    elif isinstance(out[key], str):
        notes.append(f"{_at(path)}: {key} as text read as a number")
        out[key] = number


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, (int, float)):
        return value if value == value and abs(value) != float("inf") else None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    if number != number or abs(number) == float("inf"):
        return None
    return int(number) if number.is_integer() else number


def _check_refs(schema: Any, root: dict[str, Any], path: str) -> None:
    """Every ``$ref`` must lead to a place in the same document."""
    if isinstance(schema, list):
        for n, item in enumerate(schema):
            _check_refs(item, root, f"{path}.{n}".lstrip("."))
        return
    if not isinstance(schema, dict):
        return
    ref = schema.get("$ref")
    if isinstance(ref, str) and resolve(ref, root) is None:
        raise HopelessSchema(f"{_at(path)}: $ref {ref[:60]!r} leads nowhere; only references inside the schema work")
    for key, value in schema.items():
        if key not in ("enum", "const", "default", "examples", "$ref", "required", "type", "description"):
            _check_refs(value, root, path if key in _MAPS else f"{path}.{key}".lstrip("."))


def resolve(ref: str, root: dict[str, Any]) -> Any:
    """The place a reference leads to, None if nowhere. Anchors and ids are left to the validator."""
    if ref == "#":
        return root
    if not ref.startswith("#/"):
        return root if ref.startswith("#") else None
    target: Any = root
    for part in ref[2:].split("/"):
        part = part.replace("~1", "/").replace("~0", "~")
        if isinstance(target, dict) and part in target:
            target = target[part]
        elif isinstance(target, list) and part.isdigit() and int(part) < len(target):
            target = target[int(part)]
        else:
            return None
    return target if isinstance(target, (dict, bool)) else None


def _quoted(value: Any) -> str:
    return f'"{value[:40]}"' if isinstance(value, str) else repr(value)[:60]
