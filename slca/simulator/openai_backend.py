"""The backend ``openai``: any endpoint that speaks OpenAI's chat completions (vLLM, llama.cpp, hosted ones).

What can pass is tried again: time-outs, broken connections, 408, 409, 425, 429, 5xx, bodies that are no JSON. What
cannot (other 4xx) is not. Every request has one deadline and a bounded size, whatever the endpoint does.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import httpx2

from slca.simulator.backends import Draft, Request
from slca.simulator.breaker import Breaker
from slca.simulator.grammar import grammar_schema
from slca.simulator.options import SimulatorConfig
from slca.simulator.prompt import messages

_LARGEST = 1_000_000  # bytes of a body
_PASSING = frozenset((408, 409, 425, 429))
_REFUSED_FORMAT = frozenset((400, 404, 415, 422, 501))
_FATAL = frozenset((401, 403, 404, 405))
_FORMATS = ("json_schema", "json_object", "text")
_BACKOFF = 0.5  # seconds before the first retry; doubled each time


class _Passing(Exception):
    """Failed, but may be well the next time; ``after`` is how long the endpoint asked to be left alone."""

    def __init__(self, kind: str, after: float = 0.0) -> None:
        super().__init__(kind)
        self.kind, self.after = kind, after


class _Lasting(Exception):
    """Failed, and will again. ``status`` is HTTP's."""

    def __init__(self, status: int) -> None:
        super().__init__(f"HTTP {status}")
        self.status = status


class OpenAIBackend:
    """Asks an endpoint, ``concurrency`` requests at once.

    The key is read from the environment variable ``api_key_env`` and sent over https or to this machine alone.

    Args:
        config: ``base_url``, ``model`` and how patient to be.
        sleep: what waits (tests wait faster).

    Raises:
        ValueError: ``base_url`` is no http(s) address.
    """

    uses_context = True

    def __init__(self, config: SimulatorConfig, sleep: Callable[[float], object] | None = None) -> None:
        parts = urlsplit(config.base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(
                f"simulator.base_url {config.base_url!r} is no http(s) address; give one such as http://127.0.0.1:8000/v1"
            )
        self.config = config
        self._stopped = threading.Event()
        self._sleep = sleep or self._stopped.wait
        self.identity = (
            f"openai {config.model} at {parts.scheme}://{parts.hostname}:{parts.port or ''}{parts.path} "
            f"temperature {config.temperature:g} tokens {config.max_tokens}"
        )
        local = parts.hostname in ("127.0.0.1", "::1", "localhost")
        key = os.environ.get(config.api_key_env, "") if local or parts.scheme == "https" else ""
        self._client = httpx2.Client(
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=config.timeout,
            trust_env=not local,  # no proxy stands between a machine and itself
            limits=httpx2.Limits(max_connections=config.concurrency),
        )
        self._url = config.base_url.rstrip("/") + "/chat/completions"
        self.breaker = Breaker(config.breaker, config.cooldown)
        self.format = 0  # index into _FORMATS: the strictest that the endpoint takes
        self._said = 0.0
        self._lock = threading.Lock()

    @classmethod
    def from_config(cls, config: SimulatorConfig) -> OpenAIBackend:
        return cls(config)

    def answer(self, requests: Sequence[Request]) -> list[Draft]:
        """Drafts in the order of ``requests``. With ``on_failure: pause`` this waits until the endpoint answers."""
        if not requests:
            return []
        self._stopped.clear()
        with ThreadPoolExecutor(max_workers=min(self.config.concurrency, len(requests))) as pool:
            try:
                return list(pool.map(self._one, requests))
            except BaseException:  # such as Ctrl-C: do not wait for an endpoint that may never come back
                self._stopped.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _one(self, request: Request) -> Draft:
        tries = 0
        pauses = self.config.on_failure == "pause"
        while not self._stopped.is_set():
            if (wait := self.breaker.wait()) > 0:
                if not pauses:
                    return Draft(failed="circuit open")
                self._sleep(wait)
                continue
            try:
                draft = self._in_some_format(request)
            except _Passing as err:
                self.breaker.failure()
                tries += 1
                if tries > self.config.retries and not pauses:
                    return Draft(failed=err.kind)
                if pauses:
                    self._say(err.kind)
                self._sleep(max(min(err.after, self.config.cooldown), _backoff(tries)))
            except _Lasting as err:
                self.breaker.success()  # it is there and answers
                return Draft(failed=str(err), fatal=err.status in _FATAL)
            else:
                self.breaker.success()
                return draft
        return Draft(failed="stopped")

    def _in_some_format(self, request: Request) -> Draft:
        """In the strictest response format that the endpoint takes; what it refused once is not tried again."""
        first = level = self.format if request.tool is not None else len(_FORMATS) - 1
        while True:
            try:
                draft = self._post(self._body(request, _FORMATS[level]))
            except _Lasting as err:
                if err.status not in _REFUSED_FORMAT or level == len(_FORMATS) - 1:
                    raise
                level += 1
            else:
                if level > first:
                    with self._lock:
                        self.format = max(self.format, level)
                return draft

    def _body(self, request: Request, form: str) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.config.model,
            "messages": messages(request, full_schema=True),
            "temperature": self.config.temperature,
            "max_tokens": self.config.max_tokens,
            "seed": request.seed & 0x7FFFFFFF,
        }
        if form == "json_schema" and request.tool is not None:
            schema = grammar_schema(request.tool.returns, request.arguments)
            body["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "response", "strict": True, "schema": schema},
            }
        elif form == "json_object":
            body["response_format"] = {"type": "json_object"}
        return body

    def _post(self, body: dict[str, Any]) -> Draft:
        deadline = time.monotonic() + self.config.timeout
        try:
            with self._client.stream("POST", self._url, json=body) as response:
                status = response.status_code
                if status in _PASSING or status >= 500:
                    raise _Passing(f"HTTP {status}", _seconds(response.headers.get("retry-after")))
                if status != 200:
                    raise _Lasting(status)
                data = bytearray()
                for chunk in response.iter_bytes():
                    data += chunk
                    if time.monotonic() > deadline:
                        raise _Passing("timeout")
                    if len(data) > _LARGEST:
                        raise _Passing("too large")
        except httpx2.TimeoutException:
            raise _Passing("timeout") from None
        except httpx2.TransportError as err:
            raise _Passing("connection") from err
        return _read(bytes(data))

    def _say(self, kind: str) -> None:
        """Tell, once in a while, why nothing goes on."""
        with self._lock:
            now = time.monotonic()
            if now - self._said < 30.0 and self._said:
                return
            self._said = now
        print(f"simulator endpoint does not answer ({kind}); waiting until it does", file=sys.stderr, flush=True)


def _read(data: bytes) -> Draft:
    """The text of a chat completion."""
    try:
        body = json.loads(data)
        text = body["choices"][0]["message"]["content"]
    except (ValueError, RecursionError, LookupError, TypeError):
        raise _Passing("bad body") from None
    if not isinstance(text, str) or not text.strip():
        raise _Passing("empty")
    usage = body.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    read, written = (n if isinstance(n := usage.get(k), int) else 0 for k in ("prompt_tokens", "completion_tokens"))
    return Draft(text=text, prompt_tokens=read, tokens=written)


def _backoff(tries: int) -> float:
    """Seconds: doubled with every try up to 8 s, half of them by chance, so that not all come back at once."""
    return min(8.0, _BACKOFF * 2.0 ** (tries - 1)) * (0.5 + 0.5 * random.random())


def _seconds(header: str | None) -> float:
    """A Retry-After in seconds; dates are ignored."""
    return float(header) if header is not None and header.isascii() and header.isdigit() and len(header) < 6 else 0.0
