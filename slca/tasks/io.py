"""Tasks as JSONL, one object per line, for generated data and for a user's own; every error names line and field."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from slca.simulator.jsonvalue import refusal
from slca.tasks.task import Call, Fact, Task

_FIELDS = ("id", "messages", "tools", "gold", "facts", "tags", "returns", "sim_seed", "meta")
_ROLES = ("system", "user", "assistant", "tool")


class TaskError(ValueError):
    """A task file that cannot be used; ``errors`` holds all of them, ``file:line: field: what``."""

    def __init__(self, errors: list[str]) -> None:
        more = f"\n... and {len(errors) - 10} more" if len(errors) > 10 else ""
        super().__init__("\n".join(errors[:10]) + more)
        self.errors = errors


def to_json(task: Task) -> dict[str, Any]:
    """The record of a task; ``from_json`` gives the same task back."""
    return {
        "id": task.id,
        "messages": task.messages,
        "tools": task.tools,
        "gold": [[c.to_json() for c in step] for step in task.gold],
        "facts": [asdict(f) for f in task.facts],
        "tags": task.tags,
        "returns": task.returns,
        "sim_seed": task.sim_seed,
        "meta": task.meta,
    }


def from_json(record: dict[str, Any]) -> Task:
    """The task of a record that ``problems`` finds nothing wrong with."""
    return Task(
        id=record["id"],
        messages=record["messages"],
        tools=record["tools"],
        gold=[[Call(c["name"], c.get("arguments") or {}) for c in step] for step in record["gold"]],
        facts=[Fact(**f) for f in record.get("facts", [])],
        tags=record.get("tags", []),
        returns=record.get("returns", {}),
        sim_seed=record.get("sim_seed", 0),
        meta=record.get("meta", {}),
    )


def save_jsonl(tasks: Iterable[Task], path: str | Path) -> None:
    """Write the file whole or not at all."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    with partial.open("w", encoding="utf-8") as file:
        for task in tasks:
            file.write(json.dumps(to_json(task), ensure_ascii=False) + "\n")
    os.replace(partial, path)


def load_jsonl(path: str | Path) -> list[Task]:
    """All tasks of a file. Raises ``TaskError`` with every problem found, ``FileNotFoundError``."""
    path = Path(path)
    tasks: list[Task] = []
    errors: list[str] = []
    first_line: dict[str, int] = {}
    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            where = f"{path}:{number}"
            if not raw.strip():
                continue
            try:
                record = json.loads(raw.decode("utf-8"))
            except (UnicodeDecodeError, ValueError, RecursionError) as error:
                errors.append(f"{where}: not a line of JSON: {error}")
                continue
            found = [f"{where}: {problem}" for problem in problems(record)]
            if not found and record["id"] in first_line:
                found = [f"{where}: id: {record['id']!r} is also the id of line {first_line[record['id']]}"]
            if found:
                errors.extend(found)
                continue
            first_line[record["id"]] = number
            tasks.append(from_json(record))
    if errors:
        raise TaskError(errors)
    if not tasks:
        raise TaskError([f"{path}: no task in it; one JSON object per line is expected"])
    return tasks


def problems(record: Any) -> Iterator[str]:
    """What is wrong with a record, as ``field: what``; nothing for a good one."""
    if not isinstance(record, dict):
        yield f"a task is an object, this is {_kind(record)}"
        return
    if (refused := refusal(record)) is not None:
        yield f"{refused[0]}: {refused[1].removeprefix(refused[0]).strip()}"
        return
    for name in ("id", "messages", "tools", "gold"):
        if name not in record:
            yield f"{name}: missing"
    for name in record.keys() - set(_FIELDS):
        yield f"{name}: unknown field; known: {', '.join(_FIELDS)} (put your own data into meta)"
    if "id" in record and (not isinstance(record["id"], str) or not record["id"]):
        yield f"id: a non-empty string is expected, this is {_kind(record['id'])}"
    yield from _messages(record.get("messages", []))
    names: set[str] = set()
    yield from _tools(record.get("tools", []), names)
    yield from _gold(record.get("gold", []), names)
    yield from _facts(record)
    yield from _rest(record, names)


def doubts(task: Task) -> Iterator[str]:
    """What is odd about a task but no error: gold calls that their own tool refuses, as recorded data has them."""
    from slca.simulator.validation import compile_tool, parameters_of

    tools = {parameters_of(t)[0]: compile_tool(t) for t in task.tools}
    for s, step in enumerate(task.gold):
        for i, call in enumerate(step):
            for error in tools[call.name].errors(call.arguments)[:1]:
                yield f"{task.id}: gold[{s}][{i}] is refused by its own tool ({error.code}: {error.message})"


def _messages(messages: Any) -> Iterator[str]:
    if not isinstance(messages, list) or not messages:
        yield "messages: a list with at least the user's message is expected"
        return
    for i, m in enumerate(messages):
        if not isinstance(m, dict):
            yield f"messages[{i}]: an object is expected, this is {_kind(m)}"
        elif m.get("role") not in _ROLES:
            yield f"messages[{i}].role: {m.get('role')!r}; use one of {', '.join(_ROLES)}"
        elif not isinstance(m.get("content"), str) and not (m["role"] == "assistant" and m.get("tool_calls")):
            yield f"messages[{i}].content: a string is expected, this is {_kind(m.get('content'))}"
    if isinstance(messages[-1], dict) and messages[-1].get("role") in ("system", "assistant"):
        yield f"messages[{len(messages) - 1}].role: the last message is the user's (or a tool's), not the assistant's"


def _tools(tools: Any, names: set[str]) -> Iterator[str]:
    from slca.simulator.validation import compile_tool, parameters_of

    if not isinstance(tools, list):
        yield f"tools: a list is expected, this is {_kind(tools)}"
        return
    for i, tool in enumerate(tools):
        if not isinstance(tool, dict):
            yield f"tools[{i}]: an OpenAI function schema is expected, this is {_kind(tool)}"
            continue
        try:
            name, _ = parameters_of(tool)
            compile_tool(tool)
        except ValueError as error:
            yield f"tools[{i}]: {error}"
            continue
        if name in names:
            yield f"tools[{i}].function.name: {name!r} is listed twice"
        names.add(name)


def _gold(gold: Any, names: set[str]) -> Iterator[str]:
    if not isinstance(gold, list) or not all(isinstance(s, list) and s for s in gold):
        yield "gold: a list of steps is expected, each a list of at least one call (calls of one step are parallel)"
        return
    for s, step in enumerate(gold):
        for i, call in enumerate(step):
            where = f"gold[{s}][{i}]"
            if not isinstance(call, dict) or not isinstance(call.get("name"), str):
                yield f"{where}: {{\"name\": ..., \"arguments\": {{...}}}} is expected"
            elif not isinstance(call.get("arguments", {}), dict):
                yield f"{where}.arguments: an object is expected, this is {_kind(call['arguments'])}"
            elif call["name"] not in names:
                yield f"{where}.name: {call['name']!r} is not among the tools ({', '.join(sorted(names))})"


def _facts(record: dict[str, Any]) -> Iterator[str]:
    facts, gold = record.get("facts", []), record.get("gold", [])
    if not isinstance(facts, list):
        yield f"facts: a list is expected, this is {_kind(facts)}"
        return
    known = set(Fact.__dataclass_fields__)
    for i, fact in enumerate(facts):
        where = f"facts[{i}]"
        if not isinstance(fact, dict) or not {"tool", "path", "value"} <= fact.keys() or not fact.keys() <= known:
            yield f"{where}: fields tool, path, value and, if you like, step and index are expected"
            continue
        try:
            call = gold[fact.get("step", 0)][fact.get("index", 0)]
        except (IndexError, TypeError, KeyError):
            yield f"{where}: gold has no call at step {fact.get('step', 0)}, index {fact.get('index', 0)}"
            continue
        if isinstance(call, dict) and call.get("name") != fact["tool"]:
            yield f"{where}.tool: {fact['tool']!r}, but the gold call there is of {call.get('name')!r}"


def _rest(record: dict[str, Any], names: set[str]) -> Iterator[str]:
    tags, returns = record.get("tags", []), record.get("returns", {})
    if not isinstance(tags, list) or not all(isinstance(t, str) for t in tags):
        yield "tags: a list of strings is expected"
    if not isinstance(returns, dict) or not all(isinstance(v, dict) for v in returns.values()):
        yield "returns: an object from tool name to JSON Schema is expected"
    else:
        for name in returns.keys() - names:
            yield f"returns.{name}: no tool of that name is listed"
    seed = record.get("sim_seed", 0)
    if isinstance(seed, bool) or not isinstance(seed, int):
        yield f"sim_seed: an integer is expected, this is {_kind(seed)}"
    if not isinstance(record.get("meta", {}), dict):
        yield f"meta: an object is expected, this is {_kind(record['meta'])}"


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
