"""Values of the wrong type whose meaning is plain ("5" for 5), turned into the right one."""

from __future__ import annotations

import json
import re
from typing import Any

from slca.simulator.jsonvalue import plain_number, shown

_TRUE, _FALSE = frozenset(("true", "yes", "1", "on")), frozenset(("false", "no", "0", "off"))
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?")
#: Returned where no reading makes the value fit.
NOTHING: Any = object()


def types_of(schema: Any) -> list[str]:
    """The types that ``schema`` names or implies; [] for any."""
    if not isinstance(schema, dict):
        return []
    kind = schema.get("type", "object" if "properties" in schema else "array" if "items" in schema else [])
    return [kind] if isinstance(kind, str) else list(kind)


def coerce(value: Any, schema: Any) -> Any:
    """``value`` as the schema wants it, ``NOTHING`` where its meaning is not plain. Looks at one level only.

    >>> coerce("5", {"type": "integer"}), coerce("Red", {"enum": ["red"]}), coerce(3, {"type": "array"})
    (5, 'red', [3])
    """
    if not isinstance(schema, dict):
        return NOTHING
    options = schema.get("enum", [schema["const"]] if "const" in schema else [])
    for option in options:
        if isinstance(option, str) and str(value).strip().lower() == option.lower():
            return option
        if not isinstance(option, (str, bool)):
            read = _scalar(value, [_json_type(option)])
            if read is not NOTHING and read == option:
                return option
    return NOTHING if options else _scalar(value, types_of(schema))


def _json_type(value: Any) -> str:
    return "null" if value is None else "number" if isinstance(value, (int, float)) else "string"


def _scalar(value: Any, kinds: list[str]) -> Any:
    for kind in kinds:
        read = _READ[kind](value) if kind in _READ else NOTHING
        if read is not NOTHING:
            return read
    return NOTHING


def _integer(value: Any) -> Any:
    number = _real(value)
    return number if isinstance(number, int) and not isinstance(number, bool) else NOTHING


def _real(value: Any) -> Any:
    if isinstance(value, bool):
        return NOTHING
    if isinstance(value, (int, float)):
        return plain_number(value)
    text = value.strip().replace(",", "") if isinstance(value, str) else ""
    if len(text) > 40 or not _NUMBER.fullmatch(text):
        return NOTHING
    number = float(text) if re.search(r"[.eE]", text) else int(text)
    return NOTHING if number in (float("inf"), float("-inf")) else plain_number(number)


def _boolean(value: Any) -> Any:
    text = value.strip().lower() if isinstance(value, str) else str(value) if value in (0, 1) else ""
    return True if text in _TRUE else False if text in _FALSE else NOTHING


def _string(value: Any) -> Any:
    return NOTHING if isinstance(value, (str, dict, list)) or value is None else json.dumps(plain_number(value))


def _null(value: Any) -> Any:
    return None if isinstance(value, str) and value.strip().lower() in ("", "null", "none") else NOTHING


def _decoded(value: Any, wanted: type) -> Any:
    if isinstance(value, str) and value.strip()[:1] == ("[" if wanted is list else "{"):
        try:
            read = json.loads(value)
        except (ValueError, RecursionError):
            return NOTHING
        return read if isinstance(read, wanted) else NOTHING
    return NOTHING


def _array(value: Any) -> Any:
    read = _decoded(value, list)
    return [value] if read is NOTHING and not isinstance(value, list) and value is not None else read


_READ = {
    "integer": _integer,
    "number": _real,
    "boolean": _boolean,
    "null": _null,
    "array": _array,
    "object": lambda value: _decoded(value, dict),
    "string": _string,
}


def coerce_arguments(compiled: Any, arguments: Any) -> tuple[Any, list[str]]:
    """Arguments with the coercions that make an error go away, and a note for each; as they are where none does.

    ``compiled`` is a ``CompiledSchema``. Only values that the validator refuses are touched.
    """
    notes: list[str] = []
    if isinstance(arguments, str) and (read := _decoded(arguments, dict)) is not NOTHING:
        arguments, notes = read, ["arguments as text read as an object"]
    if not isinstance(arguments, dict):
        return arguments, notes
    out = json.loads(json.dumps(arguments)) if compiled.errors(arguments) else arguments
    for _ in range(16):
        mended = False
        for steps, schema in compiled.refused(out):
            holder, key = _holder(out, steps)
            if holder is None or (read := coerce(holder[key], schema)) is NOTHING or read is holder[key]:
                continue
            notes.append(
                f"{'.'.join(map(str, steps))}: {shown(json.dumps(holder[key]))} read as {shown(json.dumps(read))}"
            )
            holder[key], mended = read, True
        if not mended:
            break
    return out, notes


def _holder(root: Any, steps: tuple[Any, ...]) -> tuple[Any, Any]:
    """The container of the value at ``steps`` and its key there; (None, None) for the root or where nothing is."""
    if not steps:
        return None, None
    for step in steps[:-1]:
        try:
            root = root[step]
        except (KeyError, IndexError, TypeError):
            return None, None
    try:
        root[steps[-1]]
    except (KeyError, IndexError, TypeError):
        return None, None
    return root, steps[-1]
