"""Recorded calls: read from JSONL or message histories, replayed by canonical arguments, and held out to be compared.

A line of a recording is ``{"tool": name, "arguments": {...}, "response": JSON value or text}``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slca.simulator.cache import key_of
from slca.simulator.jsonvalue import canonical, refusal, shown


@dataclass(frozen=True)
class Recorded:
    """One call and its answer, a JSON value (a text that is no JSON stays a text)."""

    tool: str
    arguments: dict[str, Any]
    response: Any


class Recordings:
    """Recorded answers by call. Of two answers to one call the first counts.

    Args:
        calls: the recorded calls.
        held_out: share of the calls that is not replayed but kept in ``held_out``, chosen by the call itself.
    """

    def __init__(self, calls: Iterable[Recorded], held_out: float = 0.0) -> None:
        self.held_out: list[Recorded] = []
        self._answers: dict[tuple[str, str], Recorded] = {}
        self._by_tool: dict[str, list[Recorded]] = {}
        seen: set[tuple[str, str]] = set()
        for call in calls:
            key = (call.tool, canonical(call.arguments))
            if key in seen:
                continue
            seen.add(key)
            if int.from_bytes(key_of("held out", *key)[:4], "big") < held_out * 2**32:
                self.held_out.append(call)
            else:
                self._answers[key] = call
                self._by_tool.setdefault(call.tool, []).append(call)

    @classmethod
    def load(cls, path: str | Path, held_out: float = 0.0) -> Recordings:
        """Recordings of a JSONL file.

        Raises:
            ValueError: no such file, or a line that is none; names file, line and field.
        """
        return cls(read_recordings(path), held_out)

    def get(self, tool: str, arguments: dict[str, Any]) -> Recorded | None:
        return self._answers.get((tool, canonical(arguments)))

    def of_tool(self, tool: str) -> list[Recorded]:
        """What may be replayed of this tool."""
        return self._by_tool.get(tool, [])

    def __len__(self) -> int:
        return len(self._answers)


def read_recordings(path: str | Path) -> Iterator[Recorded]:
    """See ``Recordings.load``."""
    try:
        with open(path, encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield _line(line, f"{path}, line {number}")
    except (OSError, UnicodeDecodeError) as err:
        raise ValueError(f"{path}: cannot read the recordings ({err})") from err


def _line(line: str, place: str) -> Recorded:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as err:
        raise ValueError(f"{place}: not JSON ({err})") from err
    if not isinstance(row, dict):
        raise ValueError(f"{place}: must be an object with tool, arguments and response")
    name, arguments = row.get("tool"), row.get("arguments")
    if not isinstance(name, str) or not name:
        raise ValueError(f'{place}: "tool" must be the name of a tool, not {shown(name)}')
    if not isinstance(arguments, dict) or refusal(arguments):
        raise ValueError(f'{place}: "arguments" must be a JSON object')
    if "response" not in row or refusal({"response": row["response"]}):
        raise ValueError(f'{place}: "response" must be a JSON value')
    return Recorded(name, arguments, row["response"])


def from_messages(messages: Iterable[dict[str, Any]]) -> Iterator[Recorded]:
    """The calls of a chat in OpenAI's form that have an answer: assistant ``tool_calls`` and ``tool`` messages.

    Answers belong to calls by ``tool_call_id``, else in order. What is not well formed is passed over.
    """
    waiting: list[tuple[Any, str, dict[str, Any]]] = []
    for message in messages:
        if not isinstance(message, dict):
            continue
        if message.get("role") == "assistant":
            calls = message.get("tool_calls")
            waiting = [c for c in map(_call, calls if isinstance(calls, list) else []) if c is not None]
        elif message.get("role") == "tool" and waiting:
            own = next((c for c in waiting if c[0] is not None and c[0] == message.get("tool_call_id")), waiting[0])
            waiting.remove(own)
            value = _value(message.get("content"))
            if refusal({"arguments": own[2], "response": value}) is None:
                yield Recorded(own[1], own[2], value)


def _call(call: Any) -> tuple[Any, str, dict[str, Any]] | None:
    function = call.get("function", call) if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        return None
    arguments = _value(function.get("arguments"))
    return (call.get("id"), function["name"], arguments) if isinstance(arguments, dict) else None


def _value(text: Any) -> Any:
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def agreement(answer: Any, recorded: Any) -> tuple[float, float]:
    """(field overlap, type agreement) of an answer with the recorded one, each in [0, 1] (ours).

    Fields are the dotted paths of all leaves, list items under one name. Overlap is the Jaccard index of both sets of
    paths; type agreement is the share of common paths whose JSON types are the same, 0 where no path is common.

    >>> agreement({"a": 1, "b": ["x"]}, {"a": "1", "b": ["y", "z"], "c": None})
    (0.6666666666666666, 0.5)
    """
    ours, theirs = dict(_leaves(answer, "")), dict(_leaves(recorded, ""))
    common = ours.keys() & theirs.keys()
    overlap = len(common) / len(ours.keys() | theirs.keys()) if ours or theirs else 1.0
    return overlap, sum(ours[k] == theirs[k] for k in common) / len(common) if common else 0.0


def _leaves(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}")
    elif isinstance(value, list) and value:
        for item in value:
            yield from _leaves(item, f"{path}[]")
    else:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        yield path, "number" if number else type(value).__name__
