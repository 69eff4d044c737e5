"""Simulated tools as a service: the sessions behind the HTTP and the MCP server, and what both tell of the tools."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from typing import Any

from slca.simulator.response import ToolResponse
from slca.simulator.simulator import Episode, Simulator
from slca.simulator.toolset import Tool, Toolset

_SESSIONS = 1000
#: Error code of a response -> HTTP status; other errors are the caller's (422).
STATUS = {"unknown_tool": 404, "not_found": 404, "timeout": 504, "rate_limit": 429, "server_error": 500}


class Service:
    """One toolset for many sessions, each an episode of its own; safe for several threads.

    Beyond 1,000 sessions the one that was used least recently is forgotten.
    """

    def __init__(self, simulator: Simulator, toolset: Toolset, seed: int = 0) -> None:
        self.simulator, self.toolset, self.seed = simulator, toolset, seed
        self._sessions: OrderedDict[str, tuple[Episode, threading.Lock]] = OrderedDict()
        self._lock = threading.Lock()

    def open(self, name: str | None = None) -> str:
        """Start session ``name`` afresh (None: a new name), and return its name."""
        name = name or secrets.token_hex(8)
        with self._lock:
            self._sessions.pop(name, None)
            self._session(name)
        return name

    def close(self, name: str) -> bool:
        """Forget a session; False when there is none."""
        with self._lock:
            return self._sessions.pop(name, None) is not None

    def call(self, session: str, tool: str, arguments: Any) -> ToolResponse:
        """One call in a session, which is started if it is new."""
        with self._lock:
            episode, lock = self._session(session)
        with lock:
            return self.simulator.call(episode, tool, arguments)

    def _session(self, name: str) -> tuple[Episode, threading.Lock]:
        if name not in self._sessions:
            episode = self.simulator.episode(self.toolset, self.seed, key=name)
            self._sessions[name] = (episode, threading.Lock())
            if len(self._sessions) > _SESSIONS:
                self._sessions.popitem(last=False)
        self._sessions.move_to_end(name)
        return self._sessions[name]

    def stats(self) -> dict[str, Any]:
        return self.simulator.metrics.summary()

    def openai(self) -> list[dict[str, Any]]:
        """The tools as OpenAI function schemas."""
        return [
            {"type": "function", "function": {"name": t.name, "description": t.description, "parameters": t.parameters}}
            for t in self.toolset.values()
        ]

    def mcp(self) -> list[dict[str, Any]]:
        """The tools as MCP lists them."""
        return [_mcp(t) for t in self.toolset.values()]

    def openapi(self) -> dict[str, Any]:
        """An OpenAPI document of the HTTP server."""
        return {
            "openapi": "3.1.0",
            "info": {"title": "Simulated tools", "version": "1", "description": _ABOUT},
            "paths": {f"/tools/{t.name}": {"post": _operation(t)} for t in self.toolset.values()},
        }


_ABOUT = "Answers are invented. Calls with the same X-Episode header share one state; POST /episodes starts a fresh one."
_EPISODE = {
    "name": "X-Episode", "in": "header", "schema": {"type": "string"}, "description": "Session whose state the call sees.",
}  # fmt: skip


def _mcp(tool: Tool) -> dict[str, Any]:
    hints = {"readOnlyHint": tool.effect == "read", "destructiveHint": tool.effect == "delete"}
    out = {
        "name": tool.name, "description": tool.description, "inputSchema": {"type": "object", **tool.parameters},
        "annotations": hints,
    }  # fmt: skip
    # MCP wants structured content to be an object
    return {**out, "outputSchema": tool.returns} if tool.returns.get("type") == "object" else out


def _operation(tool: Tool) -> dict[str, Any]:
    def body(schema: Any) -> dict[str, Any]:
        return {"application/json": {"schema": schema}}

    error = {"type": "object", "properties": {"error": {"type": "string"}, "message": {"type": "string"}}}
    return {
        "operationId": tool.name,
        "summary": tool.description,
        "parameters": [_EPISODE],
        "requestBody": {"required": True, "content": body(tool.parameters)},
        "responses": {
            "200": {"description": "The simulated answer.", "content": body(tool.returns)},
            "4XX": {"description": "The call is wrong, and why.", "content": body(error)},
        },
    }
