"""The simulator: validation -> state -> replay -> cache -> backend -> check and repair -> record.

One ``Simulator`` serves a whole run. Every rollout has an ``Episode`` of its own, so that what one rollout was told
never helps another; the cache is shared, so that the same call gets the same answer in all of them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from slca.simulator.backends import BACKENDS, Backend, Draft, Record, Request, SchemaBackend
from slca.simulator.cache import Cache, key_of
from slca.simulator.coerce import NOTHING, coerce_arguments
from slca.simulator.faults import Faults, faulty
from slca.simulator.ids import id_values, is_mentioned, is_offered
from slca.simulator.infer import schema_of
from slca.simulator.jsonvalue import canonical, refusal
from slca.simulator.metrics import Metrics
from slca.simulator.options import SimulatorConfig
from slca.simulator.output import fit, read_json, sound
from slca.simulator.replay import Recordings
from slca.simulator.response import ToolResponse, dumps, failure
from slca.simulator.state import State
from slca.simulator.toolset import Tool, Toolset
from slca.simulator.validation import ArgumentError, unknown_tool
from slca.tasks.task import Task

_MESSAGE_LIMIT = 64  # characters; a small policy reads errors token by token
_CONTEXT = 6  # lines of the log that a backend is told
_EXAMPLES = 2  # recorded answers that a backend is told


class BackendFailed(RuntimeError):
    """The backend gave no answer, and the configuration says not to go on without it."""


@dataclass(eq=False)
class Episode:
    """The tools as one rollout meets them. ``log`` holds every call and its response in order.

    Make it with ``Simulator.episode``. ``key`` tells episodes apart where something is drawn per episode (faults).
    """

    simulator: Simulator
    toolset: Toolset
    seed: int
    known_text: str
    key: str
    log: list[Record] = field(default_factory=list)
    state: State = field(default_factory=State)
    ids: set[str] = field(default_factory=set, repr=False)

    def call(self, name: str, arguments: Any) -> ToolResponse:
        """Answer one call. Never raises on what a model may write: errors are responses with ``ok`` False."""
        return self.simulator.call(self, name, arguments)

    def parse_error(self, code: str, message: str) -> ToolResponse:
        """The response to a call that could not be parsed."""
        response = failure(code, message)
        self.log.append(Record(None, None, response))
        return response


@dataclass(eq=False)
class _Pending:
    """A call on its way through the chain; ``content`` and ``source`` are filled in by whoever answers."""

    episode: Episode
    name: str
    arguments: dict[str, Any]
    tool: Tool | None
    notes: tuple[str, ...]
    fault: str | None
    key: bytes = b""
    context: tuple[Record, ...] = ()
    content: str | None = None
    source: str = ""


class Simulator:
    """Simulated tools for any number of tasks.

    Args:
        config: how they answer.
        backend: in place of the one that ``config.backend`` names.

    Raises:
        ValueError: an unknown backend or fault, a cache or recording that cannot be read.
    """

    def __init__(self, config: SimulatorConfig | None = None, backend: Backend | None = None) -> None:
        self.config = config = config or SimulatorConfig()
        if backend is None and config.backend not in BACKENDS:
            raise ValueError(f"no simulator backend {config.backend!r}; choose one of {', '.join(BACKENDS)}")
        if config.backend == "replay" and not config.recordings:
            raise ValueError("backend 'replay' needs recordings; name their JSONL file in simulator.recordings")
        self.faults = Faults(config.faults, config.seed)
        self.recordings = Recordings.load(config.recordings, config.held_out) if config.recordings else Recordings(())
        file = config.cache if config.cache not in ("", "memory") else None
        self.cache = Cache(file, config.cache_entries) if config.cache and config.mode == "sgls" else None
        self.backend = backend if backend is not None else BACKENDS[config.backend](config)
        self.metrics = Metrics()
        self._spare = SchemaBackend()
        self._told: dict[str, Tool] = {}  # digest of a tool without response schema -> what its recorded answers tell

    # -- episodes -------------------------------------------------------------------------------------------------

    def episode(self, toolset: Toolset, seed: int = 0, known_text: str = "", key: str = "") -> Episode:
        """A fresh episode: no id has been returned, nothing written yet.

        Args:
            seed: seed of the answers; all rollouts of a task share it.
            known_text: text in which the policy may have read ids (the user's messages).
        """
        return Episode(self, toolset, seed, known_text, key)

    def episodes(self, task: Task, n: int, salt: str = "") -> list[Episode]:
        """``n`` episodes of ``task``; ids in its user (and earlier tool) messages count as known.

        Another ``salt`` draws other faults.
        """
        texts = (_text(m.get("content")) for m in task.messages if m.get("role") in ("user", "tool"))
        toolset, known = Toolset(task.tools, task.returns), "\n".join(texts)
        return [self.episode(toolset, task.sim_seed, known, f"{salt}/{task.id}/{i}") for i in range(n)]

    # -- calls ----------------------------------------------------------------------------------------------------

    def call(self, episode: Episode, name: str, arguments: Any) -> ToolResponse:
        """Answer one call; see ``call_batch``."""
        return self.call_batch([(episode, name, arguments)])[0]

    def call_batch(self, calls: Sequence[tuple[Episode, str, Any]]) -> list[ToolResponse]:
        """Responses in the order of ``calls``; calls of one episode take effect in their order.

        Raises:
            BackendFailed: with ``on_failure: fail``, or ``pause`` where waiting does not help. Nothing that a model may
                write raises.
        """
        responses: dict[int, ToolResponse] = {}
        todo = list(range(len(calls)))
        while todo:  # one call per episode at a time: a later one may depend on what an earlier one returned
            wave = sorted({id(calls[i][0]): i for i in reversed(todo)}.values())
            responses |= zip(wave, self._wave([calls[i] for i in wave]), strict=True)
            todo = [i for i in todo if i not in responses]
        return [responses[i] for i in range(len(calls))]

    def _wave(self, calls: Sequence[tuple[Episode, str, Any]]) -> list[ToolResponse]:
        start = time.perf_counter()
        steps = [self._prepare(*call) for call in calls]
        pending = [p for p in steps if isinstance(p, _Pending) and (p.fault is None or p.fault == "truncated")]
        fresh = self._answer(pending)
        out = [self._finish(p) if isinstance(p, _Pending) else p for p in steps]
        for (episode, name, arguments), response in zip(calls, out, strict=True):
            episode.log.append(Record(name, arguments, response))
        seconds = (time.perf_counter() - start) / len(calls)
        for p in pending:
            self.metrics.latency(seconds, cold=p.key in fresh)
        return out

    def _prepare(self, episode: Episode, name: str, arguments: Any) -> ToolResponse | _Pending:
        """Checks and draws before anyone is asked: a refusal, or the call as it goes on."""
        self.metrics.count("calls")
        checked = self._check(episode, name, arguments) if self.config.mode == "sgls" else _open(name, arguments)
        if isinstance(checked, ToolResponse):
            self.metrics.count("refused")
            return checked
        tool, arguments, notes = checked
        if notes:
            self.metrics.count("coerced")
        fault = self.faults.draw(episode.key, len(episode.log))
        if fault:
            self.metrics.count(f"fault/{fault}")
        pending = _Pending(episode, name, arguments, tool, tuple(notes), fault)
        if self.backend.uses_context:
            pending.context = _context(episode, tool, arguments)
        pending.key = self._key(pending)
        return pending

    def _check(
        self, episode: Episode, name: str, arguments: Any
    ) -> ToolResponse | tuple[Tool, dict[str, Any], list[str]]:
        tool = episode.toolset.get(name) if isinstance(name, str) else None
        if tool is None:
            return _failure_of([unknown_tool(name, episode.toolset)])
        tool = self._learned(tool) if tool.inferred else tool
        notes: list[str] = []
        errors = tool.compiled.errors(arguments)
        if errors and self.config.lenient:
            arguments, notes = coerce_arguments(tool.compiled, arguments)
            errors = tool.compiled.errors(arguments)
        if errors:
            return _failure_of(errors)
        if self.config.check_ids and episode.toolset.checks_ids and self.recordings.get(tool.name, arguments) is None:
            for path, given, schema in id_values(arguments, tool.parameters):
                known = given in episode.ids or is_offered(given, schema) or is_mentioned(given, episode.known_text)
                if not known:
                    return failure("not_found", f"{path} not found; use an id that a tool returned")
        if self.config.state and (deleted := episode.state.gone(tool, arguments)) is not None:
            return failure("not_found", f"{deleted} not found; it was deleted")
        return tool, arguments, notes

    def _learned(self, tool: Tool) -> Tool:
        """``tool`` with the response schema that its recorded answers have, where there are any; kept with the cache."""
        if (known := self._told.get(tool.digest)) is not None:
            return known
        values = [r.response for r in self.recordings.of_tool(tool.name)]
        learned = tool
        if values:
            text = json.dumps(schema_of(values))
            key = key_of("response schema", tool.digest, *map(canonical, values))
            text = (self.cache.schema(key, text) if self.cache is not None else None) or text
            learned = replace(tool, returns=json.loads(text), digest=key_of(tool.digest, text).hex())
        self._told[tool.digest] = learned
        return learned

    def _key(self, p: _Pending) -> bytes:
        """What the answer depends on. Without a cache every call is its own, and equal keys measure determinism only."""
        told = (
            ""
            if not p.context
            else "\n".join(f"{r.name}{canonical(r.arguments)}{r.response.content}" for r in p.context)
        )
        digest = p.tool.digest if p.tool is not None else p.name
        return key_of(digest, canonical(p.arguments), told, self.backend.identity, str(p.episode.seed))

    # -- answers --------------------------------------------------------------------------------------------------

    def _answer(self, pending: Sequence[_Pending]) -> set[bytes]:
        """Fill ``content`` of every call: replayed, from the cache, or fresh. The keys of the fresh ones."""
        asked: dict[Any, list[_Pending]] = {}
        for p in pending:
            if self.config.mode == "sgls" and (recorded := self.recordings.get(p.name, p.arguments)) is not None:
                p.content, p.source = _content(recorded.response), "replay"
                self.metrics.count("replayed")
            elif self.cache is not None and (known := self.cache.get(p.key)) is not None:
                p.content, p.source = known[0], "cache"
                self.metrics.count("cache_hits")
            else:
                asked.setdefault(p.key if self.cache is not None else id(p), []).append(p)
        if asked:
            self._ask(list(asked.values()))
        for p in pending:
            if p.source != "replay":
                self.metrics.answered(p.key, p.content or "")
        return {group[0].key for group in asked.values()}

    def _ask(self, groups: Sequence[list[_Pending]]) -> None:
        """Equal calls are asked once."""
        requests = [self._request(group[0]) for group in groups]
        for group, request, draft in zip(groups, requests, self.backend.answer(requests), strict=True):
            self.metrics.count("fresh")
            self.metrics.count("cache_hits", len(group) - 1)
            content, source = self._checked(request, draft)
            if self.cache is not None:
                # a fallback is for this process only: the next one may find the backend well again
                content, source = self.cache.put(group[0].key, content, source, keep=source != "fallback")
            for p in group:
                p.content, p.source = content, source

    def _request(self, p: _Pending) -> Request:
        if self.config.mode != "sgls":
            number = f"{p.episode.key}/{len(p.episode.log)}"
            seed = int.from_bytes(key_of(number, str(p.episode.seed))[:6], "big")
            return Request(p.name, p.arguments, None, seed, p.context)
        examples = tuple(self.recordings.of_tool(p.name)[:_EXAMPLES])
        return Request(p.name, p.arguments, p.tool, p.episode.seed, p.context, examples)

    def _checked(self, request: Request, draft: Draft) -> tuple[str, str]:
        """The draft as JSON text that fits the response schema, and whom it is from."""
        count = self.metrics.count
        count("prompt_tokens", draft.prompt_tokens)
        count("tokens", draft.tokens)
        name = self.backend.identity.split(" ")[0]
        if draft.failed is not None:
            count("failed")
            count(f"failure/{draft.failed}")
            if self.config.on_failure == "fail" or (draft.fatal and self.config.on_failure == "pause"):
                mend = "mend its settings" if draft.fatal else "start it again"
                raise BackendFailed(
                    f"the {name} backend did not answer {request.name}: {draft.failed}; {mend}, or go on without it with "
                    "simulator.on_failure=fallback"
                )
            return self._fall_back(request)
        value, strictly = read_json(draft.text) if draft.text is not None else (draft.value, sound(draft.value))
        if request.tool is None:  # nothing is known of what should have come
            count("valid_after", value is not NOTHING)
            count("valid_before", strictly)
            return _content(draft.text if value is NOTHING else value), name
        if strictly and request.tool.fits(value):
            count("valid_before")
            count("valid_after")
            return dumps(value), name
        spare = self._spare.one(request)
        mended = fit(value, request.tool.returns, spare)
        if mended == spare or not request.tool.fits(mended):
            return self._fall_back(request)
        count("repaired")
        count("valid_after")
        return dumps(mended), name

    def _fall_back(self, request: Request) -> tuple[str, str]:
        value = self._spare.one(request)
        self.metrics.count("fallbacks")
        self.metrics.count("valid_after", request.tool is None or request.tool.fits(value))
        return dumps(value), "fallback"

    def _finish(self, p: _Pending) -> ToolResponse:
        """The response as the policy sees it, and what the episode learns from it."""
        if p.fault is not None and p.fault != "truncated":
            return faulty(p.fault, None)
        content = p.content if p.content is not None else ""
        value = _value(content)
        if p.tool is not None and self.config.mode == "sgls":
            if self.config.state:
                state = p.episode.state
                new = value if p.source == "replay" else state.agreeing(p.tool, p.arguments, value, p.episode.seed)
                state.record(p.tool, p.arguments, new)
                new = state.overlay(p.tool, p.arguments, new)
                if new is not value:
                    value, content = new, dumps(new)
            p.episode.ids.update(text for _, text, _ in id_values(value, p.tool.returns))
        response = ToolResponse(content, value, source=p.source, notes=p.notes)
        return faulty(p.fault, response) if p.fault else response


@lru_cache(maxsize=8)
def _shared(config: str) -> Simulator:
    return Simulator(SimulatorConfig(**json.loads(config)))


def episode_of(task: Task, sample: int = 0) -> Episode:
    """An episode of ``task`` against the schema backend, for who needs no simulator of his own."""
    return _shared('{"cache": ""}').episodes(task, sample + 1)[sample]


def _open(name: str, arguments: Any) -> ToolResponse | tuple[None, dict[str, Any], list[str]]:
    """Mode ``without_schema``: any name and any object go; only what is no JSON is refused."""
    if not isinstance(name, str) or not isinstance(arguments, dict) or refusal({"name": name, "arguments": arguments}):
        return failure("invalid", "a call needs a name and an object of arguments")
    return None, arguments, []


def _context(episode: Episode, tool: Tool | None, arguments: dict[str, Any]) -> tuple[Record, ...]:
    """The lines of the log that bear on a call: writes, and calls that share an id with it; the last few."""
    asked = {text for _, text, _ in id_values(arguments, tool.parameters)} if tool is not None else set()
    kept = []
    for record in episode.log:
        own = episode.toolset.get(record.name) if record.name else None
        if not record.response.ok or not isinstance(record.arguments, Mapping):
            continue
        if (
            tool is None
            or (own is not None and own.effect != "read")
            or any(i in record.response.content for i in asked)
        ):
            kept.append(record)
    return tuple(kept[-_CONTEXT:])


def _content(value: Any) -> str:
    """A response as text: JSON, or the text itself where it is none."""
    return value if isinstance(value, str) else dumps(value)


def _value(content: str) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return content


def _text(content: Any) -> str:
    """A message's text, whether a string or a list of parts."""
    if isinstance(content, list):
        return "\n".join(p["text"] for p in content if isinstance(p, dict) and isinstance(p.get("text"), str))
    return content if isinstance(content, str) else ""


def _failure_of(errors: list[ArgumentError]) -> ToolResponse:
    """The first error's code, and as many messages as fit."""
    message = errors[0].message
    for err in errors[1:]:
        if len(message) + len(err.message) + 2 > _MESSAGE_LIMIT:
            break
        message += "; " + err.message
    return failure(errors[0].code, message)
