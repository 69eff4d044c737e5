"""One strict parser of tool calls: policy text in, calls and named errors out. It never raises and never guesses.

Format (Hermes, Qwen): ``<tool_call>\\n{"name": "...", "arguments": {...}}\\n</tool_call>``, any number per turn.
A *block* runs from an opening tag to the next closing tag; it gives calls, or exactly one ``ParseError``.

=====================================================  ============================================================
input                                                  rule
=====================================================  ============================================================
``<think>...</think>`` outside a block                 removed, tags in it do not count; unclosed: the rest is removed
``</think>`` that closes nothing                       plain text
text or fenced JSON outside blocks, ``;`` between      no call, no error; also an invented ``<tool_response>``
closing tag without an opening one                     no error, but ``n_close`` counts it
empty block, ``[]``                                    ``empty``
no closing tag (end of text, or the JSON is complete   ``missing_close``, also when the JSON is complete: a call cut
and another block opens)                               at the length limit is not a call
opening tag inside unfinished content, doubled tag     ``nested_open`` for the outer block, the inner one stands alone
tags inside the strings of a complete JSON value       text of the string, not counted (``<think>`` likewise)
broken JSON: quotes, commas, braces, raw newlines,     ``bad_json``
Python literals, code fences inside the block
two values, or text after the value                    ``trailing_text``
scalar, or a list with something else than objects     ``not_object``
list of call objects                                   accepted, each a call; one bad element: one error, no call
no ``name`` / not a string, blank, over 128 characters ``missing_name`` / ``bad_name``; unknown names parse
``arguments`` missing or null                          ``{}``
``parameters`` for ``arguments``                       accepted; both together: ``bad_arguments``
``arguments`` as a JSON string                         decoded once; no object then: ``bad_arguments``
``arguments`` a list, number, boolean, other string    ``bad_arguments``
any other field in the call object                     ``extra_field``
unicode escapes, escaped NUL                           decoded
lone surrogate, escaped or raw                         ``bad_unicode`` (it could not be encoded again)
NaN, Infinity, 1e999, integers over 300 digits         ``bad_number`` (every accepted number fits a float)
the same key twice in one object                       ``duplicate_key``
nesting over 32 levels                                 ``too_deep``
block over 64 KiB characters                           ``too_long``
more than ``max_calls`` calls and errors               one ``too_many_calls`` for all further blocks
=====================================================  ============================================================

Time is O(len(text) + max_calls * MAX_BLOCK): tags are found by one forward scan, and each of at most ``max_calls``
blocks is decoded at most twice, in a window of ``MAX_BLOCK`` characters.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from slca.rollout.rollout import ParseError, Turn
from slca.tasks.task import Call

MAX_BLOCK = 65_536  #: characters between an opening and a closing tag
MAX_DEPTH = 32  #: levels of objects and arrays in one block; recursive code downstream stays far from its limits
MAX_DIGITS = 300  #: digits of an integer; more would overflow a float (and, from 4,300 on, int() itself)
MAX_NAME = 128  #: characters of a tool name

#: Error code -> the text that goes back to the policy (under 80 characters).
MESSAGES = {
    "empty": "the call block is empty",
    "missing_close": "the call block has no </tool_call>",
    "nested_open": "<tool_call> inside an unfinished call block",
    "bad_json": "the call is not valid JSON",
    "trailing_text": "text after the JSON; write one JSON object per call block",
    "not_object": 'a call must be an object {"name": ..., "arguments": {...}}',
    "missing_name": 'the call has no "name"',
    "bad_name": f'"name" must be a string of 1 to {MAX_NAME} characters',
    "bad_arguments": '"arguments" must be one JSON object',
    "extra_field": 'a call has only "name" and "arguments"',
    "bad_unicode": "lone surrogate in the call",
    "bad_number": "numbers must be finite and of reasonable size",
    "duplicate_key": "the same key occurs twice in one object",
    "too_deep": f"nesting deeper than {MAX_DEPTH} levels",
    "too_long": f"the call block is longer than {MAX_BLOCK} characters",
    "too_many_calls": "too many calls in one turn; the rest was ignored",
}

_TAG = re.compile(r"</?(?:think|tool_call)>")
_CALL_TAG = re.compile(r"</?tool_call>")
_SPACE = re.compile(r"[ \t\n\r]*")
_SURROGATE = re.compile("[\ud800-\udfff]")
_OPEN = "<tool_call>"
_THINK, _THINK_END = "<think>", "</think>"


class _RefusedError(Exception):
    """Carries the code of a ``ParseError``; never leaves this module."""


def parse_turn(text: str, max_calls: int = 20) -> Turn:
    """Parses one assistant turn by the table above.

    Args:
        text: decoded text of the turn, call tags kept, end-of-turn token dropped.
        max_calls: most calls and errors together that a turn may give.

    Returns:
        a ``Turn`` with ``text`` (unchanged), ``calls``, ``errors``, ``n_open``, ``n_close`` and ``n_valid``.

    >>> turn = parse_turn('<tool_call>{"name": "now", "arguments": {}}</tool_call><tool_call>{now}</tool_call>')
    >>> turn.calls, [e.code for e in turn.errors], turn.n_open, turn.n_valid
    ([Call(name='now', arguments={})], ['bad_json'], 2, 1)
    """
    turn, pos, overflow = Turn(text), 0, False
    while tag := _TAG.search(text, pos):
        pos = tag.end()
        if tag[0] == _THINK:
            close = text.find(_THINK_END, pos)
            pos = len(text) if close < 0 else close + len(_THINK_END)
        elif tag[0] == _OPEN:
            turn.n_open += 1
            if not overflow and len(turn.calls) + len(turn.errors) < max_calls:
                pos = _read_block(turn, pos, max_calls)
                overflow = bool(turn.errors) and turn.errors[-1].code == "too_many_calls"
            elif not overflow:
                overflow = True
                turn.errors.append(_error("too_many_calls"))
        elif tag[0] != _THINK_END:
            turn.n_close += 1
    return turn


def valid_blocks(turn: Turn) -> int:
    """Number of call blocks that gave calls: the numerator of the format reward (paper, section 3).

    A turn built by hand, without ``n_valid``, counts one block per call.
    """
    return turn.n_valid or len(turn.calls)


def _read_block(turn: Turn, start: int, max_calls: int) -> int:
    """Reads the block whose content begins at ``start``; returns where the scan goes on."""
    text = turn.text
    value, end, problem = _decode(text[start : start + MAX_BLOCK + 1])
    # Inside a complete object or list, tags are text of its strings; in anything else every tag counts.
    complete = isinstance(value, dict | list)
    tag = _CALL_TAG.search(text, start + end if complete else start)
    closed = tag is not None and tag[0] != _OPEN
    stop = len(text) if tag is None else tag.start()
    try:
        if tag is None or (not closed and complete):
            raise _RefusedError("missing_close")
        if not closed:
            raise _RefusedError("nested_open")
        if stop - start > MAX_BLOCK:
            raise _RefusedError("too_long")
        if not text[start:stop].strip():
            raise _RefusedError("empty")
        if not complete:
            value, end, problem = _decode(text[start:stop])
        if problem:
            raise _RefusedError(problem)
        if text[start + end : stop].strip():
            raise _RefusedError("trailing_text" if complete else "bad_json")
        calls = _calls(value)
        if len(turn.calls) + len(turn.errors) + len(calls) > max_calls:
            raise _RefusedError("too_many_calls")
        turn.calls += calls
        turn.n_valid += 1
    except _RefusedError as refused:
        turn.errors.append(_error(str(refused)))
    if closed:
        turn.n_close += 1
    return tag.end() if tag is not None and closed else stop


def _decode(text: str) -> tuple[Any, int, str | None]:
    """Decodes the JSON value at the start of ``text`` -> (value, end, code of a problem or None).

    A value that is JSON but breaks a rule comes with its end and the problem; without an end it is (None, 0, code).
    """
    problems: list[str] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(items)
        if len(found) < len(items):
            problems.append("duplicate_key")
        return found

    def number(literal: str, kind: type[int | float]) -> int | float:
        if (kind is int and len(literal) > MAX_DIGITS) or not math.isfinite(found := float(literal)):
            problems.append("bad_number")
            return 0
        return int(literal) if kind is int else found

    decoder = json.JSONDecoder(
        object_pairs_hook=pairs,
        parse_int=lambda literal: number(literal, int),
        parse_float=lambda literal: number(literal, float),
        parse_constant=lambda literal: problems.append("bad_number"),
    )
    space = _SPACE.match(text)
    try:
        value, end = decoder.raw_decode(text, space.end() if space else 0)
    except RecursionError:
        return None, 0, "too_deep"
    except ValueError:
        return None, 0, "bad_json"
    return value, end, (problems[0] if problems else _check(value))


def _check(value: Any) -> str | None:
    """Nesting and surrogates of a decoded value, level by level (no recursion); a code or None."""
    level, depth = [value], 0
    while level:
        below: list[Any] = []
        for item in level:
            if isinstance(item, str) and _SURROGATE.search(item):
                return "bad_unicode"
            if isinstance(item, dict):
                below += item.keys()
                below += item.values()
            elif isinstance(item, list):
                below += item
        depth += any(isinstance(item, dict | list) for item in level)
        if depth > MAX_DEPTH:
            return "too_deep"
        level = below
    return None


def _calls(value: Any) -> list[Call]:
    """The calls of a decoded block; raises ``_RefusedError``."""
    if isinstance(value, list):
        if not value:
            raise _RefusedError("empty")
        return [_call(item) for item in value]
    return [_call(value)]


def _call(value: Any) -> Call:
    if not isinstance(value, dict):
        raise _RefusedError("not_object")
    if "name" not in value:
        raise _RefusedError("missing_name")
    name = value["name"]
    if not isinstance(name, str) or not name.strip() or len(name) > MAX_NAME:
        raise _RefusedError("bad_name")
    if set(value) - {"name", "arguments", "parameters"}:
        raise _RefusedError("extra_field")
    if "arguments" in value and "parameters" in value:
        raise _RefusedError("bad_arguments")
    arguments = value.get("arguments", value.get("parameters"))
    if isinstance(arguments, str):
        source = arguments
        arguments, end, problem = _decode(source)
        if problem or source[end:].strip() or arguments is None:
            raise _RefusedError(problem if problem and problem != "bad_json" else "bad_arguments")
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        raise _RefusedError("bad_arguments")
    return Call(name, arguments)


def _error(code: str) -> ParseError:
    return ParseError(code, MESSAGES[code])
