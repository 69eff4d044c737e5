"""Response schemas made plain for the schema backend: local ``$ref`` inlined, ``allOf`` merged, recursion cut."""

from __future__ import annotations

import threading
from typing import Any

from slca.simulator.normalise import HopelessSchema, resolve

#: How often a schema may contain itself; deeper, optional properties are left out and lists are empty.
_UNROLL = 2
_CUT: dict[str, Any] = {"\0cut": True}
_MOST = 20_000  # places in the inlined schema: a few references to each other can make more than any memory holds
_BOUNDS = {"minimum": max, "exclusiveMinimum": max, "minLength": max, "minItems": max, "maximum": min,
           "exclusiveMaximum": min, "maxLength": min, "maxItems": min}  # fmt: skip


def flatten(schema: dict[str, Any]) -> dict[str, Any]:
    """``schema`` without ``$ref`` and ``allOf``; equal schemas come back equal.

    Raises:
        HopelessSchema: a reference that leads nowhere, or a schema that must contain itself without end.
    """
    _left.places = _MOST
    out = _flat(schema, schema, (), "")
    if out is _CUT:
        raise HopelessSchema("top level: the schema must contain itself without end")
    return {k: v for k, v in out.items() if k not in ("$defs", "definitions")}


_left = threading.local()


def _flat(schema: Any, root: dict[str, Any], refs: tuple[str, ...], path: str) -> Any:
    _left.places -= 1
    if _left.places < 0:
        raise HopelessSchema(f"{path[:80] or 'top level'}: with its references inlined the schema has over {_MOST} places")
    if not isinstance(schema, dict):
        return schema
    out = {k: v for k, v in schema.items() if k not in ("$ref", "allOf")}
    for ref in [schema["$ref"]] if "$ref" in schema else []:
        if refs.count(ref) >= _UNROLL:
            return _CUT
        target = resolve(ref, root)
        if not isinstance(target, dict):
            raise HopelessSchema(f"{path or 'top level'}: $ref {str(ref)[:60]!r} leads nowhere")
        inlined = _flat(
            {k: v for k, v in target.items() if k not in ("$defs", "definitions")}, root, (*refs, ref), path
        )
        if inlined is _CUT:
            return _CUT
        out = merge(inlined, out)
    for part in schema.get("allOf", ()):
        flat = _flat(part, root, refs, path)
        if flat is _CUT:
            return _CUT
        if isinstance(flat, dict):
            out = merge(out, flat)
    return _inner(out, root, refs, path)


def _inner(out: dict[str, Any], root: dict[str, Any], refs: tuple[str, ...], path: str) -> Any:
    if isinstance(out.get("properties"), dict):
        flats = {k: _flat(v, root, refs, f"{path}.{k}".lstrip(".")) for k, v in out["properties"].items()}
        if any(flats[k] is _CUT for k in out.get("required", ()) if k in flats):
            return _CUT
        out["properties"] = {k: v for k, v in flats.items() if v is not _CUT}
    if isinstance(out.get("items"), dict):
        items = _flat(out["items"], root, refs, f"{path}.items".lstrip("."))
        if items is _CUT and out.get("minItems", 0) > 0:
            return _CUT
        out = {**out, "items": items} if items is not _CUT else {**out, "items": {}, "maxItems": 0}
    if isinstance(out.get("prefixItems"), list):
        out["prefixItems"] = [_flat(s, root, refs, path) for s in out["prefixItems"]]
        if _CUT in out["prefixItems"]:
            return _CUT
    for key in ("anyOf", "oneOf"):
        if out.get(key):
            members = [m for m in (_flat(s, root, refs, path) for s in out[key]) if m is not _CUT]
            if not members:
                return _CUT
            out[key] = members
    return out


def merge(one: dict[str, Any], two: dict[str, Any]) -> dict[str, Any]:
    """Both schemas at once, as far as that can be said in one: properties and required united, bounds tightened."""
    out = dict(one)
    for key, value in two.items():
        if key not in out:
            out[key] = value
        elif key == "properties":
            out[key] = {**out[key], **{k: merge(out[key][k], v) if _both(out[key].get(k), v) else v
                                       for k, v in value.items()}}  # fmt: skip
        elif key == "required":
            out[key] = list(dict.fromkeys([*out[key], *value]))
        elif key in _BOUNDS:
            out[key] = _BOUNDS[key](out[key], value)
        elif key == "enum":
            out[key] = [v for v in out[key] if v in value]
        elif key == "items" and _both(out[key], value):
            out[key] = merge(out[key], value)
        elif key not in ("title", "description"):
            out[key] = value
    return out


def _both(one: Any, two: Any) -> bool:
    return isinstance(one, dict) and isinstance(two, dict)
