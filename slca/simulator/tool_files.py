"""Tools from the files that people have: OpenAI tools, MCP tool lists, OpenAPI 3 documents, recorded chats."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from slca.simulator.jsonvalue import shown
from slca.simulator.openapi import openapi_tools
from slca.simulator.replay import Recorded, from_messages
from slca.simulator.toolset import Toolset


class ToolFileError(ValueError):
    """A file that holds no tools; the text names file, place and mend."""


class _Loader(yaml.SafeLoader):
    """YAML that holds what JSON holds: dates stay text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def load_tools(path: str | Path) -> Toolset:
    """The tools of a JSON or YAML file.

    * a list of OpenAI tools (``{"type": "function", "function": {...}}``, or the function alone), or an object with that
      list as ``tools``; beside it ``returns`` may map names to response schemas;
    * an MCP tool list: ``inputSchema``, ``outputSchema``, ``annotations`` (also the whole JSON-RPC result);
    * an OpenAPI 3 document: every operation is a tool.

    Raises:
        ToolFileError: the file cannot be read, holds none of these, or a tool is broken.
    """
    document = _read(Path(path))
    try:
        if isinstance(document, dict) and ("openapi" in document or "swagger" in document):
            tools, returns = openapi_tools(document)
        else:
            tools, returns = _listed(document)
        return Toolset(tools, returns)
    except ValueError as err:
        raise ToolFileError(f"{path}: {err}") from err


def _read(path: Path) -> Any:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as err:
        raise ToolFileError(f"{path}: cannot be read ({err})") from err
    try:
        return yaml.load(text, _Loader) if path.suffix in (".yaml", ".yml") else json.loads(text)
    except (ValueError, RecursionError, yaml.YAMLError) as err:
        kind = "YAML" if path.suffix in (".yaml", ".yml") else "JSON"
        raise ToolFileError(f"{path}: not {kind} ({err})") from err


def _listed(document: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """(OpenAI tools, response schemas)."""
    returns: dict[str, Any] = {}
    if isinstance(document, dict) and isinstance(document.get("result"), dict):
        document = document["result"]
    if isinstance(document, dict):
        given = document.get("returns")
        returns = dict(given) if isinstance(given, dict) else {}
        document = document.get("tools", document.get("functions"))
    if not isinstance(document, list) or not document:
        raise ValueError('no tools; a list of tools, {"tools": [...]}, or an OpenAPI 3 document is expected')
    tools = []
    for n, entry in enumerate(document):
        function = entry.get("function", entry) if isinstance(entry, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str) or not function["name"]:
            raise ValueError(f"tools[{n}]: a tool needs a name, such as {{'name': ..., 'parameters': ...}}; {shown(entry)}")
        schema: Any = next((function[k] for k in ("parameters", "inputSchema", "input_schema") if k in function), {})
        if isinstance(output := function.get("outputSchema", function.get("returns")), dict):
            returns.setdefault(function["name"], output)
        kept = {k: function[k] for k in ("name", "description", "x-effect", "annotations") if k in function}
        tools.append({"type": "function", "function": {**kept, "parameters": schema}})
    return tools, returns


def chat_recordings(path: str | Path) -> Iterator[Recorded]:
    """Recorded calls of a JSONL file whose lines have ``messages`` (a list, or its JSON text).

    Raises:
        ToolFileError: names the line that is no such object.
    """
    try:
        with open(path, encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield from from_messages(_messages(line, f"{path}, line {number}"))
    except (OSError, UnicodeDecodeError) as err:
        raise ToolFileError(f"{path}: cannot be read ({err})") from err


def _messages(line: str, place: str) -> list[Any]:
    try:
        row = json.loads(line)
        messages = row.get("messages") if isinstance(row, dict) else None
        messages = json.loads(messages) if isinstance(messages, str) else messages
    except (ValueError, RecursionError) as err:
        raise ToolFileError(f"{place}: not JSON ({err})") from err
    if not isinstance(messages, list):
        raise ToolFileError(f'{place}: "messages" must be a list of chat messages')
    return messages
