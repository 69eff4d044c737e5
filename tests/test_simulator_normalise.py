"""Sloppy schemas are mended with a note, standard ones pass untouched, hopeless ones are refused with their path."""

import doctest

import pytest
from jsonschema import Draft202012Validator

import slca.simulator.normalise as module
from slca.simulator.normalise import HopelessSchema, normalise


def test_doctest():
    assert doctest.testmod(module).failed == 0


def field(schema):
    """How one property reads, and the notes."""
    out, notes = normalise({"type": "object", "properties": {"a": schema}})
    return out["properties"]["a"], notes


@pytest.mark.parametrize(
    ("sloppy", "standard"),
    [
        ({"type": "str"}, {"type": "string"}),
        ({"type": "String"}, {"type": "string"}),
        ({"type": "float"}, {"type": "number"}),
        ({"type": "double", "minimum": "1"}, {"type": "number", "minimum": 1}),
        ({"type": "bool"}, {"type": "boolean"}),
        ({"type": "list", "items": "int"}, {"type": "array", "items": {"type": "integer"}}),
        ({"type": "list[str]"}, {"type": "array", "items": {"type": "string"}}),
        ({"type": "string | null"}, {"type": ["string", "null"]}),
        ({"type": ["str", "None"]}, {"type": ["string", "null"]}),
        ({"type": "any"}, {}),
        ({"type": "date"}, {"type": "string", "format": "date"}),
        ({"type": "integer", "nullable": True}, {"type": ["integer", "null"]}),
        ({"type": "integer", "minimum": 3, "exclusiveMinimum": True}, {"type": "integer", "exclusiveMinimum": 3}),
        ({"type": "string", "enum": "a, b"}, {"type": "string", "enum": ["a", "b"]}),
        ({"type": "string", "enum": []}, {"type": "string"}),
        ({"type": "string", "maxLength": "many"}, {"type": "string"}),
        ({"type": "string", "description": 5}, {"type": "string"}),
        ({"type": "array", "items": [{"type": "int"}]}, {"type": "array", "prefixItems": [{"type": "integer"}]}),
        ({"type": "dict", "properties": None}, {"type": "object", "properties": {}}),
    ],
)
def test_mended_with_a_note(sloppy, standard):
    out, notes = field(sloppy)
    assert out == standard
    assert notes
    assert all(n.startswith("a") for n in notes)
    Draft202012Validator.check_schema(out)
    assert normalise(normalise(sloppy, root=False)[0], root=False) == (normalise(sloppy, root=False)[0], [])


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"type": "string", "format": "date"}}, "required": ["a"]},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"enum": [1, None]}}},
        {"type": "object", "properties": {}, "required": []},
        {"type": "object", "properties": {"type": {"type": "string"}, "required": {"type": "boolean"}}},
        {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
         "properties": {"a": {"type": "array", "items": [{"type": "string"}], "additionalItems": False}}},
        {"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
         "properties": {"a": {}, "b": {"not": {"type": "null"}}}},
        {},
    ],
)  # fmt: skip
def test_standard_schemas_are_left_alone(schema):
    assert normalise(schema) == (schema, [])


def test_whole_parameters():
    assert normalise({"city": {"type": "str"}})[0] == {"type": "object", "properties": {"city": {"type": "string"}}}
    listed = {"type": "object", "properties": [{"name": "a", "type": "int"}], "required": "a"}
    out = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    assert normalise(listed)[0] == out
    # a flag that is itself a property named "required" is none
    assert normalise({"type": "object", "properties": {"a": {"type": "string", "required": False}}})[0] == {
        "type": "object",
        "properties": {"a": {"type": "string"}},
    }


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ([], "top level: a schema must be an object"),
        ({"type": "array", "items": {}}, "top level: arguments must be an object, not 'array'"),
        ({"type": "object", "properties": {"a": {"type": "wibble"}}}, 'a: type "wibble" is unknown'),
        ({"type": "object", "properties": {"a": {"type": {"x": 1}}}}, "a: type must be a name"),
        ({"type": "object", "properties": {"a": {"type": 3}}}, "a: type must be a name"),
        ({"type": "object", "properties": {"a": 3}}, "a: a schema must be an object, not int"),
        ({"type": "object", "properties": ["a"]}, "top level: properties is a list"),
        ({"type": "object", "properties": {"a": {"anyOf": []}}}, "a: anyOf must be a list"),
        ({"type": "object", "properties": {"a": {"$ref": "#/x"}}}, "a: .ref '#/x' leads nowhere"),
    ],
)
def test_hopeless_schemas_name_their_path(schema, message):
    with pytest.raises(HopelessSchema, match=f"^{message}"):
        normalise(schema)


def test_depth_is_bounded():
    schema: dict = {"type": "string"}
    for _ in range(200):
        schema = {"type": "object", "properties": {"a": schema}}
    with pytest.raises(HopelessSchema, match="nested deeper"):
        normalise(schema)
