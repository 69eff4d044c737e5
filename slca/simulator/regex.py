"""A text that matches a regular expression, chosen by seed: for ``pattern`` in response schemas.

Covers what patterns of JSON Schemas are made of: literals, classes, repeats, groups, alternatives, anchors. What it
makes is checked against the expression by the caller; look-around and back-references may fail that check.
"""

from __future__ import annotations

import re._constants as c  # type: ignore[import-not-found, unused-ignore]
import re._parser as parser  # type: ignore[import-not-found, unused-ignore]
from collections.abc import Callable
from typing import Any

#: Draws a number in [0, n).
Draw = Callable[[int], int]

_CATEGORIES = {
    c.CATEGORY_DIGIT: "0123456789",
    c.CATEGORY_WORD: "abcdefghijklmnopqrstuvwxyz0123456789_",
    c.CATEGORY_SPACE: " ",
    c.CATEGORY_NOT_DIGIT: "abcdefghijklmnopqrstuvwxyz",
    c.CATEGORY_NOT_WORD: "-. ",
    c.CATEGORY_NOT_SPACE: "abcdefghijklmnopqrstuvwxyz0123456789",
}
_ANY = "abcdefghijklmnopqrstuvwxyz0123456789"
_EXTRA = 3  # repeats beyond the least that open-ended ones take
_LONGEST = 200


def text_of(pattern: str, draw: Draw) -> str | None:
    """A text that (most likely) matches ``pattern``; None when Python cannot read the pattern."""
    try:
        return _sequence(parser.parse(pattern), draw)[:_LONGEST]
    except (re_error, RecursionError, OverflowError, _Unable):
        return None


re_error = parser.error if hasattr(parser, "error") else Exception


class _Unable(Exception):
    """A part that no text is made for."""


def _sequence(items: Any, draw: Draw) -> str:
    return "".join(_one(op, value, draw) for op, value in items)


def _one(op: Any, value: Any, draw: Draw) -> str:
    if op is c.LITERAL:
        return chr(value)
    if op is c.NOT_LITERAL:
        return next(ch for ch in _ANY if ord(ch) != value)
    if op is c.ANY:
        return _ANY[draw(len(_ANY))]
    if op is c.IN:
        return _class(value, draw)
    if op in (c.MAX_REPEAT, c.MIN_REPEAT, getattr(c, "POSSESSIVE_REPEAT", None)):
        least, most, inner = value
        most = min(int(most), int(least) + _EXTRA)
        times = min(int(least) + draw(most - int(least) + 1), _LONGEST)
        return "".join(_sequence(inner, draw) for _ in range(times))
    if op is c.SUBPATTERN:
        return _sequence(value[-1], draw)
    if op is c.BRANCH:
        return _sequence(value[1][draw(len(value[1]))], draw)
    if op in (c.AT, c.ASSERT_NOT):
        return ""
    if op is c.CATEGORY:
        return _CATEGORIES[value][draw(len(_CATEGORIES[value]))]
    raise _Unable(str(op))


def _class(items: Any, draw: Draw) -> str:
    """One character of a class such as ``[a-z0-9_]`` or ``[^x]``."""
    negated = items[0][0] is c.NEGATE
    if negated:
        banned = {ch for ch in map(chr, range(32, 127)) if any(_is_in(ch, i) for i in items[1:])}
        allowed = [ch for ch in (*_ANY, *map(chr, range(32, 127))) if ch not in banned]
        allowed = [ch for ch in allowed if ch in _ANY] or allowed
        if not allowed:
            raise _Unable("class")
        return allowed[draw(len(allowed))]
    op, value = items[draw(len(items))]
    if op is c.LITERAL:
        return chr(value)
    if op is c.RANGE:
        return chr(value[0] + draw(value[1] - value[0] + 1))
    if op is c.CATEGORY:
        return _CATEGORIES[value][draw(len(_CATEGORIES[value]))]
    raise _Unable(str(op))


def _is_in(ch: str, item: Any) -> bool:
    op, value = item
    if op is c.LITERAL:
        return ord(ch) == value
    if op is c.RANGE:
        return bool(value[0] <= ord(ch) <= value[1])
    return op is c.CATEGORY and ch in _CATEGORIES.get(value, "")
