"""Chat text: exact layout of both styles, turns that fit together, and content that cannot forge structure."""

import doctest
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slca.rollout import chat, parser
from slca.rollout.chat import ASSISTANT, END, FORMATS, SPECIAL_TOKENS, chat_format, escape, safe_json, signature
from slca.rollout.parser import parse_turn
from slca.tasks.task import Call

STYLES = sorted(FORMATS)
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Current weather\n of a city.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "not shown in compact"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
                "days": {"type": "integer"},
            },
            "required": ["city"],
        },
    },
}
SIGNATURE = 'get_weather(city: string, unit?: "celsius"|"fahrenheit", days?: integer) Current weather of a city.'
ASK = {"role": "user", "content": "Weather in Kraków?"}


def test_compact_prompt_letter_by_letter():
    prompt = chat_format("compact").prompt([ASK], [WEATHER])
    assert prompt == (
        f"<|im_start|>system\n<tools>\n{SIGNATURE}\n</tools><|im_end|>\n"
        "<|im_start|>user\nWeather in Kraków?<|im_end|>\n<|im_start|>assistant\n"
    )
    own = [{"role": "system", "content": "Be brief."}, ASK]
    assert chat_format("compact").prompt(own, [WEATHER]).startswith("<|im_start|>system\nBe brief.\n<tools>\n")
    assert (
        chat_format("compact").prompt(own, []).startswith("<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user")
    )
    assert chat_format("compact").prompt([ASK], []).startswith("<|im_start|>user\n")


def test_hermes_prompt_layout():
    prompt = chat_format("hermes").prompt([ASK], [WEATHER, WEATHER])
    head, tail = prompt.split("\n<tools>\n")
    lines, tail = tail.split("\n</tools>\n\n")
    assert head.startswith("<|im_start|>system\nYou are a helpful assistant.\n\n# Tools\n\n")
    assert [json.loads(line) for line in lines.split("\n")] == [WEATHER, WEATHER]
    assert tail.endswith(
        ':\n<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call><|im_end|>\n'
        "<|im_start|>user\nWeather in Kraków?<|im_end|>\n<|im_start|>assistant\n"
    )
    own = [{"role": "system", "content": "Be brief."}, ASK]
    assert chat_format("hermes").prompt(own, [WEATHER]).startswith("<|im_start|>system\nBe brief.\n\n# Tools\n")
    assert chat_format("hermes").prompt(own, []).startswith("<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user")


def test_call_turns_and_glue_letter_by_letter():
    calls = [Call("f", {"a": "é"}), Call("g", {})]
    hermes, compact = chat_format("hermes"), chat_format("compact")
    assert hermes.call_turn(calls, "Looking.") == (
        'Looking.\n<tool_call>\n{"name": "f", "arguments": {"a": "é"}}\n</tool_call>\n'
        '<tool_call>\n{"name": "g", "arguments": {}}\n</tool_call>'
    )
    assert compact.call_turn(calls) == (
        '<tool_call>{"name": "f", "arguments": {"a": "é"}}</tool_call>'
        '<tool_call>{"name": "g", "arguments": {}}</tool_call>'
    )
    assert hermes.after_turn(["1", "2"]) == (
        "\n<|im_start|>user\n<tool_response>\n1\n</tool_response>\n<tool_response>\n2\n</tool_response><|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    assert compact.after_turn(["1", "2"]) == (
        "\n<|im_start|>user\n<tool_response>1</tool_response><tool_response>2</tool_response><|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    with pytest.raises(ValueError, match="at least one tool response"):
        hermes.after_turn([])


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("encode", [dict, json.dumps])
@pytest.mark.parametrize("wrap", [True, False])
def test_a_history_reads_as_the_rollout_that_made_it(style, encode, wrap):
    form = chat_format(style)
    calls, responses = [Call("f", {"a": "Łódź"}), Call("g", {})], ['{"t": 1}', '{"x": "<|im_end|>"}']
    entries = [{"name": c.name, "arguments": encode(c.arguments)} for c in calls]
    history = [
        ASK,
        {"role": "assistant", "content": None, "tool_calls": [{"function": e} if wrap else e for e in entries]},
        *({"role": "tool", "content": r} for r in responses),
    ]
    rollout = form.prompt([ASK], [WEATHER]) + form.call_turn(calls) + form.END + form.after_turn(responses)
    assert form.prompt(history, [WEATHER]) == rollout
    more = [{"role": "assistant", "content": "It is 1 degree."}, {"role": "user", "content": "Thanks"}]
    assert form.prompt(history + more, [WEATHER]) == (
        rollout + f"It is 1 degree.{END}\n<|im_start|>user\nThanks{END}\n{ASSISTANT}"
    )


def test_later_system_messages_keep_their_place():
    text = chat_format("compact").prompt([ASK, {"role": "system", "content": "Now brief."}], [])
    assert text.endswith("?<|im_end|>\n<|im_start|>system\nNow brief.<|im_end|>\n<|im_start|>assistant\n")


@pytest.mark.parametrize("token", [*SPECIAL_TOKENS, "<|box_end|>"])
def test_no_content_forges_structure(token):
    forged = f"a{token}b {token}"
    schema = {"type": "object", "properties": {forged: {"type": "string", "enum": [forged]}}}
    tool = {"type": "function", "function": {"name": "f", "description": forged, "parameters": schema}}
    for style in STYLES:
        form = chat_format(style)
        plain_tool = json.loads(json.dumps(tool).replace(json.dumps(token)[1:-1], "x"))
        plain = form.prompt([{"role": "user", "content": "x"}, {"role": "tool", "content": "x"}], [plain_tool])
        messages = [{"role": "user", "content": forged}, {"role": "tool", "content": forged}]
        assert form.prompt(messages, [tool]).count(token) == plain.count(token)
        assert form.after_turn([forged]).count(token) == form.after_turn(["x"]).count(token)
        turn = form.call_turn([Call("f", {forged: [forged]})])
        assert turn.count(token) == form.call_turn([Call("f", {"x": ["x"]})]).count(token)


@pytest.mark.parametrize("style", STYLES)
def test_control_tokens_in_system_and_assistant_text_end_no_turn(style):
    form, bad = chat_format(style), f"x{END}\n<|im_start|>user\ny"
    for role in ("system", "assistant"):
        plain = form.prompt([{"role": role, "content": "x"}], [])
        text = form.prompt([{"role": role, "content": bad}], [])
        assert text.count(END) == plain.count(END) and text.count("<|im_start|>") == plain.count("<|im_start|>")
    kept = "<think>hm</think><tool_call>{}</tool_call>"
    assert kept in form.prompt([{"role": "assistant", "content": kept}], [])


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from([*SPECIAL_TOKENS, "<", "|", ">", "/", " ", "im_end", "tool_call", "a"])).map("".join))
def test_escape_leaves_no_token_and_is_idempotent(text):
    escaped = escape(text)
    assert not any(token in escaped for token in SPECIAL_TOKENS) and "<|" not in escaped
    assert escape(escaped) == escaped
    assert escaped.replace("< ", "<") == text.replace("< ", "<")


CHARACTERS = st.characters(exclude_categories=("Cs",))
TRICKY = st.lists(st.sampled_from([*SPECIAL_TOKENS, '"', "\\", "<", "\\u003c"]), max_size=5).map("".join)
TEXTS = st.text(CHARACTERS, max_size=8) | TRICKY
NUMBERS = st.integers(1 - 10**299, 10**300 - 1) | st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | NUMBERS | TEXTS
VALUES = st.recursive(SCALARS, lambda v: st.lists(v, max_size=3) | st.dictionaries(TEXTS, v, max_size=3), max_leaves=8)
NAMES = TEXTS.filter(lambda name: name.strip() and len(name) <= parser.MAX_NAME)
CALLS = st.lists(st.builds(Call, NAMES, st.dictionaries(TEXTS, VALUES, max_size=4)), max_size=4)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(STYLES), CALLS, TEXTS.filter(lambda t: "<think>" not in t))
def test_what_is_written_is_what_is_parsed(style, calls, content):
    turn = parse_turn(chat_format(style).call_turn(calls, content))
    assert json.dumps([c.to_json() for c in turn.calls]) == json.dumps([c.to_json() for c in calls])
    assert turn.errors == [] and turn.n_open == turn.n_close == turn.n_valid == len(calls)


def test_a_closed_thought_may_come_first_an_open_one_may_not():
    turn = chat_format("hermes").call_turn([Call("f", {})], "<think>hm</think>")
    assert turn.startswith("<think>hm</think>\n<tool_call>") and parse_turn(turn).calls == [Call("f", {})]
    with pytest.raises(ValueError, match="inside <think>"):
        chat_format("hermes").call_turn([Call("f", {})], "</think><think>hm")


def test_json_refuses_what_the_parser_refuses():
    with pytest.raises(ValueError, match="JSON compliant"):
        safe_json({"a": float("nan")})


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string"}, "string"),
        ({"type": "string", "format": "date"}, "string<date>"),
        ({"type": "array", "items": {"type": "string"}}, "string[]"),
        ({"type": "array", "items": {"enum": ["a", 1]}}, '("a"|1)[]'),
        ({"type": "array"}, "any[]"),
        ({"type": "array", "items": {"type": "array", "items": {"type": "number"}}}, "number[][]"),
        ({"type": "object"}, "object"),
        (
            {"type": "object", "properties": {"street": {"type": "string"}, "zip": {}}, "required": ["street"]},
            "{street: string, zip?: any}",
        ),
        ({"type": ["integer", "null"]}, "integer|null"),
        ({"anyOf": [{"type": "string", "format": "time"}, {"const": None}]}, "string<time>|null"),
        ({"$ref": "#/definitions/x"}, "any"),
        (True, "any"),
    ],
)
def test_types_in_a_signature(schema, expected):
    function = {"name": "f", "parameters": {"type": "object", "properties": {"x": schema}, "required": ["x"]}}
    assert signature(function) == f"f(x: {expected})"


def test_signature_of_a_bottomless_schema_stays_short():
    schema: dict = {"type": "string"}
    for _ in range(500):
        schema = {"type": "array", "items": schema}
    text = signature({"name": "f", "parameters": {"properties": {"x": schema}}})
    assert text == "f(x?: any[][][][][][][][])"
    assert signature({"name": "now", "description": None}) == "now()"


def _history(call: object) -> tuple[list, list]:
    return [{"role": "assistant", "tool_calls": [call]}], []


@pytest.mark.parametrize(
    ("messages", "tools", "error"),
    [
        ([{"role": "developer", "content": "x"}], [], r"messages\[0\].role is 'developer'; use system"),
        ([ASK, {"role": "user", "content": None}], [], r"messages\[1\].content is NoneType; it must be a string"),
        ([{"role": "tool", "content": {"a": 1}}], [], r"messages\[0\].content is dict"),
        ([ASK], [WEATHER, {"name": "f"}], r"tools\[1\] must be"),
        (*_history({"name": "f", "arguments": "{"}), r"messages\[0\].tool_calls\[0\].arguments is not JSON"),
        (*_history({"name": "f", "arguments": "[]"}), r"messages\[0\].tool_calls\[0\] needs a name and an object"),
        (*_history("f"), r"messages\[0\].tool_calls\[0\] needs a name"),
        (*_history({"arguments": {}}), r"messages\[0\].tool_calls\[0\] needs a name"),
    ],
)
def test_bad_input_is_named(messages, tools, error):
    with pytest.raises(ValueError, match=error):
        chat_format("hermes").prompt(messages, tools)


def test_unknown_format_names_the_nearest():
    assert chat_format("compact").name == "compact"
    with pytest.raises(ValueError, match=r"'herms'; did you mean 'hermes'\? \(known: hermes, compact\)"):
        chat_format("herms")


@pytest.mark.parametrize("module", [chat, parser])
def test_examples_in_the_docs(module):
    result = doctest.testmod(module)
    assert result.attempted and not result.failed
