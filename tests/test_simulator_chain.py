"""Lenient arguments, faults, replay, cache, check and repair of what a backend wrote, modes, metrics."""

import json
import multiprocessing
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slca.simulator.backends import Draft
from slca.simulator.cache import Cache, key_of
from slca.simulator.coerce import coerce_arguments
from slca.simulator.faults import Faults
from slca.simulator.metrics import Metrics, lines, merge
from slca.simulator.options import SimulatorConfig
from slca.simulator.output import NOTHING, fit, read_json
from slca.simulator.replay import Recorded, Recordings, agreement, from_messages
from slca.simulator.schema_backend import answer
from slca.simulator.simulator import BackendFailed, Simulator
from slca.simulator.toolset import Toolset
from slca.simulator.validation import compile_tool, plain_validator

TEXT, INTEGER = {"type": "string"}, {"type": "integer"}


def obj(**properties):
    return {"type": "object", "properties": properties, "required": list(properties)}


TOOL = {"name": "get_stock", "parameters": obj(symbol=TEXT)}
STOCK = obj(
    symbol={"type": "string", "x-echo": "symbol"}, price={"type": "number", "minimum": 0}, open={"type": "boolean"}
)
TOOLSET = Toolset([TOOL], {"get_stock": STOCK})


class Written:
    """A backend that writes given texts, the last one for ever, and counts."""

    identity, uses_context = "written", False

    def __init__(self, *texts):
        self.texts, self.requests = list(texts), []

    def answer(self, requests):
        self.requests += requests
        return [self._draft() for _ in requests]

    def _draft(self):
        text = self.texts.pop(0) if len(self.texts) > 1 else self.texts[0]
        return text if isinstance(text, Draft) else Draft(text=text, tokens=3, prompt_tokens=5)


def simulator(*texts, **config):
    return Simulator(SimulatorConfig(**config), backend=Written(*texts))


def ask(simulator, symbol="A", key="", name="get_stock"):
    return simulator.episode(TOOLSET, key=key).call(name, {"symbol": symbol})


# --- what a model wrote -------------------------------------------------------------------------------------------

GOOD = '{"symbol": "A", "price": 2.5, "open": true}'


@pytest.mark.parametrize(
    ("text", "value", "counted"),
    [
        (GOOD, json.loads(GOOD), "valid_before"),
        (f"Sure! Here it is:\n```json\n{GOOD}\n```", json.loads(GOOD), "repaired"),
        ('{"symbol": "A", "price": "2.5", "open": "yes"}', {"symbol": "A", "price": 2.5, "open": True}, "repaired"),
        ('{"symbol": "A", "price": 2.5, "open": true, "sym', {"symbol": "A", "price": 2.5, "open": True}, "repaired"),
        ('{"symbol": "A", "price": -3, "open": true}', {"symbol": "A", "price": 0, "open": True}, "repaired"),
    ],
)
def test_drafts_are_checked_and_mended(text, value, counted):
    sim = simulator(text)
    response = ask(sim)
    assert response.value == value and response.ok and response.source == "written"
    assert sim.metrics.counts[counted] == 1 and sim.metrics.counts["fallbacks"] == 0


@pytest.mark.parametrize("text", ["I am sorry, I cannot do that.", "", "[1, 2]", "NaN", '{"price": ' * 5000, "null"])
def test_what_cannot_be_mended_is_taken_from_the_schema_and_counted(text):
    sim = simulator(text)
    response = ask(sim)
    assert response.value == answer("get_stock", {"symbol": "A"}, STOCK, 0) and response.source == "fallback"
    assert sim.metrics.counts["fallbacks"] == 1 and sim.metrics.summary()["schema_valid_after"] == 1.0
    assert sim.metrics.summary()["schema_valid_before"] == 0.0


def test_missing_fields_come_from_the_schema_backend():
    spare = answer("get_stock", {"symbol": "A"}, STOCK, 0)
    assert ask(simulator('{"open": true}')).value == {**spare, "open": True}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc") | st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)
SHAPE = obj(
    a={"type": ["integer", "null"]}, b={"type": "array", "items": obj(c=TEXT), "maxItems": 2, "uniqueItems": True},
    c={"anyOf": [{"type": "number"}, {"type": "string", "maxLength": 3}]}, d={"enum": ["x", 1]},
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(
    json_values
    | st.fixed_dictionaries({}, optional={"a": json_values, "b": json_values, "c": json_values, "d": json_values})
)
def test_fit_always_fits_and_leaves_what_fits(value):
    spare = answer("f", {}, SHAPE, 0)
    fitted = fit(value, SHAPE, spare)
    check = plain_validator(SHAPE)
    assert check.is_valid(fitted)
    assert not check.is_valid(value) or fitted == value


@settings(max_examples=200, deadline=None)
@given(json_values, st.integers(0, 60), st.text(max_size=4))
def test_read_json_never_raises(value, cut, noise):
    text = json.dumps(value)
    assert read_json(text) == (value, True) or value != value
    read, _ = read_json(noise + text[:cut])
    assert read is NOTHING or json.dumps(read)


# --- failing backends ---------------------------------------------------------------------------------------------


def test_a_backend_that_fails_falls_back_or_stops_as_configured():
    sim = simulator(Draft(failed="timeout"), GOOD)
    assert ask(sim).source == "fallback" and ask(sim, "B").ok
    assert sim.metrics.summary()["failures"] == {"timeout": 1}
    with pytest.raises(
        BackendFailed, match="the written backend did not answer get_stock: timeout; start it again, or go on"
    ):
        ask(simulator(Draft(failed="timeout"), on_failure="fail"))


def test_a_fallback_is_shared_but_not_kept_for_the_next_process(tmp_path):
    file = str(tmp_path / "cache.sqlite")
    sim = simulator(Draft(failed="timeout"), GOOD, cache=file)
    assert ask(sim).content == ask(sim).content
    again = simulator(GOOD, cache=file)
    assert ask(again).content == GOOD and ask(simulator("nothing", cache=file)).content == GOOD


# --- cache --------------------------------------------------------------------------------------------------------


def test_equal_calls_are_asked_once_and_answered_alike():
    sim = simulator(GOOD, '{"symbol": "A", "price": 9, "open": false}')
    episodes = [sim.episode(TOOLSET) for _ in range(8)]
    first = sim.call_batch([(e, "get_stock", {"symbol": "A"}) for e in episodes])
    assert len(sim.backend.requests) == 1 and {r.content for r in first} == {GOOD}
    assert ask(sim).source == "cache"
    assert sim.metrics.summary()["cache_hit_rate"] == 8 / 9 and sim.metrics.summary()["determinism"] == 1.0
    assert ask(sim, "B").content != GOOD


def test_without_a_cache_every_call_is_asked():
    sim = simulator(GOOD, '{"symbol": "A", "price": 9, "open": false}', cache="")
    assert ask(sim).content != ask(sim).content
    assert sim.metrics.summary()["determinism"] == 0.0


def test_calls_of_one_episode_in_one_batch_keep_their_order():
    sim = Simulator()
    tools = Toolset(
        [{"name": "delete_file", "parameters": obj(path=TEXT)}, {"name": "read_file", "parameters": obj(path=TEXT)}]
    )
    episode = sim.episode(tools)
    calls = [("read_file", "/a"), ("delete_file", "/a"), ("read_file", "/a"), ("read_file", "/b")]
    responses = sim.call_batch([(episode, name, {"path": path}) for name, path in calls])
    assert [r.code for r in responses] == [None, None, "not_found", None]
    assert [(r.name, r.arguments["path"]) for r in episode.log] == calls


def _put(file, n, queue):
    cache = Cache(file)
    queue.put([cache.put(key_of(str(i)), f"{n}/{i}", "x")[0] for i in range(200)])


def test_processes_agree_on_the_first_answer(tmp_path):
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    workers = [context.Process(target=_put, args=(str(tmp_path / "c.sqlite"), n, queue)) for n in range(4)]
    for w in workers:
        w.start()
    answers = [queue.get(timeout=120) for _ in workers]
    for w in workers:
        w.join()
    assert all(a == answers[0] for a in answers)
    assert Cache(tmp_path / "c.sqlite").by_origin() == {"x": 200}


def test_the_cache_is_bounded_and_survives(tmp_path):
    file = tmp_path / "c.sqlite"
    cache = Cache(file, entries=50)
    for i in range(200):
        cache.put(key_of(str(i)), str(i), "x")
    assert len(cache) <= 60 and cache.get(key_of("199")) == ("199", "x") and cache.get(key_of("0")) is None
    cache.close()
    assert Cache(file).get(key_of("199")) == ("199", "x")
    memory = Cache(entries=50)
    for i in range(200):
        memory.put(key_of(str(i)), str(i), "x")
    assert len(memory) <= 50 and memory.get(key_of("199")) is not None
    (tmp_path / "bad").write_text("this is no database, and long enough to be seen as none" * 20)
    with pytest.raises(ValueError, match="no simulator cache"):
        Cache(tmp_path / "bad")


# --- lenient arguments --------------------------------------------------------------------------------------------

LOOSE = {
    "name": "book",
    "parameters": {
        "type": "object",
        "properties": {
            "n": INTEGER, "price": {"type": "number"}, "ok": {"type": "boolean"}, "size": {"enum": ["small", "large"]},
            "tags": {"type": "array", "items": TEXT}, "who": obj(age=INTEGER), "note": TEXT,
            "either": {"anyOf": [INTEGER, {"type": "null"}]},
        },
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({"n": "5"}, {"n": 5}),
        ({"n": "5.0"}, {"n": 5}),
        ({"price": "1,250.5"}, {"price": 1250.5}),
        ({"ok": "Yes"}, {"ok": True}),
        ({"size": "Small"}, {"size": "small"}),
        ({"tags": "a"}, {"tags": ["a"]}),
        ({"tags": '["a", "b"]'}, {"tags": ["a", "b"]}),
        ({"tags": [1, "b"]}, {"tags": ["1", "b"]}),
        ({"who": '{"age": "7"}'}, {"who": {"age": 7}}),
        ({"note": 5}, {"note": "5"}),
        ({"either": "3"}, {"either": 3}),
        ('{"n": 5}', {"n": 5}),
        ({"n": 5}, {"n": 5}),
    ],
)
def test_lenient_arguments(given, read):
    before = json.dumps(given)
    out, notes = coerce_arguments(compile_tool(LOOSE), given)
    assert out == read and bool(notes) == (given != read) and json.dumps(given) == before
    strict, lenient = (
        Simulator(SimulatorConfig(lenient=on)).episode(Toolset([LOOSE])).call("book", given) for on in (False, True)
    )
    assert strict.ok == (given == read) and lenient.ok and bool(lenient.notes) == bool(notes)


@pytest.mark.parametrize(
    "given", [{"n": "five"}, {"n": 5.5}, {"ok": "maybe"}, {"size": "huge"}, {"who": []}, {"x": 1}, None, [1], "n"]
)
def test_what_is_not_plain_is_refused_all_the_same(given):
    response = Simulator(SimulatorConfig(lenient=True)).episode(Toolset([LOOSE])).call("book", given)
    assert not response.ok


@settings(max_examples=150, deadline=None)
@given(json_values)
def test_lenient_mode_never_raises_and_what_passes_is_valid(given):
    compiled = compile_tool(LOOSE)
    out, notes = coerce_arguments(compiled, {"n": given, "tags": given, "who": given})
    assert not notes or out != given
    assert isinstance(compiled.errors(out), list)


# --- faults -------------------------------------------------------------------------------------------------------


def test_faults_come_at_their_rates_and_by_their_seed():
    rates = {"timeout": 0.2, "truncated": 0.1, "empty": 0.05}
    drawn = Counter(Faults(rates, 1).draw(str(e), n) for e in range(400) for n in range(10))
    for kind, rate in rates.items():
        assert abs(drawn[kind] / 4000 - rate) < 0.03
    assert Faults(rates, 1).draw("3", 4) == Faults(rates, 1).draw("3", 4)
    assert [Faults(rates, 1).draw("e", n) for n in range(50)] != [Faults(rates, 2).draw("e", n) for n in range(50)]


@pytest.mark.parametrize(
    ("kind", "content", "asked"),
    [
        ("timeout", '{"error": "timeout", "message": "the tool did not answer in time; try again"}', 0),
        ("rate_limit", '{"error": "rate_limit", "message": "too many requests (429); try again later"}', 0),
        ("server_error", '{"error": "server_error", "message": "internal server error (500)"}', 0),
        ("empty", "", 0),
        ("truncated", GOOD[: len(GOOD) // 2], 1),
    ],
)
def test_a_fault_as_the_policy_sees_it(kind, content, asked):
    sim = simulator(GOOD, faults={kind: 1.0})
    response = ask(sim)
    assert (response.content, response.ok, response.code, response.source) == (content, False, kind, "fault")
    assert len(sim.backend.requests) == asked and sim.metrics.summary()["faults"] == {kind: 1}


@pytest.mark.parametrize(
    ("rates", "message"),
    [
        ({"flood": 0.1}, "no fault 'flood'"),
        ({"empty": 2}, "must lie in 0..1"),
        ({"empty": 0.6, "timeout": 0.6}, "more than 1"),
    ],
)
def test_bad_fault_rates_are_refused(rates, message):
    with pytest.raises(ValueError, match=message):
        Simulator(SimulatorConfig(faults=rates))


# --- replay -------------------------------------------------------------------------------------------------------


def recording(tmp_path, *rows):
    file = tmp_path / "calls.jsonl"
    file.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return str(file)


def test_recorded_calls_are_replayed_by_canonical_arguments(tmp_path):
    tools = Toolset([{"name": "f", "parameters": {"properties": {"a": {"type": "number"}, "b": TEXT}}}])
    file = recording(tmp_path, {"tool": "f", "arguments": {"b": "x", "a": 1.0}, "response": "plain text"},
                     {"tool": "f", "arguments": {"a": 1, "b": "x"}, "response": {"late": True}},
                     {"tool": "f", "arguments": {}, "response": {"n": [1]}})  # fmt: skip
    sim = Simulator(SimulatorConfig(recordings=file, backend="replay"))
    episode = sim.episode(tools)
    assert episode.call("f", {"a": 1, "b": "x"}).content == "plain text"
    assert episode.call("f", {}).value == {"n": [1]} and episode.log[-1].response.source == "replay"
    assert episode.call("f", {"a": 2}).source == "fallback"
    assert sim.metrics.summary()["replayed"] == 2 and sim.metrics.summary()["failures"] == {"not recorded": 1}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("{", "line 2: not JSON"),
        ([], "line 2: must be an object"),
        ({"arguments": {}}, 'line 2: "tool" must be'),
        ({"tool": "f", "arguments": 3}, 'line 2: "arguments" must be'),
        ({"tool": "f", "arguments": {}}, 'line 2: "response" must be'),
    ],
)
def test_bad_recordings_name_their_line(tmp_path, row, message):
    file = recording(tmp_path, {"tool": "f", "arguments": {}, "response": 1}, row)
    with pytest.raises(ValueError, match=f"calls.jsonl, {message}"):
        Simulator(SimulatorConfig(recordings=file))
    with pytest.raises(ValueError, match="needs recordings"):
        Simulator(SimulatorConfig(backend="replay"))


def test_held_out_calls_are_not_replayed():
    calls = [Recorded("f", {"n": n}, n) for n in range(400)]
    recordings = Recordings(calls, held_out=0.25)
    assert len(recordings) + len(recordings.held_out) == 400 and 60 < len(recordings.held_out) < 140
    assert all(recordings.get("f", c.arguments) is None for c in recordings.held_out)
    assert [c.arguments for c in Recordings(reversed(calls), 0.25).held_out][::-1] == [
        c.arguments for c in recordings.held_out
    ]


def test_calls_of_a_message_history():
    def call(i, name, arguments):
        return {"id": i, "type": "function", "function": {"name": name, "arguments": arguments}}

    messages = [
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "tool_calls": [call("1", "f", '{"a": 1}'), call("2", "g", "{}"), call("3", "h", "not json")],
        },
        {"role": "tool", "tool_call_id": "2", "content": "text"},
        {"role": "tool", "tool_call_id": "1", "content": '{"b": 2}'},
        {"role": "tool", "content": "too many"},
        "junk",
    ]
    assert list(from_messages(messages)) == [Recorded("g", {}, "text"), Recorded("f", {"a": 1}, {"b": 2})]


def test_agreement():
    assert agreement({"a": 1}, {"a": 2}) == (1.0, 1.0)
    assert agreement({"a": 1}, {"b": 1}) == (0.0, 0.0)
    assert agreement([], []) == (1.0, 1.0)


# --- modes, metrics -----------------------------------------------------------------------------------------------


def test_without_schema_nothing_is_checked_kept_or_shared():
    sim = simulator("It is fine.", mode="without_schema")
    response = ask(sim, name="no_such_tool")
    assert response.ok and response.content == "It is fine."
    assert sim.backend.requests[0].tool is None and sim.cache is None
    ask(sim, key="other")
    ask(sim, key="other")
    assert len(sim.backend.requests) == 3 and len({r.seed for r in sim.backend.requests}) == 2
    assert not sim.episode(TOOLSET).call("x", {"a": float("nan")}).ok


def test_backends_that_use_the_log_see_writes_and_shared_ids_only():
    sim = simulator('{"order_id": "ORD-1", "n": 1}')
    sim.backend.uses_context = True
    tools = [
        {"name": n, "parameters": {"properties": {"order_id": TEXT, "q": TEXT}}}
        for n in ("find_order", "create_order", "get_x")
    ]
    episode = sim.episode(Toolset(tools))
    for name in ("find_order", "create_order", "get_x"):
        episode.call(name, {"q": name})
    episode.call("get_x", {"order_id": "ORD-1"})
    assert [[r.name for r in request.context] for request in sim.backend.requests] == [
        [], [], ["create_order"], ["find_order", "create_order", "get_x"],
    ]  # fmt: skip


def test_summaries_add_up_and_print():
    sim = simulator(GOOD)
    for symbol in "AAB":
        ask(sim, symbol)
    one = sim.metrics.summary()
    both = merge(one, one)
    assert (both["calls"], both["fresh"], both["cache_hit_rate"]) == (6, 4, one["cache_hit_rate"])
    assert merge(None, one) == one and "3 calls" in lines(one)[0] and lines(Metrics().summary())
