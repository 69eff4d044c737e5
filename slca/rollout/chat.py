"""The chat text, built in one place: ChatML turns with tools in, calls and tool responses in Hermes tags.

Two styles: ``hermes`` has the layout of Qwen2.5's template; ``compact`` says the same in a few tokens per tool, for
a small policy. A rollout's text is ``prompt`` + turn + ``END`` + ``after_turn`` + turn + ``END`` + ...; each
of these pieces is encoded once, when it is made, and a sampled turn is never decoded and encoded again.

Text from users, tools and schemas cannot forge structure: see ``escape`` and ``safe_json``.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from slca.tasks.task import Call

END = "<|im_end|>"  #: ends every turn
ASSISTANT = "<|im_start|>assistant\n"  #: header after which the policy writes

#: What a tokenizer made for these formats should hold as single tokens.
SPECIAL_TOKENS = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "<tools>",
    "</tools>",
    "<think>",
    "</think>",
]

_CONTROL = re.compile(r"<(?=\|)")
_MARKUP = re.compile(r"<(?=\||/?(?:tool_call|tool_response|tools|think)>)")
_CALL_MARKUP = re.compile(r"<(?=\||/?(?:tool_call|tool_response|tools)>)")
_DEPTH = 8  # levels of a signature that are written out

# Tags, order and line breaks are those of Qwen2.5's template; the sentences are ours (SFT teaches them).
_HERMES = """# Tools

To answer the user you may call the functions below, one or several at a time.

Each line between <tools></tools> is the signature of one function, as JSON:
<tools>
{tools}
</tools>

Write each call as a JSON object with the function's name and its arguments between <tool_call></tool_call>:
<tool_call>
{{"name": <function-name>, "arguments": <args-json-object>}}
</tool_call>"""
_DEFAULT_SYSTEM = "You are a helpful assistant."


def escape(text: str) -> str:
    """Puts a space after the ``<`` of every ``<|`` and of every tag of the format, so that it is plain text.

    For content of users and tools. Nothing else changes, and escaping twice is the same as once.

    >>> escape("a <|im_end|> <tool_call> b < c")
    'a < |im_end|> < tool_call> b < c'
    """
    return _MARKUP.sub("< ", text)


def safe_json(value: Any) -> str:
    """JSON on one line, non-ASCII kept, with ``<`` of a tag or control token written as ``\\u003c`` (equal JSON).

    Raises:
        ValueError: NaN or infinity.  TypeError: not a JSON value.
    """
    return _MARKUP.sub(r"\\u003c", json.dumps(value, ensure_ascii=False, allow_nan=False))


@dataclass(frozen=True)
class ChatFormat:
    """A style of chat text. ``inner`` stands between a call or response tag and its content, ``between`` blocks."""

    name: str
    inner: str
    between: str
    END: ClassVar[str] = END

    def prompt(self, messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]]) -> str:
        """The whole prompt; ends with the assistant header.

        Args:
            messages: ``{"role": "system" | "user" | "assistant" | "tool", "content"}``; an assistant message may
                carry ``tool_calls`` in OpenAI's form (arguments an object or its JSON string). Tool messages that
                follow each other share one user turn. A leading system message goes before the tools.
            tools: OpenAI function schemas.

        Raises:
            ValueError: names the message or tool, and what is wrong with it.
        """
        first = messages[0] if messages else {}
        own = _content(first, 0) if first.get("role") == "system" else ""
        system = self._system(_CONTROL.sub("< ", own), [_function(t, i) for i, t in enumerate(tools)])
        parts = [_turn("system", system)] if system else []
        responses: list[str] = []
        for i, message in enumerate(messages):
            role = message.get("role")
            if responses and role != "tool":
                parts.append(_turn("user", self._responses(responses)))
                responses = []
            if role == "tool":
                responses.append(_content(message, i))
            elif role == "user":
                parts.append(_turn("user", escape(_content(message, i))))
            elif role == "assistant":
                parts.append(_turn("assistant", self._assistant(message, i)))
            elif role != "system":
                raise ValueError(f"messages[{i}].role is {role!r}; use system, user, assistant or tool")
            elif i > 0:
                parts.append(_turn("system", _CONTROL.sub("< ", _content(message, i))))
        if responses:
            parts.append(_turn("user", self._responses(responses)))
        return "".join(parts) + ASSISTANT

    def after_turn(self, responses: Sequence[str]) -> str:
        """Template glue between the end token of a turn that made calls and the next policy token.

        Args:
            responses: contents of the tool responses in the order of the calls, then of the errors.

        >>> chat_format("compact").after_turn(["{}"])
        '\\n<|im_start|>user\\n<tool_response>{}</tool_response><|im_end|>\\n<|im_start|>assistant\\n'
        """
        if not responses:
            raise ValueError("after_turn needs at least one tool response; a turn without calls ends the rollout")
        return "\n" + _turn("user", self._responses(responses)) + ASSISTANT

    def call_turn(self, calls: Sequence[Call], content: str = "") -> str:
        """How a turn with calls is written, without the end token; ``parse_turn`` gives the same calls back.

        ``content`` (a thought, a remark) comes first; it may hold a closed ``<think>`` part, other tags are escaped.

        Raises:
            ValueError: content that ends inside ``<think>``, which would hide the calls.
        """
        if content.rfind("<think>") > content.rfind("</think>"):
            raise ValueError("content ends inside <think>, which would hide the calls; add </think>")
        blocks = [f"<tool_call>{self.inner}{safe_json(c.to_json())}{self.inner}</tool_call>" for c in calls]
        return self.between.join(([_CALL_MARKUP.sub("< ", content)] if content else []) + blocks)

    def _system(self, own: str, functions: list[dict[str, Any]]) -> str:
        if self.name == "hermes":
            own = own or _DEFAULT_SYSTEM
            tools = "\n".join(safe_json({"type": "function", "function": f}) for f in functions)
            return f"{own}\n\n{_HERMES.format(tools=tools)}" if functions else own
        lines = "".join(signature(f) + "\n" for f in functions)
        return (own + "\n" if own and lines else own) + (f"<tools>\n{lines}</tools>" if lines else "")

    def _responses(self, responses: Sequence[str]) -> str:
        blocks = [f"<tool_response>{self.inner}{escape(r)}{self.inner}</tool_response>" for r in responses]
        return self.between.join(blocks)

    def _assistant(self, message: dict[str, Any], index: int) -> str:
        content = _content(message, index)
        if not message.get("tool_calls"):
            return _CONTROL.sub("< ", content)
        calls = [_history_call(c, f"messages[{index}].tool_calls[{k}]") for k, c in enumerate(message["tool_calls"])]
        return self.call_turn(calls, content)


FORMATS = {f.name: f for f in (ChatFormat("hermes", "\n", "\n"), ChatFormat("compact", "", ""))}


def chat_format(name: str) -> ChatFormat:
    """The style of that name; ``ValueError`` with the nearest name otherwise."""
    if name not in FORMATS:
        near = difflib.get_close_matches(name, FORMATS, n=1, cutoff=0.0)
        raise ValueError(f"unknown chat format {name!r}; did you mean {near[0]!r}? (known: {', '.join(FORMATS)})")
    return FORMATS[name]


def signature(function: dict[str, Any]) -> str:
    """One line for one function schema, without the parameters' descriptions.

    >>> signature({"name": "near", "description": "Places nearby.", "parameters": {"type": "object", "properties": {
    ...     "at": {"type": "string"}, "kinds": {"type": "array", "items": {"enum": ["bar", "cafe"]}}},
    ...     "required": ["at"]}})
    'near(at: string, kinds?: ("bar"|"cafe")[]) Places nearby.'
    """
    parameters = function.get("parameters") or {}
    line = f"{function['name']}({_fields(parameters, 0)}) {function.get('description') or ''}"
    return escape(" ".join(line.split()))


def _fields(schema: dict[str, Any], depth: int) -> str:
    required = schema.get("required") or ()
    fields = (schema.get("properties") or {}).items()
    return ", ".join(f"{key}{'' if key in required else '?'}: {type_text(value, depth)}" for key, value in fields)


def type_text(schema: Any, depth: int = 0) -> str:
    """A JSON Schema in TypeScript's manner; what has no short form is ``any``."""
    if not isinstance(schema, dict) or depth >= _DEPTH:
        return "any"
    if "enum" in schema or "const" in schema:
        return "|".join(json.dumps(v, ensure_ascii=False) for v in schema.get("enum", [schema.get("const")]))
    options = schema.get("anyOf") or schema.get("oneOf")
    if options:
        return "|".join(type_text(option, depth + 1) for option in options)
    kind = schema.get("type", "any")
    if isinstance(kind, list):
        return "|".join(type_text({**schema, "type": k}, depth + 1) for k in kind)
    if kind == "array":
        items = type_text(schema.get("items"), depth + 1)
        return f"({items})[]" if "|" in items else f"{items}[]"
    if kind == "object" and schema.get("properties"):
        return "{" + _fields(schema, depth + 1) + "}"
    return f"{kind}<{schema['format']}>" if "format" in schema else str(kind)


def _turn(role: str, content: str) -> str:
    return f"<|im_start|>{role}\n{content}{END}\n"


def _content(message: dict[str, Any], index: int) -> str:
    content = message.get("content")
    if content is None and (message.get("tool_calls") or message.get("role") == "assistant"):
        return ""
    if not isinstance(content, str):
        raise ValueError(f"messages[{index}].content is {type(content).__name__}; it must be a string")
    return content


def _function(tool: dict[str, Any], index: int) -> dict[str, Any]:
    function = tool.get("function") if isinstance(tool, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise ValueError(f'tools[{index}] must be {{"type": "function", "function": {{"name": ..., ...}}}}')
    return function


def _history_call(entry: Any, where: str) -> Call:
    function = entry.get("function", entry) if isinstance(entry, dict) else None
    if not isinstance(function, dict):
        function = {}
    arguments = function.get("arguments", {})
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError as error:
            raise ValueError(f"{where}.arguments is not JSON: {error}") from None
    if not isinstance(arguments, dict) or not isinstance(function.get("name"), str):
        raise ValueError(f"{where} needs a name and an object (or its JSON string) as arguments")
    return Call(function["name"], arguments)
