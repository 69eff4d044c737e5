"""The schema backend: one answer per call whatever the process, and every answer fits its schema."""

import json
import os
import subprocess
import sys
import time
from datetime import date, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from slca.simulator.formats import CHECKS, format_checker, is_format
from slca.simulator.jsonvalue import canonical
from slca.simulator.response import dumps
from slca.simulator.schema_backend import answer, draw
from slca.simulator.validation import plain_validator
from slca.simulator.vocabulary import NUMBERS, STRINGS, lookup


def obj(**properties):
    return {"type": "object", "properties": properties}


RETURNS = obj(
    order_id={"type": "string", "x-id": "ORD"},
    city={"type": "string", "x-echo": "city"},
    total_price={"type": "number", "minimum": 20, "maximum": 90},
    status={"type": "string", "enum": ["paid", "open", "late"]},
    arrives={"type": "string", "format": "date"},
    items={"type": "array", "items": obj(product_name={"type": "string"}, quantity={"type": "integer"})},
)
ARGUMENTS = {"city": "Zürich", "guests": 2, "nested": {"b": [1, 2], "a": None}}

PINNED = (
    '{"order_id": "ORD-5004", "city": "Paris", "total_price": 83.22, "status": "late", "arrives": "2026-06-10", '
    '"items": [{"product_name": "coffee maker", "quantity": 18}, {"product_name": "coffee maker", "quantity": 19}]}'
)


def test_the_answer_is_pinned():
    """A change here changes what every stored task expects: make new tasks when you mean it."""
    got = dumps(answer("search", {"city": "Paris"}, RETURNS, 7))
    assert got == PINNED


def test_equal_in_other_processes_with_other_hash_seeds():
    code = (
        "import json, sys; from slca.simulator.schema_backend import answer; from slca.simulator.response import dumps;"
        "r, a = json.load(sys.stdin); sys.stdout.buffer.write(dumps(answer('search', a, r, 3)).encode())"
    )
    mine = dumps(answer("search", ARGUMENTS, RETURNS, 3))
    for hash_seed in ("0", "4242"):
        env = os.environ | {"PYTHONHASHSEED": hash_seed}
        given = json.dumps([RETURNS, ARGUMENTS]).encode()
        done = subprocess.run([sys.executable, "-c", code], input=given, capture_output=True, env=env, check=True)
        assert done.stdout.decode() == mine


def test_order_and_spelling_of_numbers_do_not_matter():
    same = {"nested": {"a": None, "b": [1.0, 2]}, "guests": 2.0, "city": "Zürich"}
    schema = obj(code={"type": "string"}, nested={"type": "object", "x-echo": "nested"}, n={"x-echo": "guests"})
    assert dumps(answer("f", ARGUMENTS, schema, 1)) == dumps(answer("f", same, schema, 1))


def test_seed_tool_and_arguments_each_matter():
    def ids(tool, arguments, seed):
        return [answer(tool, arguments | {"n": n}, RETURNS, seed)["order_id"] for n in range(20)]

    base = ids("f", {}, 0)
    for other in (ids("g", {}, 0), ids("f", {"city": "Oslo"}, 0), ids("f", {}, 1)):
        assert sum(a == b for a, b in zip(base, other, strict=True)) <= 1
    assert len(set(base)) >= 19


def test_fields_of_one_answer_are_independent():
    both = [answer("f", {"n": n}, obj(a={"type": "boolean"}, b={"type": "boolean"}), 0) for n in range(400)]
    for a in (True, False):
        for b in (True, False):
            assert 60 < sum(x == {"a": a, "b": b} for x in both) < 140  # 100 expected, sd 8.7


def test_draw_is_uniform():
    counts = [0] * 7
    for n in range(7000):
        counts[draw(b"key", str(n), 7)] += 1
    assert all(880 < c < 1120 for c in counts)  # 1000 expected, sd 29


def test_echo():
    schema = obj(
        city={"type": "string", "x-echo": "city"},
        guest={"type": "string", "x-echo": "guest.name"},
        code={"type": "string", "x-echo": "number"},
        amount={"type": "number", "x-echo": "number"},
        order_id={"type": "string", "x-id": "ORD", "x-echo": "order_id"},
    )
    got = answer("f", {"city": "Zürich", "guest": {"name": "Li"}, "number": 4.0}, schema, 0)
    assert (got["city"], got["guest"], got["code"], got["amount"]) == ("Zürich", "Li", "4", 4)
    assert got["order_id"].startswith("ORD-") and len(got["order_id"]) == 8
    assert answer("f", {"order_id": "ORD-77"}, schema, 0)["order_id"] == "ORD-77"
    assert answer("f", {"guest": "not an object"}, schema, 0)["city"] in STRINGS["city"]


def test_values_are_plausible_by_name_and_format():
    schema = obj(
        arrival_city={"type": "string"},
        hotelName={"type": "string"},
        temperature={"type": "number"},
        humidity={"type": "integer"},
        booking_id={"type": "string"},
        success={"type": "boolean"},
        contact_email={"type": "string"},
        check_in={"type": "string", "format": "date"},
        starts={"type": "string", "format": "date-time"},
        cities={"type": "array", "items": {"type": "string"}},
        whatever={"type": "string", "description": "Name of the airline"},
    )
    for n in range(50):
        got = answer("f", {"n": n}, schema, 0)
        assert got["arrival_city"] in STRINGS["city"] and got["hotelName"] in STRINGS["hotel"]
        assert -5 <= got["temperature"] <= 35 and round(got["temperature"], 1) == got["temperature"]
        assert 20 <= got["humidity"] <= 95 and got["success"] is True
        assert got["booking_id"].startswith("BOO-") and is_format("email", got["contact_email"])
        assert date.fromisoformat(got["check_in"]) and datetime.fromisoformat(got["starts"])
        assert 1 <= len(got["cities"]) <= 3 and set(got["cities"]) <= set(STRINGS["city"])
        assert got["whatever"] in STRINGS["airline"]


@pytest.mark.parametrize("name", [*STRINGS, *NUMBERS])
def test_every_vocabulary_key_is_found_by_its_own_name(name):
    table = STRINGS if name in STRINGS else NUMBERS
    assert lookup(table, name.replace(" ", "_")) == table[name]


def test_decimals_are_exact():
    schema = obj(x={"type": "number", "minimum": 19.9, "maximum": 20.1, "multipleOf": 0.01})
    seen = {json.dumps(answer("f", {"n": n}, schema, 0)["x"]) for n in range(400)}
    assert seen == {"19.9", "20", "20.1"} | {f"19.{n}" for n in range(91, 100)} | {f"20.0{n}" for n in range(1, 10)}


numbers = st.integers(-1000, 1000) | st.integers(-4000, 4000).map(lambda n: n / 4)


@st.composite
def number_schemas(draw):
    kind = draw(st.sampled_from(["number", "integer"]))
    schema = {"type": kind}
    low = draw(numbers)
    for key, value in (("minimum", low), ("exclusiveMinimum", low)):
        if draw(st.booleans()):
            schema[key] = value
    for key in ("maximum", "exclusiveMaximum"):
        if draw(st.booleans()):
            schema[key] = low + draw(st.integers(30, 300))
    if draw(st.booleans()):
        schema["multipleOf"] = draw(st.sampled_from([1, 5, 0.5, 2.5, 0.25]))
    return schema


strings = st.one_of(
    st.builds(lambda f: {"type": "string", "format": f}, st.sampled_from(sorted(CHECKS))),
    st.builds(
        lambda a, b: {"type": "string", "minLength": a, "maxLength": a + b}, st.integers(0, 9), st.integers(0, 9)
    ),
    st.just({"type": "string", "x-id": "AB"}),
    st.builds(lambda v: {"enum": v}, st.lists(st.text(max_size=3) | st.integers() | st.none(), min_size=1)),
    st.just({"const": [1, {"a": 2.5}]}),
    st.just({"type": ["null", "boolean"]}),
    st.just({"anyOf": [{"type": "null"}, {"type": "string", "maxLength": 3}]}),
)
names = st.sampled_from(["city", "price", "name", "id", "time", "success", "heart_rate", "x", "ort", "userId", ""])


def nested(inner):
    arrays = st.builds(
        lambda items, least, extra: {"type": "array", "items": items, "minItems": least, "maxItems": least + extra},
        inner,
        st.integers(0, 4),
        st.integers(0, 3),
    )
    return arrays | st.dictionaries(names, inner, max_size=4).map(
        lambda p: {"type": "object", "properties": p, "required": sorted(p), "additionalProperties": False}
    )


schemas = st.recursive(number_schemas() | strings, nested, max_leaves=8)


@settings(max_examples=100, deadline=None)
@given(schemas, st.integers(0, 10**6))
def test_every_answer_fits_its_schema_and_survives_json(schema, seed):
    value = answer("tool", {"q": "x"}, schema, seed)
    Draft202012Validator(schema, format_checker=format_checker()).validate(value)
    assert canonical(json.loads(dumps(value))) == canonical(value)


def test_unique_items():
    schema = {"type": "array", "uniqueItems": True, "minItems": 3, "items": {"enum": ["a", "b", "c"]}}
    assert sorted(answer("f", {}, schema, 0)) == ["a", "b", "c"]
    with pytest.raises(ValueError, match="no 3 different items"):
        answer("f", {}, schema | {"items": {"enum": ["a", "b"]}}, 0)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (
            obj(a=obj(b={"type": "string", "pattern": "(?=a)b"})),
            "'f', response schema: 64 answers were drawn and none fits",
        ),
        (obj(a={"enum": []}), "at a: enum is empty"),
        (obj(a={"type": "float"}), "type 'float' is unknown; use one of object"),
        (obj(a={"type": "integer", "minimum": 3, "maximum": 2}), "no number lies between"),
        (obj(a={"type": "integer", "exclusiveMinimum": 3, "exclusiveMaximum": 4}), "no number lies between"),
        (
            {"type": "array", "items": {"type": "string"}, "minItems": 3, "maxItems": 2},
            "top level: minItems 3 is above",
        ),
        (obj(a={"type": "string", "minLength": 3, "maxLength": 2}), "minLength 3 is above"),
        (obj(a=5), "at a: must be an object, not int"),
    ],
)
def test_schemas_that_cannot_be_answered_are_named(schema, message):
    with pytest.raises(ValueError, match=message):
        answer("f", {}, schema, 0)


def test_an_answer_may_be_changed_by_who_gets_it():
    schema = {"const": {"list": [1]}}
    answer("f", {}, schema, 0)["list"].append(2)
    assert answer("f", {}, schema, 0) == {"list": [1]}


def test_fast_enough_for_training():
    schema = {"type": "object", "properties": dict(list(RETURNS["properties"].items())[:4])}
    answer("f", {}, schema, 0)
    start = time.process_time()
    for n in range(2000):
        answer("f", {"city": "Paris", "n": n}, schema, 0)
    assert time.process_time() - start < 0.4  # 5,000 answers/s; a quiet core makes some 60,000


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "pattern": r"^[A-Z]{2}-\d{3,5}$"},
        {"type": "string", "pattern": r"^(red|green)\+[^a-y]{2}$"},
        {"type": "string", "pattern": r"\d"},
        {"type": "string", "pattern": "^a?b*c+.$", "maxLength": 6},
        {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string", "format": "date"}], "items": False},
        {"type": "array", "contains": {"const": 7}, "items": {"type": "integer"}},
        {"$ref": "#/$defs/pair", "$defs": {"pair": obj(left={"type": "integer"}, right={"$ref": "#/$defs/leaf"}),
                                           "leaf": {"enum": ["x"]}}},
        {"$ref": "#/$defs/node", "$defs": {"node": obj(value={"type": "integer"}, next={"$ref": "#/$defs/node"})}},
        {"allOf": [obj(a={"type": "integer", "minimum": 3}), obj(a={"maximum": 4}, b={"type": "string"})],
         "required": ["a", "b"]},
        {"type": "object", "required": ["undeclared"]},
        {"type": "integer", "minimum": 1, "maximum": 3, "not": {"enum": [1, 2]}},
        {"type": "object", "properties": {"kind": {"enum": ["a", "b"]}, "n": {"type": "integer"}},
         "if": {"properties": {"kind": {"const": "a"}}}, "then": {"properties": {"n": {"minimum": 50}}}},
        {"oneOf": [{"type": "integer", "minimum": 1}, {"type": "integer", "maximum": -1}]},
    ],
)  # fmt: skip
def test_rules_of_schemas_in_the_wild(schema):
    for n in range(20):
        value = answer("f", {"n": n}, schema, 0)
        assert plain_validator(schema).is_valid(value), value
        assert value == answer("f", {"n": n}, schema, 0)
