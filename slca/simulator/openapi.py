"""An OpenAPI 3 document read as tools: one per operation, with its response schema and its effect (ours)."""

from __future__ import annotations

import re
from typing import Any

from slca.simulator.effects import verb_effect
from slca.simulator.normalise import resolve

_METHODS = {"get": "read", "head": "read", "post": "create", "put": "update", "patch": "update", "delete": "delete"}
_COMPONENTS = "#/components/schemas/"
_DEPTH = 64


def openapi_tools(document: dict[str, Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """(OpenAI tools, response schema by tool name).

    Arguments are the parameters of path and query and the fields of a JSON body (a body that is no object is the
    argument ``body``); headers and cookies, where keys travel, are left out. ``x-effect`` follows a telling verb in the
    operation's name, else the HTTP method.

    Raises:
        ValueError: Swagger 2, no operations, a reference that leads out of the document; names the place.
    """
    if not str(document.get("openapi", "")).startswith("3"):
        raise ValueError("only OpenAPI 3 is read; convert Swagger 2 first (for example with swagger2openapi)")
    tools, returns = [], {}
    paths = document.get("paths")
    for path, item in (paths if isinstance(paths, dict) else {}).items():
        item = _resolved(item, document, f"paths.{path}")
        for method in _METHODS:
            if isinstance(operation := item.get(method), dict):
                place = f"paths.{path}.{method}"
                name = _name(operation, method, path)
                schema = _arguments(operation, item, document, place)
                text = operation.get("summary") or operation.get("description") or ""
                effect = verb_effect(name) or _METHODS[method]
                tools.append({"type": "function", "function": {
                    "name": name, "description": str(text), "x-effect": effect, "parameters": schema,
                }})  # fmt: skip
                if (answer := _answer(operation, document, place)) is not None:
                    returns[name] = answer
    if not tools:
        raise ValueError("paths: the document has no operations")
    return tools, returns


def _name(operation: dict[str, Any], method: str, path: str) -> str:
    given = operation.get("operationId")
    text = given if isinstance(given, str) and given else f"{method}{path}"
    return re.sub(r"[^A-Za-z0-9_-]+", "_", text).strip("_")[:64]


def _arguments(operation: dict[str, Any], item: dict[str, Any], document: Any, place: str) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    required: list[str] = []
    lists = [p if isinstance(p := own.get("parameters"), list) else [] for own in (item, operation)]
    for n, given in enumerate([*lists[0], *lists[1]]):
        parameter = _resolved(given, document, f"{place}.parameters[{n}]")
        name = parameter.get("name")
        if parameter.get("in") not in ("path", "query") or not isinstance(name, str):
            continue
        schema = parameter.get("schema")
        properties[name] = dict(schema) if isinstance(schema, dict) else {}
        if isinstance(text := parameter.get("description"), str):
            properties[name].setdefault("description", text)
        if parameter.get("required") or parameter.get("in") == "path":
            required.append(name)
    body = _resolved(operation.get("requestBody") or {}, document, f"{place}.requestBody")
    schema = _json_schema(body)
    if schema is not None:
        whole = _resolved(schema, document, f"{place}.requestBody")
        fields = whole.get("properties")
        if isinstance(fields, dict) and not fields.keys() & properties.keys():
            properties |= fields
            named = whole.get("required")
            if body.get("required") and isinstance(named, list):
                required += [k for k in named if isinstance(k, str)]
        else:
            properties["body"] = schema
            required += ["body"] if body.get("required") else []
    out: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        out["required"] = list(dict.fromkeys(required))
    return _self_contained(out, document, place)


def _answer(operation: dict[str, Any], document: Any, place: str) -> dict[str, Any] | None:
    """Schema of the first success."""
    responses = operation.get("responses")
    responses = {str(k): v for k, v in responses.items()} if isinstance(responses, dict) else {}
    codes = [*sorted(k for k in responses if k.startswith("2")), "default"]
    for code in codes:
        if code in responses:
            schema = _json_schema(_resolved(responses[code], document, f"{place}.responses.{code}"))
            if schema is not None:
                return _self_contained(schema, document, f"{place}.responses.{code}")
    return None


def _json_schema(body: dict[str, Any]) -> dict[str, Any] | None:
    content = body.get("content")
    for kind, media in (content if isinstance(content, dict) else {}).items():
        json_like = str(kind).partition(";")[0].strip().endswith(("json", "*/*", "form-urlencoded"))
        if json_like and isinstance(media, dict) and isinstance(media.get("schema"), dict):
            return dict(media["schema"])
    return None


def _resolved(value: Any, document: Any, place: str) -> dict[str, Any]:
    """``value``, or what its local ``$ref`` names."""
    for _ in range(_DEPTH):
        if not isinstance(value, dict):
            raise ValueError(f"{place}: must be an object")
        ref = value.get("$ref")
        if not isinstance(ref, str):
            return value
        value = _target(ref, document, place)
    raise ValueError(f"{place}: $ref leads round in a circle")


def _target(ref: str, document: Any, place: str) -> Any:
    found = resolve(ref, document) if ref.startswith("#") else None
    if found is None:
        raise ValueError(f"{place}: $ref {ref[:80]!r} leads nowhere in this document; bundle it into one file")
    return found


def _self_contained(schema: dict[str, Any], document: Any, place: str) -> dict[str, Any]:
    """``schema`` with what it refers to under its own ``$defs``."""
    defs: dict[str, Any] = {}

    def moved(value: Any, depth: int = 0) -> Any:
        if depth > _DEPTH:
            raise ValueError(f"{place}: nested too deep")
        if isinstance(value, list):
            return [moved(v, depth + 1) for v in value]
        if not isinstance(value, dict):
            return value
        out = {k: moved(v, depth + 1) for k, v in value.items() if k != "$ref"}
        if isinstance(ref := value.get("$ref"), str):
            name = re.sub(r"[^\w.-]", "_", ref.removeprefix(_COMPONENTS).removeprefix("#/").replace("~1", "/"))
            if name not in defs:
                defs[name] = {}  # the name is taken before what it holds is read: schemas may hold themselves
                defs[name] = moved(_target(ref, document, place), depth + 1)
            out["$ref"] = f"#/$defs/{name}"
        return out

    out: dict[str, Any] = moved(schema)
    return {**out, "$defs": defs} if defs else out
