"""Argument validation: each code, agreement with jsonschema, and sound behaviour on hostile values."""

import json
import math
import os
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from slca.simulator.formats import format_checker, is_format
from slca.simulator.jsonvalue import MAX_DEPTH, shown
from slca.simulator.validation import CODES, ArgumentError, canonical, unknown_tool, validate_arguments


def tool(properties, required=(), **more):
    parameters = {"type": "object", "properties": properties, "required": list(required)} | more
    return {"type": "function", "function": {"name": "book", "description": "Book it.", "parameters": parameters}}


BOOK = tool(
    {
        "city": {"type": "string", "minLength": 1},
        "day": {"type": "string", "format": "date"},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
        "nights": {"type": "integer", "minimum": 1, "maximum": 30},
        "price": {"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.01},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2, "uniqueItems": True},
        "guest": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
        "note": {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "null"}]},
        "free": {"type": "object"},
    },
    required=["city"],
)


def errors(arguments, schema=BOOK):
    return [(e.code, e.path, e.message) for e in validate_arguments(schema, arguments)]


@pytest.mark.parametrize(
    ("arguments", "code", "path", "message"),
    [
        ({}, "missing_argument", "city", "city is required"),
        ({"guest": {}, "city": "x"}, "missing_argument", "guest.name", "guest.name is required"),
        ({"city": "x", "nigths": 1}, "unexpected_argument", "nigths", "nigths is not an argument (nights?)"),
        ({"city": "x", "zzz": 1}, "unexpected_argument", "zzz", "zzz is not an argument"),
        (
            {"city": "x", "guest": {"name": "a", "Name": "b"}},
            "unexpected_argument",
            "guest.Name",
            "guest.Name is not an argument (name?)",
        ),
        ({"city": 3}, "wrong_type", "city", "city must be string"),
        ({"city": "x", "nights": True}, "wrong_type", "nights", "nights must be integer"),
        ({"city": "x", "nights": "3"}, "wrong_type", "nights", "nights must be integer"),
        ({"city": "x", "nights": 3.5}, "wrong_type", "nights", "nights must be integer"),
        ({"city": "x", "tags": ["a", 1]}, "wrong_type", "tags.1", "tags.1 must be string"),
        ({"city": "x", "note": 5}, "wrong_type", "note", "note must be string or null"),
        ([], "wrong_type", "", "arguments must be an object"),
        (None, "wrong_type", "", "arguments must be an object"),
        ({"city": "x", "unit": "kelvin"}, "not_in_enum", "unit", "unit must be one of celsius, fahrenheit"),
        ({"city": "x", "day": "2026-02-30"}, "bad_format", "day", "day must be a date YYYY-MM-DD"),
        ({"city": "x", "nights": 31}, "out_of_range", "nights", "nights must be <= 30"),
        ({"city": "x", "nights": 10**300}, "out_of_range", "nights", "nights must be <= 30"),
        ({"city": "x", "price": 0}, "out_of_range", "price", "price must be > 0"),
        ({"city": "x", "price": 1.005}, "out_of_range", "price", "price must be a multiple of 0.01"),
        ({"city": ""}, "out_of_range", "city", "city needs at least 1 characters"),
        ({"city": "x", "tags": ["a", "b", "c"]}, "out_of_range", "tags", "tags allows at most 2 items"),
        ({"city": "x", "note": "long"}, "out_of_range", "note", "note allows at most 3 characters"),
        ({"city": "x", "tags": ["a", "a"]}, "invalid", "tags", "tags breaks the rule uniqueItems"),
        ({"city": "x", "price": math.nan}, "invalid", "price", "price must be a finite number"),
        ({"city": "x", "price": -math.inf}, "invalid", "price", "price must be a finite number"),
        ({"city": "x", "nights": 1 << 2000}, "invalid", "nights", "nights is too large a number"),
        ({"city": "\ud800"}, "invalid", "city", "city is not valid Unicode text"),
        ({"city": "x", "free": {"\udfff": 1}}, "invalid", "free", "free has a name that is not valid text"),
    ],
)
def test_each_code(arguments, code, path, message):
    assert errors(arguments) == [(code, path, message)]


def test_valid_arguments():
    full = {
        "city": "x",
        "day": "2028-02-29",
        "unit": "celsius",
        "nights": 3.0,
        "price": 19.99,
        "tags": [],
        "note": None,
    }
    assert errors(full | {"guest": {"name": "é"}, "free": {"any": [1, {"thing": None}]}}) == []


def test_several_errors_come_in_one_order():
    bad = {"zz": 1, "nights": 0, "unit": "k", "day": "now", "guest": 4}
    want = ["missing_argument", "unexpected_argument", "wrong_type", "not_in_enum", "bad_format", "out_of_range"]
    assert [c for c, _, _ in errors(bad)] == want
    assert errors(dict(reversed(bad.items()))) == errors(bad)


def test_inner_function_and_missing_parameters():
    assert validate_arguments(BOOK["function"], {}) == validate_arguments(BOOK, {})
    for parameters in ({}, None, {"type": "object"}, {"type": "object", "properties": {}}):
        bare = {"name": "now", "parameters": parameters}
        assert errors({}, bare) == []
        assert errors({"x": 1}, bare) == [("unexpected_argument", "x", "x is not an argument")]


def test_open_schemas_stay_open():
    assert errors({"x": 1}, tool({}, additionalProperties=True)) == []
    assert errors({"x": 1}, tool({}, additionalProperties={"type": "string"})) == [
        ("wrong_type", "x", "x must be string")
    ]
    assert errors({"x_1": 1, "y": 1}, tool({}, patternProperties={"^x_": {}}, additionalProperties=False)) == [
        ("unexpected_argument", "y", "y is not an argument")
    ]


def test_objects_behind_references_and_unions_are_closed():
    point = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
    by_ref = tool({"at": {"$ref": "#/$defs/P"}}, **{"$defs": {"P": point}})
    by_union = tool({"at": {"anyOf": [point, {"type": "null"}]}})
    by_all = tool({"at": {"allOf": [point, {"type": "object", "properties": {"z": {}}}]}})
    for schema in (by_ref, by_union, by_all):
        assert errors({"at": {"x": 1}}, schema) == []
        assert errors({"at": {"x": 1, "y": 2}}, schema) == [("unexpected_argument", "at.y", "at.y is not an argument")]
    assert errors({"at": {}}, by_ref) == [("missing_argument", "at.x", "at.x is required")]
    assert errors({"at": {}}, by_union)[0][0] == "missing_argument"
    assert errors({"at": {"x": 1, "z": 2}}, by_all) == []


def test_alternatives():
    two = tool({"v": {"oneOf": [{"type": "integer", "minimum": 5}, {"type": "number", "maximum": 9}]}})
    assert errors({"v": 7}, two) == [("invalid", "v", "v must fit exactly one of its allowed forms")]
    assert errors({"v": 12}, two) == []
    assert errors({"v": "a"}, two) == [("wrong_type", "v", "v must be integer or number")]
    assert errors({"v": 9.5}, two) == [("out_of_range", "v", "v must be <= 9")]
    assert errors({"v": 1}, tool({"v": False})) == [("invalid", "v", "v is not allowed")]


def test_recursive_schema_and_depth():
    tree = tool({"t": {"$ref": "#/$defs/T"}}, **{"$defs": {"T": {"type": "array", "items": {"$ref": "#/$defs/T"}}}})
    value = []
    for _ in range(MAX_DEPTH - 3):
        value = [value]
    assert errors({"t": value}, tree) == []
    for _ in range(100_000):
        value = [value]
    assert errors({"t": value}, tree) == [("invalid", "t", "t is nested too deeply")]
    assert canonical(value).count("[") == MAX_DEPTH - 2 + 100_000


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"name": ""}, "a tool must read"),
        ({"type": "function", "function": "book"}, "a tool must read"),
        ({"name": "f", "parameters": [1]}, "a tool must read"),
        (tool({"a": {"type": "strnig"}}), "'book': parameters are no JSON Schema at a: type \"strnig\" is"),
        (tool({"a": {"$ref": "#/$defs/none"}}), r"'book': .* at a: \$ref '#/\$defs/none' leads nowhere"),
        (tool({"a": {"$ref": "https://example.com/s.json"}}), r"'book': .* at a: \$ref 'https"),
    ],
)
def test_broken_tools_are_named(broken, message):
    with pytest.raises(ValueError, match=message):
        validate_arguments(broken, {"a": 1})


def test_patterns():
    schema = tool({"a": {"type": "string", "pattern": "^[0-9]+$"}, "b": {"type": "string", "pattern": r"\p{L}("}})
    assert errors({"a": "12", "b": "anything"}, schema) == []
    assert errors({"a": "1x"}, schema) == [("invalid", "a", "a breaks the rule pattern")]


def test_unknown_tool_names_its_neighbours():
    names = ["get_weather", "get_forecast", "book_hotel"]
    assert unknown_tool("get_wether", names) == ArgumentError("unknown_tool", "", "no tool get_wether (get_weather?)")
    assert unknown_tool("zzz", names).message == "no tool zzz"
    assert len(unknown_tool("x" * 10**6 + "\ud800\n", names).message) < 50
    assert shown("a\n b\ud800") == "a b?"


FORMAT_CASES = {
    "date": (
        ["2026-01-31", "2024-02-29"],
        ["2026-02-29", "20260131", "2026-1-3", "2026-W01-1", "२०२६-०१-०१", "2026-01-31\n"],
    ),
    "time": (
        ["09:30", "23:59:59", "09:30:00Z", "09:30:00.5+02:00"],
        ["24:00", "9:30", "09:60", "09:30 PM", "0930", ""],
    ),
    "date-time": (
        ["2026-01-31T09:30", "2026-01-31 09:30:00", "2026-01-31T09:30:00Z"],
        ["2026-01-31", "2026-02-30T09:30", "2026-01-31T25:00", "2026-01-31T", "tomorrow"],
    ),
    "email": (
        ["a@b.co", "first.last+tag@mail.example.org"],
        ["a@b", "@b.co", "a@b..co", ".a@b.co", "a..b@c.de", "a b@c.de", "a@-b.co", "a@b.co\n", "a" * 65 + "@b.co"],
    ),
    "uri": (["https://example.com/a?b=c", "mailto:a@b.co"], ["example.com", "https://", "http://a b", "http://[x", ""]),
}


@pytest.mark.parametrize("name", FORMAT_CASES)
def test_formats(name):
    good, bad = FORMAT_CASES[name]
    assert [t for t in good if not is_format(name, t)] == []
    assert [t for t in bad if is_format(name, t)] == []
    schema = tool({"v": {"type": "string", "format": name}})
    assert errors({"v": good[0]}, schema) == [] and errors({"v": bad[0]}, schema)[0][0] == "bad_format"


@given(st.dates())
def test_every_date_is_a_date(day: date):
    assert is_format("date", day.isoformat())


# --- against jsonschema -------------------------------------------------------------------------------------------

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.sampled_from([0.5, 2.0, -3.25])
    | st.sampled_from(["", "a", "bb", "2026-01-01"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=6,
)
leaf_schemas = st.sampled_from(
    [
        {},
        {"type": "string"},
        {"type": "string", "format": "date"},
        {"type": "string", "minLength": 1, "maxLength": 2},
        {"type": "integer", "minimum": 0, "maximum": 5},
        {"type": "number", "multipleOf": 2},
        {"type": ["boolean", "null"]},
        {"enum": ["a", 1, None, [1]]},
        {"const": 2.0},
        {"anyOf": [{"type": "string"}, {"type": "integer", "exclusiveMaximum": 3}]},
        {"oneOf": [{"type": "integer"}, {"type": "number", "minimum": 2}]},
    ]
)


def closed_object(properties, required):
    """A closed object; names that are required without being declared count as declared, as ``normalise`` reads them."""
    properties = {**properties, **{name: {} for name in required if name not in properties}}
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


schemas = st.recursive(
    leaf_schemas,
    lambda inner: (
        st.builds(
            lambda i, n: {"type": "array", "items": i, "minItems": n, "uniqueItems": True}, inner, st.integers(0, 2)
        )
        | st.builds(
            closed_object,
            st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
            st.lists(st.sampled_from("abc"), max_size=2, unique=True),
        )
    ),
    max_leaves=6,
)
objects = st.builds(
    closed_object, st.dictionaries(st.sampled_from("abcd"), schemas, max_size=4), st.just([]) | st.just(["a"])
)


def opened(schema):
    """The schema without the lines that close its objects: what our validator has to add by itself."""
    if isinstance(schema, dict):
        drop = schema.get("properties") is not None and schema["properties"]
        return {k: opened(v) for k, v in schema.items() if not (drop and k == "additionalProperties")}
    return [opened(s) for s in schema] if isinstance(schema, list) else schema


@settings(max_examples=int(os.environ.get("SLCA_FUZZ", "200")), deadline=None)  # SLCA_FUZZ=20000 for a long one
@given(objects, st.dictionaries(st.sampled_from("abcde"), json_values, max_size=4))
def test_agrees_with_jsonschema(schema, arguments):
    reference = Draft202012Validator(schema, format_checker=format_checker()).is_valid(arguments)
    got = validate_arguments({"name": "f", "parameters": opened(schema)}, arguments)
    assert (got == []) == reference
    assert all(e.code in CODES and e.message and len(set(got)) == len(got) for e in got)
    assert got == validate_arguments({"name": "f", "parameters": opened(schema)}, dict(reversed(arguments.items())))


# --- canonical ----------------------------------------------------------------------------------------------------

any_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=[])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


def shuffled(value):
    if isinstance(value, dict):
        return {k: shuffled(v) for k, v in reversed(value.items())}
    if isinstance(value, list):
        return [shuffled(v) for v in value]
    if type(value) is int and abs(value) < 2**53:
        return float(value)
    return value


@given(any_json)
def test_canonical_is_one_text_per_value(value):
    text = canonical(value)
    assert text.isascii() and canonical(shuffled(value)) == text
    if "Infinity" not in text:
        assert canonical(json.loads(text)) == text


def test_canonical_tells_different_values_apart():
    values = [
        True,
        1,
        "1",
        None,
        "null",
        0,
        False,
        "",
        [],
        {},
        [1],
        [[1]],
        {"1": 1},
        {"a": 1, "b": 2},
        {"a": {"b": 2}},
        0.5,
        [1, 2],
        [12],
    ]
    assert len({canonical(v) for v in values}) == len(values)
    assert canonical(-0.0) == "0" and canonical(1e22) == canonical(10**22)


def test_canonical_takes_what_json_cannot():
    huge = 10**6000
    assert canonical({"n": huge}) != canonical({"n": huge + 1})
    assert canonical([math.nan, math.inf]) == "[NaN,Infinity]"
    assert canonical("\ud800") == '"\\ud800"'
