"""Arguments of a call against the tool's JSON Schema, as short coded errors that a policy can read.

What JSON Schema leaves open is decided here (ours):

* an object schema that declares properties and says nothing about further ones is **closed**, at every depth; the
  arguments as a whole are closed even when no property is declared;
* ``format`` is checked as ``slca.simulator.formats`` says;
* ``multipleOf`` is decided on the decimal digits (19.99 is a multiple of 0.01), not on binary fractions;
* a ``pattern`` that Python cannot compile is not checked, and no ``$ref`` is ever fetched from the network;
* values without a sound JSON text (NaN, lone surrogates, ...: ``jsonvalue.refusal``) are refused before all else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fractions import Fraction
from functools import lru_cache
from typing import Any

import regex
from jsonschema import Draft202012Validator, FormatChecker, ValidationError, validators
from jsonschema.exceptions import SchemaError
from referencing import Registry
from referencing.exceptions import Unresolvable

from slca.simulator.formats import HINTS, format_checker
from slca.simulator.jsonvalue import canonical, dotted, refusal, shown
from slca.simulator.normalise import HopelessSchema, normalise

__all__ = [
    "CODES",
    "ArgumentError",
    "CompiledSchema",
    "canonical",
    "compile_tool",
    "parameters_of",
    "plain_validator",
    "unknown_tool",
    "validate_arguments",
]

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


#: Some patterns take time that doubles with every character; what a model writes must not stop a run.
_PATTERN_SECONDS = 0.2


@dataclass(frozen=True)
class ArgumentError:
    """Why a call cannot run: a code of ``CODES``, a dotted path into the arguments ("" = the whole), a text."""

    code: str
    path: str
    message: str


def validate_arguments(tool_schema: dict[str, Any], arguments: Any) -> list[ArgumentError]:
    """All errors of ``arguments`` under an OpenAI tool (or its inner function); [] when they are valid.

    Each error stands once, ordered by code (as in ``CODES``), then path, then text.

    Raises:
        ValueError: the tool itself is broken (no name, no valid JSON Schema, a ``$ref`` that leads nowhere).
    """
    return compile_tool(tool_schema).errors(arguments)


def unknown_tool(name: Any, names: Iterable[str]) -> ArgumentError:
    """The error for a tool that does not exist, with the nearest existing names."""
    near = get_close_matches(shown(name), list(names), n=2, cutoff=0.6)
    return ArgumentError("unknown_tool", "", f"no tool {shown(name)}{_guess(near)}")


def _guess(near: list[str]) -> str:
    return f" ({' or '.join(near)}?)" if near else ""


# --- compiled schemas ---------------------------------------------------------------------------------------------


class CompiledSchema:
    """The parameters of one tool, ready to check arguments. Get it from ``compile_tool``, which caches.

    ``parameters`` is the schema as read (see ``normalise``), ``notes`` says what had to be read into it.
    """

    def __init__(self, name: str, parameters: dict[str, Any], notes: Sequence[str] = ()) -> None:
        self.name, self.parameters, self.notes = name, parameters, tuple(notes)
        self.root = _closed(parameters, parameters)
        if not {"additionalProperties", "unevaluatedProperties", "patternProperties"} & self.root.keys():
            self.root["additionalProperties"] = False
        base: Any = validators.validator_for(self.root, default=Draft202012Validator)
        try:
            base.check_schema(self.root, format_checker=FormatChecker(formats=()))
        except SchemaError as err:
            where = ".".join(map(str, err.absolute_path)) or "top level"
            raise ValueError(f"tool {name!r}: parameters are no valid JSON Schema at {where}: {err.message}") from err
        self._validator = plain_validator(self.root)

    def errors(self, arguments: Any) -> list[ArgumentError]:
        """See ``validate_arguments``."""
        if not isinstance(arguments, dict):
            return [ArgumentError("wrong_type", "", "arguments must be an object")]
        if refused := refusal(arguments):
            return [ArgumentError("invalid", *refused)]
        try:
            found = set(_coded(self._validator.iter_errors(arguments), self.root))
        except Unresolvable as err:
            raise ValueError(f"tool {self.name!r}: cannot resolve a $ref of its parameters; inline it ({err})") from err
        except re.error as err:
            raise ValueError(f"tool {self.name!r}: Python cannot compile a name in patternProperties: {err}") from err
        return sorted(found, key=lambda e: (CODES.index(e.code), e.path, e.message))

    def refused(self, arguments: Any) -> Iterator[tuple[tuple[Any, ...], Any]]:
        """(path, schema) of each value whose type or choice is refused, alternatives included."""
        if refusal(arguments) is None:
            yield from _refused(self._validator.iter_errors(arguments))


def _refused(errors: Iterable[Any]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    for err in errors:
        if err.validator in ("type", "enum", "const"):
            yield tuple(err.absolute_path), err.schema
        elif err.validator in ("anyOf", "oneOf"):
            yield from _refused(err.context)


def plain_validator(schema: dict[str, Any]) -> Any:
    """A jsonschema validator for a response: formats and decimal ``multipleOf`` as for arguments, objects left open."""
    base: Any = validators.validator_for(schema, default=Draft202012Validator)
    cls = validators.extend(base, {"multipleOf": _multiple_of, "pattern": _pattern})
    return cls(schema, format_checker=format_checker(), registry=Registry())


def parameters_of(tool: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Name and parameter schema of an OpenAI tool or of its inner function; ValueError when it is neither."""
    function = tool.get("function", tool)
    name = function.get("name") if isinstance(function, dict) else None
    parameters = (function.get("parameters") or {}) if isinstance(function, dict) else None
    if not (isinstance(name, str) and name and isinstance(parameters, dict)):
        raise ValueError(
            'a tool must read {"type": "function", "function": {"name": "...", "parameters": {JSON Schema}}}, '
            f"not {shown(json.dumps(tool, default=str), 120)}"
        )
    return name, parameters


def compile_tool(tool: dict[str, Any]) -> CompiledSchema:
    """The compiled parameters of ``tool``, from a cache keyed by their text."""
    name, parameters = parameters_of(tool)
    return _compile(name, json.dumps(parameters))


@lru_cache(maxsize=4096)
def _compile(name: str, parameters: str) -> CompiledSchema:
    try:
        schema, notes = normalise(json.loads(parameters))
    except HopelessSchema as err:
        raise ValueError(f"tool {name!r}: parameters are no JSON Schema at {err}") from err
    return CompiledSchema(name, schema, notes)


def matches(pattern: str, text: str) -> bool:
    """Does ``pattern`` occur in ``text``? True for a pattern that cannot be read; False when it takes too long to say."""
    try:
        return regex.search(pattern, text, timeout=_PATTERN_SECONDS) is not None
    except regex.error:
        return True
    except TimeoutError:
        return False


def _multiple_of(validator: Any, factor: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if validator.is_type(instance, "number"):
        value, step = (Fraction(x) if isinstance(x, int) else Fraction(repr(x)) for x in (instance, factor))
        if value % step:
            yield ValidationError("not a multiple")


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if validator.is_type(instance, "string") and not matches(pattern, instance):
        yield ValidationError("does not match")


_IN_PLACE = ("allOf", "anyOf", "oneOf")


def _branches(schema: dict[str, Any], root: Any) -> Iterator[dict[str, Any]]:
    """The schemas that apply to the same value as ``schema``: allOf/anyOf/oneOf, if/then/else and a local $ref."""
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
    """The properties that ``schema`` or one of its branches declares, by name."""
    names: dict[str, Any] = dict(schema.get("properties") or {})
    for branch in _branches(schema, root):
        if id(branch) not in seen:
            names |= _declared(branch, root, (*seen, id(branch)))
    return names


def _closed(schema: Any, root: Any, here: bool = True) -> Any:
    """``schema`` with its open objects closed; ``here`` is False for a branch, which closes with its owner."""
    if schema is False:  # spelt so that jsonschema reports the path of the value
        return {"not": {}}
    if not isinstance(schema, dict):
        return schema
    out = dict(schema)
    for key in ("properties", "patternProperties", "$defs", "definitions"):
        if isinstance(schema.get(key), dict):  # a definition is a branch of whatever refers to it
            is_field = key in ("properties", "patternProperties")
            out[key] = {k: _closed(v, root, here=is_field) for k, v in schema[key].items()}
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


# --- from jsonschema's errors to ours -----------------------------------------------------------------------------

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


def _coded(errors: Iterable[Any], root: dict[str, Any]) -> Iterator[ArgumentError]:
    for err in errors:
        path, rule, wanted = dotted(err.absolute_path), err.validator, err.validator_value
        subject = path or "arguments"
        if rule == "required":
            paths = [dotted((*err.absolute_path, name)) for name in wanted if name not in err.instance]
            yield from (ArgumentError("missing_argument", p, f"{p} is required") for p in paths)
        elif rule in ("additionalProperties", "unevaluatedProperties"):
            yield from _unexpected(err, root)
        elif rule == "type":
            yield ArgumentError("wrong_type", path, f"{subject} must be {' or '.join(_listed(wanted))}")
        elif rule in ("enum", "const"):
            values = wanted if rule == "enum" else [wanted]
            allowed = ", ".join(v if isinstance(v, str) else json.dumps(v) for v in values)
            yield ArgumentError("not_in_enum", path, f"{subject} must be one of {shown(allowed, 64)}")
        elif rule == "format":
            yield ArgumentError("bad_format", path, f"{subject} must be {HINTS[wanted]}")
        elif rule in _RANGES:
            yield ArgumentError("out_of_range", path, f"{subject} {_RANGES[rule].format(wanted)}")
        elif rule in ("anyOf", "oneOf"):
            yield from _alternatives(err, root)
        else:
            broken = "is not allowed" if rule in ("not", None) else f"breaks the rule {rule}"
            yield ArgumentError("invalid", path, f"{subject} {broken}")


def _listed(types: str | list[str]) -> list[str]:
    return [types] if isinstance(types, str) else types


def _unexpected(err: Any, root: dict[str, Any]) -> Iterator[ArgumentError]:
    names = list(_declared(err.schema, root))
    patterns = list(err.schema.get("patternProperties", ()))
    extra = [k for k in err.instance if k not in names and not any(re.search(p, k) for p in patterns)]
    for key in extra:
        path = dotted((*err.absolute_path, key))
        near = get_close_matches(shown(key), names, n=1, cutoff=0.6)
        yield ArgumentError("unexpected_argument", path, f"{path} is not an argument{_guess(near)}")
    if not extra:  # declared, but in a branch that does not apply to this value
        path = dotted(err.absolute_path)
        yield ArgumentError("unexpected_argument", path, f"{path or 'arguments'} has fields that do not go together")


def _alternatives(err: Any, root: dict[str, Any]) -> Iterator[ArgumentError]:
    """anyOf/oneOf: the errors of the one branch whose type fits; a type error when none does; else ``invalid``."""
    path = dotted(err.absolute_path)
    by_branch: dict[int, list[Any]] = {}
    for sub in err.context:
        by_branch.setdefault(sub.schema_path[0], []).append(sub)
    mistyped = {n: [e for e in subs if e.validator == "type" and not e.path] for n, subs in by_branch.items()}
    fitting = [by_branch[n] for n, wrong in mistyped.items() if not wrong]
    if len(fitting) == 1:
        yield from _coded(fitting[0], root)
    elif by_branch and not fitting:
        types = dict.fromkeys(t for wrong in mistyped.values() for t in _listed(wrong[0].validator_value))
        yield ArgumentError("wrong_type", path, f"{path or 'arguments'} must be {' or '.join(types)}")
    else:
        yield ArgumentError("invalid", path, f"{path or 'arguments'} must fit exactly one of its allowed forms")
