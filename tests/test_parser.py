"""The tool-call parser: every rule of its table, text that broke other parsers, and its cost."""

import json
import re
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slca.rollout import parser
from slca.rollout.parser import MAX_BLOCK, MAX_DEPTH, MAX_DIGITS, MESSAGES, parse_turn, valid_blocks
from slca.rollout.rollout import Turn
from slca.tasks.task import Call

OK = '{"name": "f", "arguments": {"a": 1}}'
CALL = Call("f", {"a": 1})


def value(text: str) -> str:
    """A call whose only argument is this JSON text."""
    return '{"name": "f", "arguments": {"a": ' + text + "}}"


def nested(levels: int) -> str:
    return value("[" * levels + "1" + "]" * levels)


def block(body: str) -> str:
    return f"<tool_call>\n{body}\n</tool_call>"


def summary(text: str) -> tuple:
    turn = parse_turn(text)
    return turn.calls, [e.code for e in turn.errors], turn.n_open, turn.n_close, turn.n_valid


ACCEPTED = {
    "plain": (OK, [CALL]),
    "compact spacing": ('{"name":"f","arguments":{"a":1}}', [CALL]),
    "argument order": ('{"arguments": {"a": 1}, "name": "f"}', [CALL]),
    "parameters": ('{"name": "f", "parameters": {"a": 1}}', [CALL]),
    "arguments as text": (json.dumps({"name": "f", "arguments": '{"a": 1}'}), [CALL]),
    "arguments as padded text": (json.dumps({"name": "f", "arguments": ' {"a": 1}\n'}), [CALL]),
    "no arguments": ('{"name": "f"}', [Call("f", {})]),
    "null arguments": ('{"name": "f", "arguments": null}', [Call("f", {})]),
    "empty arguments": ('{"name": "f", "arguments": {}}', [Call("f", {})]),
    "list": (f'[{OK}, {{"name": "g"}}]', [CALL, Call("g", {})]),
    "unknown name": ('{"name": "no such tool!"}', [Call("no such tool!", {})]),
    "braces and quotes in a string": ('{"name": "f", "arguments": {"a": "} { \\" ]"}}', [Call("f", {"a": '} { " ]'})]),
    "unicode escape": ('{"name": "f", "arguments": {"a": "\\u00e9\\ud83d\\ude00"}}', [Call("f", {"a": "é😀"})]),
    "raw unicode": ('{"name": "f", "arguments": {"ключ": "é😀"}}', [Call("f", {"ключ": "é😀"})]),
    "escaped nul": ('{"name": "f", "arguments": {"a": "\\u0000"}}', [Call("f", {"a": "\0"})]),
    "close tag in a string": ('{"name": "f", "arguments": {"a": "</tool_call>"}}', [Call("f", {"a": "</tool_call>"})]),
    "open tag in a string": ('{"name": "f", "arguments": {"a": "<tool_call>"}}', [Call("f", {"a": "<tool_call>"})]),
    "thought in a string": ('{"name": "f", "arguments": {"a": "<think>x"}}', [Call("f", {"a": "<think>x"})]),
    "types kept": (value('[20.0, true, "1"], "b": 20.0'), [Call("f", {"a": [20.0, True, "1"], "b": 20.0})]),
    "long integer": (value("9" * MAX_DIGITS), [Call("f", {"a": int("9" * MAX_DIGITS)})]),
}

REFUSED = {
    "nothing": ("", "empty"),
    "blank": (" \n\t ", "empty"),
    "empty list": ("[]", "empty"),
    "no JSON": ("get the weather", "bad_json"),
    "single quotes": ("{'name': 'f', 'arguments': {}}", "bad_json"),
    "python literal": ('{"name": "f", "arguments": {"a": True}}', "bad_json"),
    "trailing comma": ('{"name": "f", "arguments": {"a": 1,}}', "bad_json"),
    "closing brace missing": ('{"name": "f", "arguments": {"a": 1}', "bad_json"),
    "outer braces missing": ('"name": "f", "arguments": {"a": 1}', "bad_json"),
    "quote missing": ('{"name": "f, "arguments": {}}', "bad_json"),
    "raw newline in a string": ('{"name": "f", "arguments": {"a": "x\ny"}}', "bad_json"),
    "raw nul in a string": ('{"name": "f", "arguments": {"a": "\0"}}', "bad_json"),
    "code fence": (f"```json\n{OK}\n```", "bad_json"),
    "python call": ("f(a=1)", "bad_json"),
    "byte order mark": ("\ufeff" + OK, "bad_json"),
    "two objects": (f"{OK}\n{OK}", "trailing_text"),
    "two objects with semicolon": (f"{OK};{OK}", "trailing_text"),
    "brace too many": (OK + "}", "trailing_text"),
    "prose after": (OK + " done", "trailing_text"),
    "number": ("5", "not_object"),
    "string": ('"f"', "not_object"),
    "null": ("null", "not_object"),
    "list of names": ('["f", "g"]', "not_object"),
    "one bad element": (f"[{OK}, 1]", "not_object"),
    "empty object": ("{}", "missing_name"),
    "name inside function": ('{"function": {"name": "f", "arguments": {}}}', "missing_name"),
    "name a number": ('{"name": 1, "arguments": {}}', "bad_name"),
    "name null": ('{"name": null, "arguments": {}}', "bad_name"),
    "name blank": ('{"name": " ", "arguments": {}}', "bad_name"),
    "name long": (json.dumps({"name": "f" * 129}), "bad_name"),
    "arguments a word": ('{"name": "f", "arguments": "Paris"}', "bad_arguments"),
    "arguments empty text": ('{"name": "f", "arguments": ""}', "bad_arguments"),
    "arguments null as text": ('{"name": "f", "arguments": "null"}', "bad_arguments"),
    "arguments text and more": ('{"name": "f", "arguments": "{} {}"}', "bad_arguments"),
    "arguments encoded twice": (json.dumps({"name": "f", "arguments": json.dumps('{"a": 1}')}), "bad_arguments"),
    "arguments a list": ('{"name": "f", "arguments": [1]}', "bad_arguments"),
    "arguments a number": ('{"name": "f", "arguments": 1}', "bad_arguments"),
    "arguments false": ('{"name": "f", "arguments": false}', "bad_arguments"),
    "both kinds of arguments": ('{"name": "f", "arguments": {}, "parameters": {}}', "bad_arguments"),
    "arguments not nested": ('{"name": "f", "a": 1}', "extra_field"),
    "lone surrogate": ('{"name": "f", "arguments": {"a": "\\ud800"}}', "bad_unicode"),
    "raw surrogate": ('{"name": "f", "arguments": {"a": "\udc00"}}', "bad_unicode"),
    "surrogate key": ('{"name": "f", "arguments": {"\\ud800": 1}}', "bad_unicode"),
    "surrogate in text arguments": (json.dumps({"name": "f", "arguments": '{"a": "\\ud800"}'}), "bad_unicode"),
    "NaN": ('{"name": "f", "arguments": {"a": NaN}}', "bad_number"),
    "Infinity": ('{"name": "f", "arguments": {"a": -Infinity}}', "bad_number"),
    "float overflow": ('{"name": "f", "arguments": {"a": 1e999}}', "bad_number"),
    "number in text arguments": (json.dumps({"name": "f", "arguments": '{"a": NaN}'}), "bad_number"),
    "integer too long": (value("9" * (MAX_DIGITS + 1)), "bad_number"),
    "integer beyond int()": (value("9" * 10_000), "bad_number"),
    "duplicate argument": ('{"name": "f", "arguments": {"a": 1, "a": 1}}', "duplicate_key"),
    "duplicate name": ('{"name": "f", "name": "g"}', "duplicate_key"),
    "too deep": (nested(MAX_DEPTH - 1), "too_deep"),
    "beyond recursion": (nested(20_000), "too_deep"),
    "unclosed beyond recursion": ("[" * 30_000, "too_deep"),
    "too long": (value('"' + "x" * MAX_BLOCK + '"'), "too_long"),
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_accepted(case):
    body, calls = ACCEPTED[case]
    for text in (block(body), f"<tool_call>{body}</tool_call>", f"I look. {block(body)}<|im_end|>"):
        assert summary(text) == (calls, [], 1, 1, 1)
    types = [[type(v) for v in c.arguments.values()] for c in parse_turn(block(body)).calls]
    assert types == [[type(v) for v in c.arguments.values()] for c in calls]


@pytest.mark.parametrize("case", REFUSED)
def test_refused_and_the_next_block_still_parses(case):
    body, code = REFUSED[case]
    assert summary(block(body)) == ([], [code], 1, 1, 0)
    assert summary(block(body) + "\n" + block(OK)) == ([CALL], [code], 2, 2, 1)


def test_the_table_of_cases_covers_every_code():
    elsewhere = {"missing_close", "nested_open", "too_many_calls"}
    assert {code for _, code in REFUSED.values()} | elsewhere == set(MESSAGES)
    assert all(0 < len(message) < 80 for message in MESSAGES.values())
    assert all(f"``{code}``" in parser.__doc__ for code in MESSAGES)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ([], [], 0, 0, 0)),
        ("It is 20 degrees.", ([], [], 0, 0, 0)),
        (OK, ([], [], 0, 0, 0)),
        (f"```json\n{OK}\n```", ([], [], 0, 0, 0)),
        (f"<TOOL_CALL>{OK}</TOOL_CALL>", ([], [], 0, 0, 0)),
        (f"{OK}</tool_call>", ([], [], 0, 1, 0)),
        (f"<tool_call>{OK}", ([], ["missing_close"], 1, 0, 0)),
        ('<tool_call>{"name": "f", "argum', ([], ["missing_close"], 1, 0, 0)),
        ('<tool_call>{"name": "f", "arguments": {"a": "</tool_call', ([], ["missing_close"], 1, 0, 0)),
        ("<tool_call>", ([], ["missing_close"], 1, 0, 0)),
        (f"<tool_call>{OK}\n{block(OK)}", ([CALL], ["missing_close"], 2, 1, 1)),
        (f"<tool_call><tool_call>{OK}</tool_call>", ([CALL], ["nested_open"], 2, 1, 1)),
        (f"<tool_call>{block(OK)}</tool_call>", ([CALL], ["nested_open"], 2, 2, 1)),
        (f'<tool_call>{{"name": "f", <tool_call>{OK}</tool_call>', ([CALL], ["nested_open"], 2, 1, 1)),
        (block(OK) + block(OK), ([CALL, CALL], [], 2, 2, 2)),
        (f"{block(OK)};\n{block(OK)} That is all.", ([CALL, CALL], [], 2, 2, 2)),
        (f"{block(OK)}\n<tool_response>\n{{}}\n</tool_response>", ([CALL], [], 1, 1, 1)),
        (f"{block(OK)}</tool_call>", ([CALL], [], 1, 2, 1)),
        (block(f"[{OK}, {OK}]"), ([CALL, CALL], [], 1, 1, 1)),
        # A missing quote must not swallow the block that follows.
        (block('{"name": "f}') + block('{"name": "g"}'), ([Call("g", {})], ["bad_json"], 2, 2, 1)),
    ],
)
def test_tags(text, expected):
    assert summary(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"<think>{block(OK)}</think>It is 20.", ([], [], 0, 0, 0)),
        (f"<think>a <tool_call> b</think>{block(OK)}", ([CALL], [], 1, 1, 1)),
        (f"{block(OK)}<think>{block(OK)}", ([CALL], [], 1, 1, 1)),
        (f"a</think>{block(OK)}", ([CALL], [], 1, 1, 1)),
        (f"<think>a<think>b</think>{block(OK)}<think></think>", ([CALL], [], 1, 1, 1)),
    ],
)
def test_thinking_is_removed_first(text, expected):
    assert summary(text) == expected


def test_text_is_kept_unchanged_and_responses_are_left_to_the_loop():
    text = f"<think>x</think>\r\n{block(OK)} \udc00"
    assert parse_turn(text).text == text
    assert parse_turn(text).responses == []


def test_call_limit_gives_one_error_and_keeps_counting_tags():
    turn = parse_turn(block(OK) * 25)
    assert len(turn.calls) == 20 and turn.n_valid == 20 and turn.n_open == turn.n_close == 25
    assert [e.code for e in turn.errors] == ["too_many_calls"]
    assert len(parse_turn(block(OK) * 20).calls) == 20 and not parse_turn(block(OK) * 20).errors
    mixed = parse_turn(block("x") + block(OK) * 3, max_calls=2)
    assert len(mixed.calls) == 1 and [e.code for e in mixed.errors] == ["bad_json", "too_many_calls"]
    full = parse_turn(block(OK) * 2 + block("x") * 3, max_calls=2)
    assert [e.code for e in full.errors] == ["too_many_calls"]
    many = parse_turn(block(OK) + block(f"[{OK}, {OK}]") + block(OK), max_calls=2)
    assert many.calls == [CALL] and [e.code for e in many.errors] == ["too_many_calls"] and many.n_open == 3


def test_valid_blocks_counts_blocks_not_calls():
    assert valid_blocks(parse_turn(block(f"[{OK}, {OK}]") + block(OK) + block("x"))) == 2
    assert valid_blocks(Turn("", calls=[CALL, CALL], n_open=2, n_close=2)) == 2


def test_result_does_not_depend_on_the_depth_of_the_stack():
    text = block(nested(MAX_DEPTH - 2))
    assert len(parse_turn(text).calls) == 1

    def deeper(levels: int) -> Turn:
        return deeper(levels - 1) if levels else parse_turn(text)

    depth, frame = 0, sys._getframe()
    while frame := frame.f_back:
        depth += 1
    assert deeper(sys.getrecursionlimit() - depth - 150) == parse_turn(text)


TAGS = ("<tool_call>", "</tool_call>", "<think>", "</think>", "<tool_call")
JSON_BITS = (OK, *'[]{}"\\,:; \n', '"name"', '"arguments"', "NaN", "1e999", "\ud800", "\\ud800", "\0", "null", "9" * 50)
PIECES = st.sampled_from([*TAGS, *JSON_BITS])
MESSY = st.lists(PIECES | st.text(st.characters(exclude_categories=()), max_size=5), max_size=40).map("".join)


@settings(max_examples=400, deadline=None)
@given(MESSY)
def test_never_raises_and_every_block_is_accounted_for(text):
    turn = parse_turn(text)
    assert turn.n_valid <= len(turn.calls) and turn.n_valid <= min(turn.n_open, turn.n_close)
    if not any(e.code == "too_many_calls" for e in turn.errors):
        assert turn.n_valid + len(turn.errors) == turn.n_open
    assert all(e.message == MESSAGES[e.code] for e in turn.errors)
    for call in turn.calls:
        json.dumps(call.to_json(), ensure_ascii=False, allow_nan=False).encode()


@settings(max_examples=100, deadline=None)
@given(st.text(st.characters(exclude_categories=())))
def test_text_without_a_tag_is_a_reply(text):
    if "<tool_call>" not in text:
        assert parse_turn(text).calls == [] and parse_turn(text).errors == []


GARBAGE = {
    "opening tags": lambda n: "<tool_call>" * n,
    "closing tags": lambda n: "</tool_call>" * n,
    "thoughts": lambda n: "<think>" * n,
    "half tags": lambda n: "<tool_call" * n,
    "open strings": lambda n: '<tool_call>{"a":"' * n,
    "swallowing strings": lambda n: '<tool_call>{"a":"",' * n,
    "brackets": lambda n: "<tool_call>" + "[" * (11 * n) + "</tool_call>",
    "digits": lambda n: "<tool_call>" + "9" * (11 * n) + "</tool_call>",
    "backslashes": lambda n: '<tool_call>["' + "\\" * (11 * n) + "</tool_call>",
    "spaces": lambda n: "<tool_call>" + " " * (11 * n) + "x</tool_call>",
    "bad calls": lambda n: "<tool_call>{}</tool_call>" * n,
    "tags in one string": lambda n: '<tool_call>{"name": "' + "<tool_call>" * n + '"}</tool_call>',
}


class Spy:
    """A compiled pattern that counts the characters its searches read."""

    def __init__(self, pattern: re.Pattern):
        self.pattern, self.read = pattern, 0

    def search(self, text, pos=0):
        found = self.pattern.search(text, pos)
        self.read += (found.end() if found else len(text)) - pos
        return found


@pytest.mark.parametrize("kind", GARBAGE)
def test_cost_is_linear_in_the_characters_read(kind, monkeypatch):
    text = GARBAGE[kind](40_000)
    tags, call_tags, decoded = Spy(parser._TAG), Spy(parser._CALL_TAG), []
    decode = parser._decode
    monkeypatch.setattr(parser, "_TAG", tags)
    monkeypatch.setattr(parser, "_CALL_TAG", call_tags)
    monkeypatch.setattr(parser, "_decode", lambda t: (decoded.append(len(t)), decode(t))[1])
    parse_turn(text)
    assert tags.read + call_tags.read <= 2 * len(text)
    assert len(decoded) <= 2 * 20 and all(n <= MAX_BLOCK + 1 for n in decoded)


@pytest.mark.parametrize("kind", GARBAGE)
def test_a_megabyte_of_garbage_takes_no_time_worth_mentioning(kind):
    started = time.perf_counter()
    turn = parse_turn(GARBAGE[kind](95_000))
    assert time.perf_counter() - started < 5
    assert not turn.calls
