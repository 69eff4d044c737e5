"""What a tool answers: the same record for every backend, for validation errors and for parse errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ToolResponse:
    """Answer to one call.

    Attributes:
        content: compact JSON text, exactly as the policy sees it.
        value: the decoded JSON value of ``content``.
        ok: False for every error (invalid arguments, not found, unparsable call).
        code: error code (``unknown_tool``, ``missing_argument``, ``wrong_type``, ``not_found``, ...), None when ok.
    """

    content: str
    value: Any
    ok: bool = True
    code: str | None = None
