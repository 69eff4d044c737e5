"""Arguments of a call against the tool's JSON Schema, as short coded errors that a policy can read.

What the jsonschema package leaves open is decided here ("ours"):

* an object schema that declares properties and says nothing about further ones is **closed**, at every depth;
* ``format`` is checked for date (YYYY-MM-DD), time (HH:MM[:SS], zone optional), date-time (the two joined by ``T``
  or a space), email and uri; other formats are annotations;
* ``multipleOf`` is decided on the decimal digits (19.99 is a multiple of 0.01), not on binary fractions;
* a ``pattern`` that Python cannot compile is not checked, and no ``$ref`` is ever fetched from the network;
* NaN, infinities, integers beyond 1024 bits, lone surrogates and nesting beyond 64 are refused.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from difflib import get_close_matches
from fractions import Fraction
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from jsonschema import Draft202012Validator, FormatChecker, ValidationError, validators
from jsonschema.exceptions import SchemaError
from referencing import Registry
from referencing.exceptions import Unresolvable

MAX_DEPTH = 64
MAX_INT_BITS = 1024

#: Codes in the order in which errors of one call are reported.
CODES = (
    "unknown_tool",
    "missing_argument",
    "unexpected_argument",
    "wrong_type",
    "not_in_enum",
    "bad_format",
    "out_of_range",
    "invalid",
)

FORMAT_HINTS = {
    "date": "a date YYYY-MM-DD",
    "time": "a time HH:MM",
    "date-time": "a date-time YYYY-MM-DDTHH:MM",
    "email": "an email address",
    "uri": "a URI such as https://example.com",
}


@dataclass(frozen=True)
class ArgumentError:
    """Why a call cannot run: a code of ``CODES``, a dotted path into the arguments ("" = the whole), a text."""

    code: str
    path: str
    message: str


class _Raw(str):
    """Text that ``canonical`` has already encoded."""


def canonical(arguments: Any) -> str:
    """One text per JSON value: keys sorted, no blanks, ASCII only, 3.0 written as 3.

    Two calls are the same call exactly when their canonical texts are equal. Never raises on JSON values, however
    deep or large (integers beyond 1024 bits are written in hexadecimal).

    >>> canonical({"b": 3.0, "a": [True, None]})
    '{"a":[true,null],"b":3}'
    """
    out: list[str] = []
    stack: list[Any] = [arguments]
    while stack:
        item = stack.pop()
        if isinstance(item, _Raw):
            out.append(item)
        elif isinstance(item, dict):
            out.append("{")
            stack.append(_Raw("}"))
            keys = sorted(item, reverse=True)
            for n, key in enumerate(keys, 1):
                stack.append(item[key])
                stack.append(_Raw(("," if n < len(keys) else "") + json.dumps(key) + ":"))
        elif isinstance(item, (list, tuple)):
            out.append("[")
            stack.append(_Raw("]"))
            for n in range(len(item) - 1, -1, -1):
                stack.append(item[n])
                if n:
                    stack.append(_Raw(","))
        else:
            number = plain_number(item)
            if isinstance(number, int) and number.bit_length() > MAX_INT_BITS:
                out.append(hex(number))
            else:
                out.append(json.dumps(number))
    return "".join(out)


def plain_number(value: Any) -> Any:
    """An integral float as an int, everything else as it is."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


# --- formats ------------------------------------------------------------------------------------------------------

_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_TIME = re.compile(r"(?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{1,9})?)?(?:[Zz]|[+-][01][0-9]:[0-5][0-9])?")
_EMAIL = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,8}")


def _is_date(text: str) -> bool:
    match = _DATE.fullmatch(text)
    try:
        return match is not None and bool(date(*map(int, match.groups())))
    except ValueError:
        return False


def _is_uri(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme and (parts.netloc or parts.path)) and not re.search(r"\s", text)


def _is_email(text: str) -> bool:
    local = text.partition("@")[0]
    return bool(_EMAIL.fullmatch(text)) and ".." not in text and not local.startswith(".") and not local.endswith(".")


_FORMATS = {
    "date": _is_date,
    "time": lambda text: bool(_TIME.fullmatch(text)),
    "date-time": lambda text: len(text) > 11 and text[10] in "Tt " and _is_date(text[:10]) and bool(_TIME.fullmatch(text[11:])),
    "email": _is_email,
    "uri": _is_uri,
}


def is_format(name: str, text: str) -> bool:
    """Does ``text`` have the format ``name``? Formats that are not checked always do."""
    return name not in _FORMATS or _FORMATS[name](text)


def _format_checker() -> FormatChecker:
    checker = FormatChecker(formats=())
    for name, check in _FORMATS.items():
        checker.checks(name)(lambda value, check=check: not isinstance(value, str) or check(value))
    return checker


# --- compiled schemas ---------------------------------------------------------------------------------------------


def _multiple_of(validator: Any, factor: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not validator.is_type(instance, "number"):
        return
    value, step = (Fraction(x) if isinstance(x, int) else Fraction(repr(x)) for x in (instance, factor))
    if value % step:
        yield ValidationError(f"{instance!r} is not a multiple of {factor!r}")


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[ValidationError]:
    try:
        if validator.is_type(instance, "string") and not re.search(pattern, instance):
            yield ValidationError(f"does not match {pattern!r}")
    except re.error:
        return


_IN_PLACE = ("allOf", "anyOf", "oneOf")


def _branches(schema: dict[str, Any], root: Any) -> Iterator[dict[str, Any]]:
    """The schemas that apply to the same value as ``schema``: its allOf/anyOf/oneOf members and a local $ref."""
    for key in _IN_PLACE:
        yield from (s for s in schema.get(key, ()) if isinstance(s, dict))
    yield from (schema[k] for k in ("if", "then", "else") if isinstance(schema.get(k), dict))
    target: Any = root
    if isinstance(ref := schema.get("$ref"), str) and ref.startswith("#/"):
        for part in ref[2:].split("/"):
            target = target.get(part) if isinstance(target, dict) else None
        if isinstance(target, dict):
            yield target


def _declared(schema: dict[str, Any], root: Any, seen: tuple[int, ...] = ()) -> dict[str, Any]:
    """Names of the properties that ``schema`` or one of its branches declares."""
    names: dict[str, Any] = dict(schema.get("properties") or {})
    for branch in _branches(schema, root):
        if id(branch) not in seen:
            names |= _declared(branch, root, (*seen, id(branch)))
    return names


def _closed(schema: Any, root: Any, here: bool = True) -> Any:
    """``schema`` with its open objects closed; ``here`` is False inside a branch, which its owner closes."""
    if not isinstance(schema, dict):
        return schema
    out = dict(schema)
    for key in ("properties", "$defs", "definitions", "patternProperties"):
        if isinstance(schema.get(key), dict):
            out[key] = {k: _closed(v, root, here="efs" not in key and "def" not in key) for k, v in schema[key].items()}
    for key in ("items", "additionalProperties", "contains"):
        if isinstance(schema.get(key), dict):
            out[key] = _closed(schema[key], root)
    for key in _IN_PLACE:
        if isinstance(schema.get(key), list):
            out[key] = [_closed(s, root, here=False) for s in schema[key]]
    opened = {"additionalProperties", "unevaluatedProperties", "patternProperties"} & schema.keys()
    if here and not opened and _declared(schema, root):
        has_branches = any(True for _ in _branches(schema, root))
        out["unevaluatedProperties" if has_branches else "additionalProperties"] = False
    return out


class CompiledSchema:
    """The parameters of one tool, ready to check arguments. Built by ``compile_tool``."""

    def __init__(self, name: str, parameters: dict[str, Any]) -> None:
        self.name = name
        self.root = _closed(parameters, parameters)
        if not {"additionalProperties", "unevaluatedProperties"} & self.root.keys():
            self.root["additionalProperties"] = False
        self.root.setdefault("type", "object")
        base = validators.validator_for(self.root, default=Draft202012Validator)
        try:
            base.check_schema(self.root)
        except SchemaError as err:
            where = ".".join(map(str, err.absolute_path)) or "top level"
            raise ValueError(f"tool {name!r}: parameters are no valid JSON Schema at {where}: {err.message}") from err
        cls = validators.extend(base, {"multipleOf": _multiple_of, "pattern": _pattern})
        self._validator = cls(self.root, format_checker=_format_checker(), registry=Registry())

    def errors(self, arguments: Any) -> list[ArgumentError]:
        """All errors, each once, ordered by code (as in ``CODES``), then path, then text; [] when valid."""
        if not isinstance(arguments, dict):
            return [ArgumentError("wrong_type", "", "arguments must be an object")]
        if refused := _refused(arguments):
            return [refused]
        try:
            found = set(_coded(self._validator.iter_errors(arguments), self.root))
        except Unresolvable as err:
            raise ValueError(f"tool {self.name!r}: cannot resolve a $ref of its parameters: {err}; inline it") from err
        return sorted(found, key=lambda e: (CODES.index(e.code), e.path, e.message))


def parameters_of(tool: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Name and parameter schema of an OpenAI tool or of its inner function; ValueError when it is neither."""
    function = tool.get("function", tool)
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(name, str) or not name:
        raise ValueError('a tool needs {"type": "function", "function": {"name": ..., "parameters": ...}}')
    parameters = function.get("parameters") or {}
    if not isinstance(parameters, dict):
        raise ValueError(f"tool {name!r}: parameters must be a JSON Schema object, not {type(parameters).__name__}")
    return name, parameters


@lru_cache(maxsize=4096)
def _compile(name: str, parameters: str) -> CompiledSchema:
    return CompiledSchema(name, json.loads(parameters))


def compile_tool(tool: dict[str, Any]) -> CompiledSchema:
    """The compiled parameters of ``tool``, from a cache keyed by their text."""
    name, parameters = parameters_of(tool)
    return _compile(name, json.dumps(parameters))


def validate_arguments(tool_schema: dict[str, Any], arguments: Any) -> list[ArgumentError]:
    """Check ``arguments`` against an OpenAI tool (or its inner function). See ``CompiledSchema.errors``."""
    return compile_tool(tool_schema).errors(arguments)


def unknown_tool(name: Any, names: Iterable[str]) -> ArgumentError:
    """The error for a tool that does not exist, with the nearest existing names."""
    near = get_close_matches(shown(name), list(names), n=2, cutoff=0.5)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    return ArgumentError("unknown_tool", "", f"no tool {shown(name)}{hint}")


def shown(text: Any, limit: int = 32) -> str:
    """``text`` fit for an error message: valid Unicode, one line, at most ``limit`` characters."""
    clean = " ".join(str(text)[: 4 * limit].encode("utf-8", "replace").decode("utf-8").split())
    return clean if len(clean) <= limit else clean[: limit - 3] + "..."


# --- from jsonschema's errors to ours -----------------------------------------------------------------------------


def _path(parts: Iterable[Any]) -> str:
    return ".".join(shown(p) for p in parts)


def _is_text(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _refused(arguments: dict[str, Any]) -> ArgumentError | None:
    """What no schema can allow because it could not be answered as JSON text. Iterative: depth is untrusted."""
    stack: list[tuple[Any, tuple[Any, ...]]] = [(arguments, ())]
    while stack:
        value, path = stack.pop()
        problem = None
        if isinstance(value, (dict, list)):
            if len(path) >= MAX_DEPTH:
                return ArgumentError("invalid", _path(path[:1]), f"{_path(path[:1])} is nested too deeply")
            if isinstance(value, dict):
                if not all(isinstance(k, str) and _is_text(k) for k in value):
                    problem = "has a name that is not valid text"
                stack.extend((v, (*path, k)) for k, v in reversed(value.items()))
            else:
                stack.extend((v, (*path, n)) for n, v in reversed(list(enumerate(value))))
        elif isinstance(value, float) and not math.isfinite(value):
            problem = "must be a finite number"
        elif isinstance(value, int) and value.bit_length() > MAX_INT_BITS:
            problem = "is too large a number"
        elif isinstance(value, str) and not _is_text(value):
            problem = "is not valid Unicode text"
        if problem:
            return ArgumentError("invalid", _path(path), f"{_path(path) or 'arguments'} {problem}")
    return None


_RANGES = {
    "minimum": "must be >= {}",
    "maximum": "must be <= {}",
    "exclusiveMinimum": "must be > {}",
    "exclusiveMaximum": "must be < {}",
    "multipleOf": "must be a multiple of {}",
    "minLength": "needs at least {} characters",
    "maxLength": "allows at most {} characters",
    "minItems": "needs at least {} items",
    "maxItems": "allows at most {} items",
    "minProperties": "needs at least {} fields",
    "maxProperties": "allows at most {} fields",
}


def _coded(errors: Iterable[ValidationError], root: dict[str, Any]) -> Iterator[ArgumentError]:
    for err in errors:
        path, rule, wanted = _path(err.absolute_path), err.validator, err.validator_value
        subject = path or "arguments"
        if rule == "required":
            names = [(*err.absolute_path, n) for n in wanted if n not in err.instance]
            yield from (ArgumentError("missing_argument", _path(p), f"{_path(p)} is required") for p in names)
        elif rule in ("additionalProperties", "unevaluatedProperties"):
            yield from _unexpected(err, root)
        elif rule == "type":
            types = [wanted] if isinstance(wanted, str) else wanted
            yield ArgumentError("wrong_type", path, f"{subject} must be {' or '.join(types)}")
        elif rule in ("enum", "const"):
            allowed = ", ".join(v if isinstance(v, str) else json.dumps(v) for v in (wanted if rule == "enum" else [wanted]))
            yield ArgumentError("not_in_enum", path, f"{subject} must be one of {shown(allowed, 64)}")
        elif rule == "format":
            yield ArgumentError("bad_format", path, f"{subject} must be {FORMAT_HINTS.get(wanted, wanted)}")
        elif rule in _RANGES:
            yield ArgumentError("out_of_range", path, f"{subject} {_RANGES[rule].format(wanted)}")
        elif rule in ("anyOf", "oneOf"):
            yield from _alternatives(err, root)
        else:
            yield ArgumentError("invalid", path, f"{subject} breaks the rule {rule or 'not allowed'}")


def _unexpected(err: ValidationError, root: dict[str, Any]) -> Iterator[ArgumentError]:
    names = list(_declared(err.schema, root))
    patterns = list(err.schema.get("patternProperties", ()))
    extra = [k for k in err.instance if k not in names and not any(re.search(p, k) for p in patterns)]
    for key in extra:
        path = _path((*err.absolute_path, key))
        near = get_close_matches(key[:64], names, n=1, cutoff=0.6)
        hint = f"; did you mean {near[0]}?" if near else ""
        yield ArgumentError("unexpected_argument", path, f"{path} is not an argument{hint}")
    if not extra:  # declared in a branch that does not apply to this value
        path = _path(err.absolute_path)
        yield ArgumentError("unexpected_argument", path, f"{path or 'arguments'} has fields that do not go together")


def _alternatives(err: ValidationError, root: dict[str, Any]) -> Iterator[ArgumentError]:
    """anyOf/oneOf: the errors of the one branch whose type fits; a type error when none does; else ``invalid``."""
    path = _path(err.absolute_path)
    by_branch: dict[Any, list[ValidationError]] = {}
    for sub in err.context or ():
        by_branch.setdefault(sub.schema_path[0], []).append(sub)
    mistyped = [[e for e in subs if e.validator == "type" and not e.path] for subs in by_branch.values()]
    fitting = [subs for subs, wrong in zip(by_branch.values(), mistyped, strict=True) if not wrong]
    if len(fitting) == 1:
        yield from _coded(fitting[0], root)
    elif not fitting and by_branch:
        types = [t for (e, *_) in mistyped for t in ([e.validator_value] if isinstance(e.validator_value, str) else e.validator_value)]
        yield ArgumentError("wrong_type", path, f"{path} must be {' or '.join(dict.fromkeys(types))}")
    else:
        yield ArgumentError("invalid", path, f"{path} fits none or several of its allowed forms")
