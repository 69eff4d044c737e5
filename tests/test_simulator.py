"""The simulator: the chain, linked ids, isolated episodes, one answer per group."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slca.simulator.backends import BACKENDS, Draft
from slca.simulator.ids import is_mentioned
from slca.simulator.options import SimulatorConfig
from slca.simulator.schema_backend import answer
from slca.simulator.simulator import Simulator, episode_of
from slca.simulator.toolset import Toolset
from slca.simulator.validation import CODES
from slca.tasks.task import Call, Task


def tool(name, required=(), **properties):
    parameters = {"type": "object", "properties": properties, "required": list(required)}
    return {"type": "function", "function": {"name": name, "description": name, "parameters": parameters}}


TEXT = {"type": "string"}
TOOLS = [
    tool("search_orders", ["customer"], customer=TEXT, limit={"type": "integer", "minimum": 1}),
    tool("cancel_order", ["order_id"], order_id=TEXT, reason=TEXT),
    tool("ship", ["parcels"], parcels={"type": "array", "items": {"type": "object", "properties": {"order_id": TEXT}}}),
    tool("merge", ["order_ids"], order_ids={"type": "array", "items": TEXT}),
    tool("track", ["ref"], ref={"type": "string", "x-id": "TRK"}),
    tool("ping", note=TEXT, count={"type": "number"}, status=TEXT, deep={"type": "object"}),
]
ORDER = {"type": "object", "properties": {"order_id": {"type": "string", "x-id": "ORD"}, "total": {"type": "number"}}}
RETURNS = {
    "search_orders": {"type": "object", "properties": {"orders": {"type": "array", "items": ORDER}}},
    "cancel_order": {
        "type": "object",
        "properties": {
            "order_id": {"type": "string", "x-id": "ORD", "x-echo": "order_id"},
            "receipt": {"type": "string", "x-id": "RCP"},
            "trace": {"type": "string", "x-id": "TRK"},
            "state": {"type": "string", "enum": ["cancelled"]},
        },
    },
    "ship": {"type": "object", "properties": {"ok": {"type": "boolean"}}},
    "merge": {"type": "object", "properties": {"order_id": {"type": "string"}}},
    "track": {"type": "object", "properties": {"city": {"type": "string"}}},
}


def make_task(**changes):
    fields = {
        "id": "t1",
        "messages": [
            {"role": "system", "content": "ids: ORD-0000"},
            {"role": "user", "content": "Cancel ORD-7, please."},
        ],
        "tools": TOOLS,
        "gold": [[Call("search_orders", {"customer": "Ana"})]],
        "returns": RETURNS,
        "sim_seed": 5,
    }
    return Task(**(fields | changes))


@pytest.fixture
def episode():
    return episode_of(make_task())


def test_an_answer(episode):
    response = episode.call("search_orders", {"customer": "Ana"})
    assert response.ok and response.code is None
    assert response.value == answer("search_orders", {"customer": "Ana"}, RETURNS["search_orders"], 5)
    assert (
        response.content == json.dumps(response.value, ensure_ascii=False)
        and json.loads(response.content) == response.value
    )


def test_ids_link_within_an_episode(episode):
    ids = [o["order_id"] for o in episode.call("search_orders", {"customer": "Ana"}).value["orders"]]
    done = episode.call("cancel_order", {"order_id": ids[-1]})
    assert done.ok and done.value["order_id"] == ids[-1] and done.value["state"] == "cancelled"
    assert episode.call("ship", {"parcels": [{"order_id": ids[0]}, {"order_id": "ORD-7"}]}).ok
    assert episode.call("merge", {"order_ids": [ids[0], "ORD-7"]}).ok
    assert episode.call("track", {"ref": done.value["trace"]}).ok


def test_ids_that_no_tool_returned_are_not_found(episode):
    episode.call("search_orders", {"customer": "Ana"})
    for name, arguments, path in [
        ("cancel_order", {"order_id": "ORD-1"}, "order_id"),
        ("cancel_order", {"order_id": "ord-7"}, "order_id"),
        ("cancel_order", {"order_id": ""}, "order_id"),
        ("cancel_order", {"order_id": "ORD"}, "order_id"),
        ("cancel_order", {"order_id": "ORD-0000"}, "order_id"),
        ("ship", {"parcels": [{"order_id": "ORD-7"}, {"order_id": "ORD-8"}]}, "parcels.1.order_id"),
        ("merge", {"order_ids": ["ORD-7", "nope"]}, "order_ids.1"),
        ("track", {"ref": "TRK-1"}, "ref"),
    ]:
        response = episode.call(name, arguments)
        assert (response.ok, response.code) == (False, "not_found"), (name, arguments)
        assert response.value == {"error": "not_found", "message": f"{path} not found; use an id that a tool returned"}


def test_a_failed_call_teaches_no_id():
    schema = {"type": "object", "properties": {"order_id": {"type": "string", "x-echo": "customer"}}}
    episode = Simulator().episode(Toolset(TOOLS, RETURNS | {"search_orders": schema}), 0)
    assert not episode.call("search_orders", {"customer": "ORD-9", "limit": 0}).ok
    assert episode.call("cancel_order", {"order_id": "ORD-9"}).code == "not_found"
    assert episode.call("search_orders", {"customer": "ORD-9"}).ok
    assert episode.call("cancel_order", {"order_id": "ORD-9"}).ok


def test_the_user_may_name_an_id(episode):
    assert episode.call("cancel_order", {"order_id": "ORD-7"}).ok
    parts = [{"role": "user", "content": [{"type": "text", "text": "订单ORD-12请取消"}, {"type": "image"}]}]
    earlier = [{"role": "tool", "content": '{"order_id": "ORD-34"}'}, {"role": "user", "content": None}]
    other = episode_of(make_task(messages=parts + earlier))
    assert other.call("cancel_order", {"order_id": "ORD-12"}).ok
    assert other.call("cancel_order", {"order_id": "ORD-34"}).ok
    assert not other.call("cancel_order", {"order_id": "ORD-1"}).ok


def test_ids_that_the_tool_itself_offers_are_known():
    choices = tool("note", list_id={"type": "string", "enum": ["work"]}, board_id={"type": "string", "default": "main"})
    episode = Simulator().episode(Toolset([choices], RETURNS))
    assert episode.call("note", {"list_id": "work", "board_id": "main"}).ok
    assert episode.call("note", {"list_id": "home"}).code == "not_in_enum"
    assert episode.call("note", {"board_id": "other"}).code == "not_found"


@pytest.mark.parametrize(
    ("identifier", "text", "found"),
    [
        ("A-1", "A-1", True),
        ("A-1", "(A-1), thanks", True),
        ("A-1", "A-1's owner", True),
        ("A-1", "A-12", False),
        ("A-1", "BA-1", False),
        ("1", "A-1", False),
        (".*", "anything", False),
        ("", "anything", False),
    ],
)
def test_is_mentioned(identifier, text, found):
    assert is_mentioned(identifier, text) is found


def test_recorded_data_without_returns_checks_no_ids():
    episode = episode_of(make_task(returns={}))
    assert episode.call("cancel_order", {"order_id": "whatever"}).value == {"order_id": "whatever", "status": "cancelled"}


def test_a_tool_without_returns_answers_by_its_name_and_description():
    tools = [tool("create_note", text=TEXT), tool("weather", city=TEXT), tool("search_hotels", city=TEXT)]
    tools[1]["function"]["description"] = "Returns the temperature and the wind_speed for a city."
    episode = Simulator().episode(Toolset(tools))
    created = episode.call("create_note", {"text": "x"}).value
    assert set(created) == {"note_id", "status"} and created["status"] == "created"
    weather = episode.call("weather", {"city": "Oslo"}).value
    assert set(weather) == {"temperature", "wind_speed"} and isinstance(weather["temperature"], (int, float))
    hotels = episode.call("search_hotels", {"city": "Oslo"}).value["results"]
    assert hotels and all({"hotel_id", "price"} <= set(h) for h in hotels)


def test_episodes_do_not_see_each_other():
    first, second = Simulator().episodes(make_task(), 2)
    found = first.call("search_orders", {"customer": "Ana"}).value["orders"][0]["order_id"]
    assert second.call("cancel_order", {"order_id": found}).code == "not_found"
    assert first.call("cancel_order", {"order_id": found}).ok
    assert len(first.log) == 2 and len(second.log) == 1


@settings(max_examples=40, deadline=None)
@given(st.permutations(["Ana", "Ben", "Chloe", "David"]), st.integers(0, 2**40))
def test_a_group_gets_one_answer_per_call_whatever_came_before(order, seed):
    fresh = {c: Simulator().episode(Toolset(TOOLS, RETURNS), seed).call("search_orders", {"customer": c}) for c in order}
    episode = Simulator().episode(Toolset(TOOLS, RETURNS), seed)
    for customer in order:
        assert episode.call("search_orders", {"customer": customer, "limit": 3}).ok
        assert episode.call("search_orders", {"customer": customer}) == fresh[customer]
    one = episode.call("search_orders", {"limit": 3.0, "customer": "Ana"})
    assert one.content == episode.call("search_orders", {"customer": "Ana", "limit": 3}).content


@pytest.mark.parametrize(
    ("name", "arguments", "content"),
    [
        ("serch_orders", {}, '{"error": "unknown_tool", "message": "no tool serch_orders (search_orders?)"}'),
        (None, {}, '{"error": "unknown_tool", "message": "no tool None"}'),
        ("search_orders", {}, '{"error": "missing_argument", "message": "customer is required"}'),
        ("search_orders", None, '{"error": "wrong_type", "message": "arguments must be an object"}'),
        (
            "search_orders",
            {"custommer": "Ana"},
            '{"error": "missing_argument", "message": "customer is required; custommer is not an argument (customer?)"}',
        ),
    ],
)
def test_errors_as_the_policy_reads_them(episode, name, arguments, content):
    response = episode.call(name, arguments)
    assert response.content == content and not response.ok
    assert response.code == response.value["error"] and json.loads(content) == response.value


def test_parse_errors_are_responses_too(episode):
    response = episode.parse_error("bad_json", "no closing brace")
    assert response.content == '{"error": "bad_json", "message": "no closing brace"}'
    assert (response.ok, response.code) == (False, "bad_json")
    assert [(r.name, r.arguments, r.response) for r in episode.log] == [(None, None, response)]


def test_the_log_holds_calls_in_order(episode):
    for arguments in ({"customer": "Ana"}, {}):
        episode.call("search_orders", arguments)
    assert [(r.name, r.arguments, r.response.code) for r in episode.log] == [
        ("search_orders", {"customer": "Ana"}, None),
        ("search_orders", {}, "missing_argument"),
    ]


junk = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=[]))
    | st.just("ORD-7"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["customer", "order_id", "limit", "parcels"]) | st.text(max_size=5), inner, max_size=4
        )
    ),
    max_leaves=10,
)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([t["function"]["name"] for t in TOOLS]) | st.text(), junk)
def test_no_call_breaks_the_simulator(name, arguments):
    response = episode_of(make_task()).call(name, arguments)
    assert json.loads(response.content.encode("utf-8")) == response.value
    assert response.ok == (response.code is None)
    assert response.ok or (response.code in (*CODES, "not_found") and len(response.content) < 220)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Toolset([TOOLS[0], TOOLS[0]]), "'search_orders' is given twice"),
        (lambda: Toolset([{"name": 3}]), "a tool must read"),
        (lambda: Simulator(SimulatorConfig(backend="llama")), "no simulator backend 'llama'; choose one of schema"),
    ],
)
def test_bad_set_up_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_another_backend_can_be_registered(monkeypatch):
    class Loud:
        identity, uses_context = "loud", False

        def answer(self, requests):
            return [Draft(value={"order_id": f"{r.name}-{r.seed}".upper()}) for r in requests]

    monkeypatch.setitem(BACKENDS, "loud", lambda config: Loud())
    episode = Simulator(SimulatorConfig(backend="loud")).episode(Toolset(TOOLS, RETURNS), 3)
    response = episode.call("merge", {"order_ids": []})
    assert response.value == {"order_id": "MERGE-3"} and response.source == "loud"
    assert episode.call("cancel_order", {"order_id": "MERGE-3"}).ok is True
