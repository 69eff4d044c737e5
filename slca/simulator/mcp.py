"""Simulated tools as an MCP server over stdio: JSON-RPC 2.0, one message per line; one process is one session."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import IO, Any

from slca.simulator.service import Service
from slca.simulator.simulator import BackendFailed

VERSIONS = ("2025-06-18", "2025-03-26", "2024-11-05")
_LONGEST = 4_000_000  # characters of a line
_PARSE, _INVALID, _METHOD, _PARAMS, _INTERNAL = -32700, -32600, -32601, -32602, -32603


class _Refused(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class MCPServer:
    """Answers the messages of one client."""

    def __init__(self, service: Service) -> None:
        self.service, self.session = service, service.open()

    def run(self, source: Iterable[str | bytes], sink: IO[str]) -> None:
        """Serve until ``source``, lines of text or UTF-8, ends."""
        for line in source:
            if line.strip() and (answer := self.answer_line(line)) is not None:
                sink.write(answer + "\n")
                sink.flush()

    def answer_line(self, line: str | bytes) -> str | None:
        """The answer to one line, None where none is due. Never raises on what a client may write."""
        try:
            if len(line) > _LONGEST:
                raise ValueError("line too long")
            message = json.loads(line)
        except (ValueError, RecursionError) as err:
            return json.dumps(_error(None, _PARSE, f"not JSON: {err}"))
        if isinstance(message, list):
            answers = [a for a in map(self._answer, message) if a is not None]
            return json.dumps(answers) if answers else None
        answer = self._answer(message)
        return None if answer is None else json.dumps(answer)

    def _answer(self, message: Any) -> dict[str, Any] | None:
        if not isinstance(message, dict) or not isinstance(message.get("method"), str):
            is_response = isinstance(message, dict) and ("result" in message or "error" in message)
            return None if is_response else _error(None, _INVALID, "no JSON-RPC request")
        if "id" not in message:
            return None  # a notification
        identity = message["id"] if isinstance(message["id"], (str, int)) and message["id"] is not True else None
        params = message.get("params") or {}
        try:
            if not isinstance(params, dict):
                raise _Refused(_PARAMS, "params must be an object")
            return {"jsonrpc": "2.0", "id": identity, "result": self._result(message["method"], params)}
        except _Refused as err:
            return _error(identity, err.code, str(err))
        except BackendFailed as err:
            return _error(identity, _INTERNAL, str(err))

    def _result(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method == "initialize":
            wanted = params.get("protocolVersion")
            return {
                "protocolVersion": wanted if wanted in VERSIONS else VERSIONS[0],
                "capabilities": {"tools": {"listChanged": False}},
                "serverInfo": {"name": "slca-simulator", "version": "1"},
                "instructions": "Simulated tools: their answers are invented. State lasts as long as this connection.",
            }
        if method == "ping":
            return {}
        if method == "tools/list":
            return {"tools": self.service.mcp()}
        if method == "tools/call":
            return self._call(params)
        raise _Refused(_METHOD, f"no method {method[:80]!r}")

    def _call(self, params: dict[str, Any]) -> dict[str, Any]:
        name = params.get("name")
        if not isinstance(name, str) or name not in self.service.toolset:
            raise _Refused(_PARAMS, f"no tool {str(name)[:80]!r}")
        response = self.service.call(self.session, name, params.get("arguments") or {})
        out: dict[str, Any] = {"content": [{"type": "text", "text": response.content}], "isError": not response.ok}
        if response.ok and isinstance(response.value, dict):
            out["structuredContent"] = response.value
        return out


def _error(identity: Any, code: int, message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": identity, "error": {"code": code, "message": message[:500]}}
