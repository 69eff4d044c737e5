"""What a tool answers: the same record for every backend, for validation errors and for parse errors."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class ToolResponse:
    """Answer to one call.

    Attributes:
        content: compact JSON text, exactly as the policy sees it (cut or empty where a fault was injected).
        value: the decoded JSON value of ``content``; None where there is none.
        ok: False for every error (invalid arguments, not found, unparsable call, fault).
        code: error code (``unknown_tool``, ``missing_argument``, ``wrong_type``, ``not_found``, ...), None when ok.
        source: who answered: a backend's name, ``cache``, ``replay``, ``fallback``, ``check`` (validation, state),
            ``fault``. Not part of equality.
        notes: what lenient validation coerced. Not part of equality.
    """

    content: str
    value: Any
    ok: bool = True
    code: str | None = None
    source: str = field(default="", compare=False)
    notes: tuple[str, ...] = field(default=(), compare=False)


def dumps(value: Any) -> str:
    """JSON text as the Qwen and Hermes chat templates write it: one line, non-ASCII kept."""
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "))


def failure(code: str, message: str, source: str = "check") -> ToolResponse:
    """An error as the policy reads it."""
    value = {"error": code, "message": message}
    return ToolResponse(dumps(value), value, ok=False, code=code, source=source)
