"""The backend ``openai`` against an endpoint that hangs, resets, refuses, and writes half JSON and prose."""

import json
import threading

import pytest
from fake_endpoint import endpoint

from slca.simulator.backends import Request
from slca.simulator.breaker import Breaker
from slca.simulator.openai_backend import OpenAIBackend
from slca.simulator.options import SimulatorConfig
from slca.simulator.simulator import BackendFailed, Simulator
from slca.simulator.toolset import Toolset

TOOL = {"name": "get_stock", "parameters": {"type": "object", "properties": {"symbol": {"type": "string"}}}}
PRICE, OPEN = {"type": "number", "minimum": 0}, {"type": "boolean"}
STOCK = {
    "type": "object",
    "properties": {"symbol": {"type": "string"}, "price": PRICE, "open": OPEN},
    "required": ["symbol", "price", "open"],
}
TOOLSET = Toolset([TOOL], {"get_stock": STOCK})


def make(server, **config):
    """(simulator, what it slept) against ``server``, with no real waiting."""
    slept = []
    config = SimulatorConfig(backend="openai", base_url=server.url, model="m", **{"timeout": 0.6, "retries": 2, **config})
    return Simulator(config, backend=OpenAIBackend(config, sleep=slept.append)), slept


def call(simulator, symbol="A"):
    return simulator.episode(TOOLSET).call("get_stock", {"symbol": symbol})


def test_an_answer_comes_under_the_schema_with_seed_and_usage(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "very-secret")
    with endpoint() as server:
        simulator, _ = make(server)
        response = call(simulator)
        headers, body = server.requests[0]
    assert response.value == {"symbol": "A", "price": 1.5, "open": True} and response.source == "openai"
    assert headers["Authorization"] == "Bearer very-secret"
    assert "very-secret" not in simulator.backend.identity + json.dumps(body)
    assert body["response_format"]["json_schema"]["schema"]["required"] == ["symbol", "price", "open"]
    assert body["model"] == "m" and body["seed"] == 0 and body["max_tokens"] == 256
    found = simulator.metrics.summary()
    assert (found["prompt_tokens"], found["tokens"], found["schema_valid_before"]) == (11, 7, 1.0)


@pytest.mark.parametrize("bad", ["hang", "drip", "reset", "limit", "error", "half", "list", "empty", "huge"])
def test_what_can_pass_is_tried_again(bad):
    with endpoint([bad, bad]) as server:
        simulator, slept = make(server)
        assert call(simulator).source == "openai"
        assert len(server.requests) == 3 and len(slept) == 2
        if bad == "limit":
            assert min(slept) >= 2.0  # as Retry-After asked


@pytest.mark.parametrize("bad, kind", [("hang", "timeout"), ("reset", "connection"), ("limit", "HTTP 429"),
                                       ("error", "HTTP 500"), ("half", "bad body"), ("huge", "too large")])  # fmt: skip
def test_after_the_retries_the_schema_answers_and_it_is_counted(bad, kind):
    with endpoint(rest=bad) as server:
        simulator, _ = make(server, retries=1)
        response = call(simulator)
        assert len(server.requests) == 2
    assert response.ok and response.source == "fallback" and TOOLSET["get_stock"].fits(response.value)
    found = simulator.metrics.summary()
    assert found["failures"] == {kind: 1} and found["fallbacks"] == 1 and found["schema_valid_after"] == 1.0


def test_prose_falls_back_and_fenced_json_is_read():
    with endpoint(["prose", "fenced"]) as server:
        simulator, _ = make(server)
        assert [call(simulator, s).source for s in "AB"] == ["fallback", "openai"]
    found = simulator.metrics.summary()
    assert (found["fallbacks"], found["repaired"], found["schema_valid_before"]) == (1, 1, 0.0)


def test_a_refused_key_is_not_tried_again_and_not_waited_for():
    with endpoint(rest="key") as server:
        simulator, slept = make(server)
        assert call(simulator).source == "fallback" and len(server.requests) == 1 and not slept
        for how in ("fail", "pause"):
            with pytest.raises(BackendFailed, match=r"did not answer get_stock: HTTP 401; mend its settings"):
                call(make(server, on_failure=how)[0])


def test_fail_says_so_after_the_retries():
    with endpoint(rest="error") as server, pytest.raises(BackendFailed, match="HTTP 500; start it again"):
        call(make(server, on_failure="fail")[0])


def test_pause_waits_until_the_endpoint_is_back_and_loses_nothing(capsys):
    with endpoint(["error"] * 25) as server:
        simulator, slept = make(server, on_failure="pause", concurrency=4, breaker=3, cooldown=0.01)
        calls = [(simulator.episode(TOOLSET), "get_stock", {"symbol": s}) for s in "ABCDEFGH"]
        responses = simulator.call_batch(calls)
    assert {r.source for r in responses} == {"openai"} and slept
    assert simulator.metrics.summary()["fallbacks"] == 0
    assert "waiting until it does" in capsys.readouterr().err


def test_the_response_format_is_the_strictest_that_the_endpoint_takes():
    for behaviour, kept, seen in (("plain", 1, 2), ("none", 2, 3)):
        with endpoint(rest=behaviour) as server:
            simulator, _ = make(server)
            assert call(simulator).source == "openai" and len(server.requests) == seen
            assert call(simulator, "B").source == "openai" and len(server.requests) == seen + 1  # remembered
            assert simulator.backend.format == kept


def test_without_schema_no_format_is_asked_for():
    with endpoint() as server:
        simulator, _ = make(server, mode="without_schema")
        call(simulator)
        assert "response_format" not in server.requests[0][1]


def test_no_more_requests_at_once_than_allowed():
    with endpoint(rest="slow") as server:
        backend = make(server, concurrency=3)[0].backend
        asked = [Request("get_stock", {"symbol": str(i)}, TOOLSET["get_stock"], 0) for i in range(12)]
        assert len(backend.answer(asked)) == 12 and backend.answer([]) == []
        assert server.most == 3


def test_an_open_circuit_asks_nobody_until_it_has_cooled_down():
    with endpoint(["error"] * 3) as server:
        simulator, _ = make(server, retries=0, breaker=3, cooldown=1000.0)
        backend = simulator.backend
        assert [call(simulator, s).source for s in "ABCDE"] == ["fallback"] * 5 and len(server.requests) == 3
        assert simulator.metrics.summary()["failures"] == {"HTTP 500": 3, "circuit open": 2}
        backend.breaker._until = 0.0
        assert call(simulator, "F").source == "openai" and not backend.breaker.open


def test_the_breaker_lets_one_call_try():
    now = [0.0]
    breaker = Breaker(2, 10.0, lambda: now[0])
    for _ in range(2):
        assert breaker.wait() == 0.0
        breaker.failure()
    assert breaker.wait() == 10.0
    now[0] = 10.0
    assert breaker.wait() == 0.0 and breaker.wait() > 0  # one probe only
    breaker.failure()
    assert breaker.wait() == 10.0
    now[0] = 20.0
    assert breaker.wait() == 0.0
    breaker.success()
    assert breaker.wait() == breaker.wait() == 0.0


def test_an_interrupt_does_not_wait_for_a_dead_endpoint():
    with endpoint(rest="error") as server:
        config = SimulatorConfig(backend="openai", base_url=server.url, on_failure="pause", concurrency=2)
        backend = OpenAIBackend(config)
        asked = [Request("get_stock", {"symbol": str(i)}, TOOLSET["get_stock"], 0) for i in range(2)]
        done = threading.Thread(target=backend.answer, args=(asked,), daemon=True)
        done.start()
        backend._stopped.wait(0.2)
        backend._stopped.set()
        done.join(10)
        assert not done.is_alive()


def test_a_key_is_not_sent_in_the_clear_and_addresses_are_checked(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "very-secret")
    for url, sent in (("http://example.com/v1", False), ("https://example.com/v1", True), ("http://127.0.0.1:1/v1", True)):
        backend = OpenAIBackend(SimulatorConfig(base_url=url))
        assert ("authorization" in backend._client.headers) == sent
    for url in ("", "example.com", "ftp://example.com", "file:///etc/passwd"):
        with pytest.raises(ValueError, match=r"simulator.base_url .* http://127.0.0.1:8000/v1"):
            Simulator(SimulatorConfig(backend="openai", base_url=url))
