"""What a model that plays the tools is told: schema, episode log, a few recorded answers, the call (ours)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from slca.rollout.chat import ASSISTANT, END, escape, type_text
from slca.simulator.response import dumps

if TYPE_CHECKING:
    from slca.simulator.backends import Request

_GUIDED = (
    "You are the service behind an API. Answer the call with one JSON value that fits the response type: realistic "
    "values, consistent with the arguments, the examples and the earlier calls. No comments, no other text."
)
_BARE = "You are the service behind an API. Answer the call with its result as JSON. No comments, no other text."
_LONGEST = 600  # characters of one line of the log or one example; schemas up to four times that


def messages(request: Request, full_schema: bool = False) -> list[dict[str, str]]:
    """Chat messages (system, user) that ask for the answer to ``request``.

    All that came from users, tools or policies is escaped: it cannot forge the chat's structure.

    Args:
        full_schema: show the response schema as JSON, for a large model; else its type in short.
    """
    tool = request.tool
    lines = []
    if tool is not None:
        shown = json.dumps(_plain(tool.returns)) if full_schema else type_text(tool.returns)
        lines.append(f"Tool: {tool.name}" + (f" - {_cut(tool.description)}" if tool.description else ""))
        lines.append(f"Response type: {_cut(shown, 4 * _LONGEST)}")
    lines += [f"Example: {_call(e.tool, e.arguments)} -> {_cut(_value(e.response))}" for e in request.examples]
    lines += [f"Earlier: {_call(r.name, r.arguments)} -> {_cut(r.response.content)}" for r in request.context]
    lines.append(f"Call: {_call(request.name, request.arguments)}")
    return [
        {"role": "system", "content": _GUIDED if tool is not None else _BARE},
        {"role": "user", "content": escape("\n".join(lines))},
    ]


def prompt_ids(tokenizer: Any, request: Request) -> list[int]:
    """``messages`` in the tokenizer's own chat template, or in ChatML where it has none."""
    turns = messages(request)
    if getattr(tokenizer, "chat_template", None):
        text = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    else:
        text = "".join(f"<|im_start|>{m['role']}\n{m['content']}{END}\n" for m in turns) + ASSISTANT
    return list(tokenizer.encode(text, add_special_tokens=False))


def _call(name: str | None, arguments: Any) -> str:
    return f"{name}({_cut(dumps(arguments), 2 * _LONGEST)})"


def _value(value: Any) -> str:
    return value if isinstance(value, str) else dumps(value)


def _cut(text: str, limit: int = _LONGEST) -> str:
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _plain(schema: Any) -> Any:
    """Without our annotations."""
    if isinstance(schema, dict):
        return {k: _plain(v) for k, v in schema.items() if not k.startswith("x-")}
    return [_plain(v) for v in schema] if isinstance(schema, list) else schema
