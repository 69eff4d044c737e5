"""JSON values that come from a model: one text per value, and what no tool can be asked to take."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

MAX_DEPTH = 64
MAX_INT_BITS = 1024


class _Raw(str):
    """Text that ``canonical`` has already encoded."""

    __slots__ = ()


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
        elif isinstance(item, list):
            out.append("[")
            stack.append(_Raw("]"))
            for n in range(len(item) - 1, -1, -1):
                stack.append(item[n])
                if n:
                    stack.append(_Raw(","))
        else:
            number = plain_number(item)
            too_long = isinstance(number, int) and number.bit_length() > MAX_INT_BITS
            out.append(hex(number) if too_long else json.dumps(number))
    return "".join(out)


def plain_number(value: Any) -> Any:
    """An integral float as an int, everything else as it is."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def shown(text: Any, limit: int = 32) -> str:
    """``text`` fit for an error message: valid Unicode, one line, at most ``limit`` characters."""
    clean = " ".join(str(text)[: 4 * limit].encode("utf-8", "replace").decode("utf-8").split())
    return clean if len(clean) <= limit else clean[: limit - 3] + "..."


def dotted(parts: Iterable[Any]) -> str:
    """The parts of a path, joined by dots and fit for an error message."""
    return ".".join(shown(p) for p in parts)


def is_text(text: str) -> bool:
    """Can ``text`` be written as UTF-8 (no lone surrogates)?"""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def refusal(arguments: dict[str, Any]) -> tuple[str, str] | None:
    """(path, message) of the first value that no schema may allow, for it has no sound JSON text; None without one.

    These are NaN, infinities, integers beyond 1024 bits, lone surrogates, and nesting beyond 64.
    """
    stack: list[tuple[Any, tuple[Any, ...]]] = [(arguments, ())]
    while stack:
        value, path = stack.pop()
        problem = None
        if isinstance(value, (dict, list)):
            if len(path) >= MAX_DEPTH:
                return dotted(path[:1]), f"{dotted(path[:1])} is nested too deeply"
            if isinstance(value, dict):
                if not all(map(is_text, value)):
                    problem = "has a name that is not valid text"
                stack.extend((v, (*path, k)) for k, v in reversed(value.items()))
            else:
                stack.extend((v, (*path, n)) for n, v in reversed(list(enumerate(value))))
        elif isinstance(value, float) and not math.isfinite(value):
            problem = "must be a finite number"
        elif isinstance(value, int) and value.bit_length() > MAX_INT_BITS:
            problem = "is too large a number"
        elif isinstance(value, str) and not is_text(value):
            problem = "is not valid Unicode text"
        if problem:
            return dotted(path), f"{dotted(path) or 'arguments'} {problem}"
    return None
