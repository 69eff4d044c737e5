"""The schema backend: an answer built from the response schema alone, without any model.

Every value depends on (seed, tool, canonical arguments, path in the response) and on nothing else, through blake2b;
so the same call gets the same answer in every rollout, process and machine. All choices of values are ours.

Values are made for type (also a list of types), properties, items, prefixItems, contains, enum, const, format (date, time,
date-time, email, uri), pattern, minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf, minLength, maxLength,
minItems, maxItems, uniqueItems, anyOf and oneOf (their first member that is not null), with ``$ref`` and ``allOf`` resolved
before. Under other rules (not, if, patternProperties, ...) answers are drawn until one fits. Two annotations:

* ``"x-echo": "city"``: the value of argument ``city`` (or ``"guest.name"``, inside an object) when it was given;
* ``"x-id": "ORD"`` on a string: an id such as ``ORD-4821``.

Every declared property is present; arrays hold 1 to 3 items unless the schema says otherwise.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable
from datetime import date, timedelta
from fractions import Fraction
from functools import lru_cache, partial
from hashlib import blake2b
from typing import Any

from slca.simulator.coerce import NOTHING
from slca.simulator.flatten import flatten, merge
from slca.simulator.jsonvalue import canonical, plain_number
from slca.simulator.normalise import HopelessSchema
from slca.simulator.regex import text_of
from slca.simulator.validation import matches, plain_validator
from slca.simulator.vocabulary import FORMAT_WORDS, NUMBERS, OTHER, STRINGS, SUCCESS, lookup, words

#: (hash key, path, arguments) -> value
Maker = Callable[[bytes, str, dict[str, Any]], Any]

#: Rules for which no value is made on purpose: what was drawn is checked, and drawn again if it breaks them.
_CHECKED = (
    "pattern", "patternProperties", "not", "if", "contains", "oneOf", "dependentRequired", "dependentSchemas",
    "propertyNames", "minProperties", "maxProperties", "unevaluatedProperties", "unevaluatedItems",
)  # fmt: skip
_TRIES = 64
_MOST_ITEMS = 1000
_FIRST_DAY = date(2026, 1, 1)


def answer(tool: str, arguments: dict[str, Any], returns: dict[str, Any], seed: int) -> Any:
    """A JSON value that fits the schema ``returns``; equal calls (see ``canonical``) give equal values.

    Raises:
        ValueError: the schema uses a rule that is not listed above or that nothing can fulfil; names tool and path.
    """
    maker, check = _compile(tool, json.dumps(returns))
    call = f"{seed}\0{tool}\0{canonical(arguments)}".encode("utf-8", "surrogatepass")
    for salt in range(_TRIES if check is not None else 1):
        text = call if salt == 0 else call + f"\0{salt}".encode()
        value = maker(blake2b(text, digest_size=16).digest(), "", arguments)
        if check is None or check.is_valid(value):
            return value
    raise ValueError(
        f"tool {tool!r}, response schema: {_TRIES} answers were drawn and none fits; give it an enum or const"
    )


@lru_cache(maxsize=4096)
def _compile(tool: str, returns: str) -> tuple[Maker, Any]:
    """What makes answers, and what checks them where making alone does not see to it."""
    try:
        schema = flatten(json.loads(returns))
        return _maker(schema, ""), plain_validator(schema) if _needs_check(schema) else None
    except (_Unfit, HopelessSchema) as err:
        raise ValueError(f"tool {tool!r}, response schema at {err}") from err


def _needs_check(schema: Any) -> bool:
    if isinstance(schema, list):
        return any(map(_needs_check, schema))
    if not isinstance(schema, dict):
        return False
    fields = schema.get("properties")
    fields = list(fields.values()) if isinstance(fields, dict) else []
    rest = [v for k, v in schema.items() if k not in ("properties", "enum", "const", "default", "examples")]
    return any(k in schema for k in _CHECKED) or _needs_check(fields) or _needs_check(rest)


class _Unfit(Exception):
    """A response schema that cannot be answered: "path: why"."""


def draw(key: bytes, path: str, n: int) -> int:
    """A number in [0, n) that depends on the call's key and the path alone."""
    return int.from_bytes(blake2b(path.encode(), key=key, digest_size=8).digest(), "big") % n


def _maker(schema: Any, path: str) -> Maker:
    if schema is True:
        schema = {}
    if not isinstance(schema, dict):
        raise _Unfit(f"{path or 'top level'}: must be an object, not {type(schema).__name__}")
    make = _plain_maker(schema, path)
    if isinstance(source := schema.get("x-echo"), str):
        rest = {k: v for k, v in schema.items() if k != "x-echo"}
        return _echo(make, source, plain_validator(rest), as_text=_type_of(schema) == "string")
    return make


def _plain_maker(schema: dict[str, Any], path: str) -> Maker:
    for key in ("anyOf", "oneOf"):
        if schema.get(key):
            outer = {k: v for k, v in schema.items() if k != key}
            kind = outer.get("type")  # a member that says another type than the whole is never valid
            fitting = [m for m in schema[key] if not isinstance(m, dict) or kind in (None, m.get("type", kind))]
            members = fitting or schema[key]
            member = next((m for m in members if m != {"type": "null"}), members[0])
            return _maker(outer | member, path)
    if "const" in schema:
        return _constant(schema["const"])
    if "enum" in schema:
        if not schema["enum"]:
            raise _Unfit(f"{path or 'top level'}: enum is empty")
        return _choice(schema["enum"])
    kind = _type_of(schema)
    if kind not in _MAKERS:
        raise _Unfit(f"{path or 'top level'}: type {kind!r} is unknown; use one of {', '.join(_MAKERS)}")
    return _MAKERS[kind](schema, path)


def _type_of(schema: dict[str, Any]) -> str:
    kind = schema.get("type", "object" if "properties" in schema else "array" if "items" in schema else "string")
    if isinstance(kind, list):
        kind = next((k for k in kind if k != "null"), "null")
    return str(kind)


def _constant(value: Any) -> Maker:
    return lambda key, path, arguments: _normalised(value)


def _choice(values: list[Any]) -> Maker:
    return lambda key, path, arguments: _normalised(values[draw(key, path, len(values))])


def echoed(source: str, arguments: dict[str, Any]) -> Any:
    """The argument that ``x-echo: source`` names, ``NOTHING`` where it was not given."""
    value: Any = arguments
    for step in [source] if source in arguments else source.split("."):
        if not isinstance(value, dict) or step not in value:
            return NOTHING
        value = value[step]
    return _normalised(value)


def _echo(make: Maker, source: str, fits: Any, as_text: bool) -> Maker:
    """The argument named ``source`` (as text where the schema wants a string) if given and fit, else ``make``'s value."""

    def echo(key: bytes, path: str, arguments: dict[str, Any]) -> Any:
        value = echoed(source, arguments)
        if value is NOTHING:
            return make(key, path, arguments)
        value = canonical(value) if as_text and not isinstance(value, str) else value
        return value if fits.is_valid(value) else make(key, path, arguments)

    return echo


def _normalised(value: Any) -> Any:
    """A copy as every equal call gives it: object keys sorted, 3.0 as 3."""
    if isinstance(value, dict):
        return {k: _normalised(v) for k, v in sorted(value.items())}
    if isinstance(value, list):
        return [_normalised(v) for v in value]
    return plain_number(value)


def _object(schema: dict[str, Any], path: str) -> Maker:
    given = schema.get("properties", {})
    given = given | {k: {} for k in schema.get("required", ()) if k not in given}
    fields = [(k, f".{k}", _maker(s, f"{path}.{k}" if path else k)) for k, s in given.items() if s is not False]
    further = schema.get("additionalProperties", True)
    if further is not False:  # names of ours, where more properties are asked for than are named
        own = _maker(further if isinstance(further, dict) else {"type": "string"}, f"{path}.field" if path else "field")
        missing = min(schema.get("minProperties", 0) - len(fields), _MOST_ITEMS)
        fields += [(f"field_{n}", f".field_{n}", own) for n in range(1, missing + 1)]
    return lambda key, path, arguments: {k: make(key, path + step, arguments) for k, step, make in fields}


def _array(schema: dict[str, Any], path: str) -> Maker:
    # an item is named like its array, so that "cities" and "cities.items" both mean a city
    at = f"{path}.items" if path else "items"
    first = [_maker(s, at) for s in schema.get("prefixItems", ())]
    if isinstance(schema.get("contains"), dict):
        items = schema.get("items", {})
        first.append(_maker(merge(items if isinstance(items, dict) else {}, schema["contains"]), at))
    closed = schema.get("items") is False
    make = _maker({"type": "string"} if closed else schema.get("items", {"type": "string"}), at)
    if closed:
        schema = {**schema, "maxItems": min(len(first), schema.get("maxItems", len(first)))}
    least = schema.get("minItems", max(len(first), min(1, schema.get("maxItems", 1))))
    most = min(schema.get("maxItems", max(3, least)), max(3, least))
    if least > _MOST_ITEMS:
        raise _Unfit(f"{path or 'top level'}: minItems {least} is above {_MOST_ITEMS}, more than an answer should hold")
    if least > most:
        raise _Unfit(f"{path or 'top level'}: minItems {least} is above maxItems {most}")
    unique = schema.get("uniqueItems", False)

    def array(key: bytes, path: str, arguments: dict[str, Any]) -> list[Any]:
        items: list[Any] = []
        seen: set[str] = set()
        wanted = least + draw(key, path + "#", most - least + 1)
        for n in range(wanted * 40 if unique else wanted):
            item = (first[n] if n < len(first) else make)(key, f"{path}.{n}", arguments)
            if unique and (text := canonical(item)) in seen:
                continue
            elif unique:
                seen.add(text)
            items.append(item)
            if len(items) == wanted:
                break
        if len(items) < least:
            raise ValueError(f"response schema at {path or 'top level'}: there are no {least} different items")
        return items

    return array


def _string(schema: dict[str, Any], path: str) -> Maker:
    if "x-id" in schema:
        return _identifier(str(schema["x-id"]))
    if (wanted := schema.get("format")) in _FORMATS:
        return _FORMATS[wanted]
    make = _guessed(_name_of(path), str(schema.get("description", "")))
    if isinstance(pattern := schema.get("pattern"), str):
        make = _matching(pattern, make)
    return _sized(make, schema, path)


def _matching(pattern: str, make: Maker) -> Maker:
    """What ``make`` makes where that matches, else a text made from the pattern."""

    def matching(key: bytes, path: str, arguments: dict[str, Any]) -> str:
        text = str(make(key, path, arguments))
        try:
            re.compile(pattern)
        except re.error:
            return text
        if matches(pattern, text):
            return text
        count = itertools.count()
        made = text_of(pattern, lambda n: draw(key, f"{path}/{next(count)}", max(n, 1)))
        return text if made is None else made

    return matching


def _guessed(name: str, description: str) -> Maker:
    """What a string of this name most likely holds."""
    parts = words(name) or [""]
    if parts[-1] == "id":
        return _identifier("".join(w[:3] for w in parts[:-1]).upper()[:3] or "ID")
    if kind := FORMAT_WORDS.get(parts[-1]):
        return _FORMATS[kind]
    return _choice(lookup(STRINGS, name) or lookup(STRINGS, description) or OTHER)


def _identifier(prefix: str) -> Maker:
    return lambda key, path, arguments: f"{prefix}-{1000 + draw(key, path, 9000)}"


def _sized(make: Maker, schema: dict[str, Any], path: str) -> Maker:
    """Cut or filled to minLength..maxLength."""
    least, most = schema.get("minLength", 0), schema.get("maxLength", math.inf)
    if least > most:
        raise _Unfit(f"{path or 'top level'}: minLength {least} is above maxLength {most}")
    if not least and most == math.inf:
        return make

    def sized(key: bytes, path: str, arguments: dict[str, Any]) -> str:
        text = make(key, path, arguments).ljust(least, "x")
        return text if len(text) <= most else text[: int(most)]

    return sized


def _number(schema: dict[str, Any], path: str, integer: bool = False) -> Maker:
    """Multiples of a step between two bounds, computed on integers so that 19.99 is exactly the float 19.99."""
    low, high, step = (Fraction(x) for x in lookup(NUMBERS, _name_of(path)) or ("1", "100", "1" if integer else "0.1"))
    step = Fraction(1) if integer else step
    if "multipleOf" in schema:
        step = _fraction(schema["multipleOf"])
        step = Fraction(step.numerator) if integer else step  # the least common multiple of step and 1
    multiples = _multiples(schema, low, high, step)
    while not multiples and not integer and "multipleOf" not in schema and step > Fraction(1, 10**12):
        step /= 10  # narrow bounds want a finer step
        multiples = _multiples(schema, low, high, step)
    if not multiples:
        raise _Unfit(f"{path or 'top level'}: no number lies between its bounds; widen them or change multipleOf")
    first, span, top, bottom = multiples[0], len(multiples), step.numerator, step.denominator

    def number(key: bytes, path: str, arguments: dict[str, Any]) -> float:
        scaled = (first + draw(key, path, span)) * top
        return scaled // bottom if scaled % bottom == 0 else scaled / bottom

    return number


def _multiples(schema: dict[str, Any], low: Fraction, high: Fraction, step: Fraction) -> range:
    """The k for which k * step is allowed, and within the plausible ``low`` to ``high`` where that leaves any."""
    floors = [math.ceil(_fraction(schema["minimum"]) / step)] if "minimum" in schema else []
    floors += [math.floor(_fraction(schema["exclusiveMinimum"]) / step) + 1] if "exclusiveMinimum" in schema else []
    tops = [math.floor(_fraction(schema["maximum"]) / step)] if "maximum" in schema else []
    tops += [math.ceil(_fraction(schema["exclusiveMaximum"]) / step) - 1] if "exclusiveMaximum" in schema else []
    plausible = range(max([math.ceil(low / step), *floors]), min([math.floor(high / step), *tops]) + 1)
    if plausible:
        return plausible
    width = math.floor((high - low) / step)
    first = max(floors) if floors else min(tops, default=0) - width
    return range(first, (min(tops) if tops else first + width) + 1)


def _fraction(value: float) -> Fraction:
    return Fraction(value) if isinstance(value, int) else Fraction(repr(value))


def _boolean(schema: dict[str, Any], path: str) -> Maker:
    if not SUCCESS.isdisjoint(words(_name_of(path))):
        return _constant(True)
    return lambda key, path, arguments: draw(key, path, 2) == 1


def _name_of(path: str) -> str:
    return next((p for p in reversed(path.split(".")) if p != "items"), "")


def _date(key: bytes, path: str, arguments: dict[str, Any]) -> str:
    return (_FIRST_DAY + timedelta(days=draw(key, path, 365))).isoformat()


def _time(key: bytes, path: str, arguments: dict[str, Any]) -> str:
    quarter = 28 + draw(key, path, 56)  # 07:00 to 20:45
    return f"{quarter // 4:02d}:{quarter % 4 * 15:02d}"


def _date_time(key: bytes, path: str, arguments: dict[str, Any]) -> str:
    return f"{_date(key, path, arguments)}T{_time(key, path + 'T', arguments)}:00"


def _email(key: bytes, path: str, arguments: dict[str, Any]) -> str:
    person = STRINGS["person"][draw(key, path, len(STRINGS["person"]))]
    return f"{person.lower().replace(' ', '.')}@example.com"


def _uri(key: bytes, path: str, arguments: dict[str, Any]) -> str:
    return f"https://example.com/{OTHER[draw(key, path, len(OTHER))]}/{draw(key, path + '/', 900) + 100}"


_FORMATS: dict[Any, Maker] = {"date": _date, "time": _time, "date-time": _date_time, "email": _email, "uri": _uri}
_MAKERS: dict[str, Callable[[dict[str, Any], str], Maker]] = {
    "object": _object,
    "array": _array,
    "string": _string,
    "number": _number,
    "integer": partial(_number, integer=True),
    "boolean": _boolean,
    "null": lambda schema, path: _constant(None),
}
