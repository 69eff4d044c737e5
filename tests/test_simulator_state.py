"""Writes of an episode are seen by its later reads, and by nobody else's."""

import pytest

from slca.simulator.effects import effect_of, noun_of
from slca.simulator.options import SimulatorConfig
from slca.simulator.simulator import Simulator
from slca.simulator.toolset import Toolset

TEXT, INTEGER = {"type": "string"}, {"type": "integer"}


def tool(name, required=(), **properties):
    return {"name": name, "parameters": {"type": "object", "properties": properties, "required": list(required)}}


def obj(**properties):
    return {"type": "object", "properties": properties, "required": list(properties)}


EVENT_ID = {"type": "string", "x-id": "EV"}
EVENT = obj(event_id=EVENT_ID, title=TEXT, day=TEXT, status={"enum": ["confirmed", "cancelled"]})
TOOLS = [
    tool("create_event", ["title", "day"], title=TEXT, day=TEXT),
    tool("list_events", day=TEXT),
    tool("get_event", ["event_id"], event_id=TEXT),
    tool("update_event", ["event_id"], event_id=TEXT, new_title=TEXT, day=TEXT),
    tool("cancel_event", ["event_id"], event_id=TEXT),
    tool("delete_event", ["event_id"], event_id=TEXT),
    tool("set_temperature", ["room", "celsius"], room=TEXT, celsius=INTEGER),
    tool("read_temperature", ["room"], room=TEXT),
    tool("delete_file", ["path"], path=TEXT),
    tool("read_file", ["path"], path=TEXT),
]
RETURNS = {
    "create_event": obj(event_id=EVENT_ID, link={"type": "string", "format": "uri"}),
    "list_events": obj(events={"type": "array", "items": EVENT}),
    "get_event": EVENT,
    "update_event": obj(ok={"type": "boolean"}),
    "cancel_event": obj(ok={"type": "boolean"}),
    "delete_event": obj(ok={"type": "boolean"}),
    "set_temperature": obj(ok={"type": "boolean"}),
    "read_temperature": obj(temperature=INTEGER, humidity=INTEGER),
    "delete_file": obj(ok={"type": "boolean"}),
    "read_file": obj(text=TEXT),
}
TOOLSET = Toolset(TOOLS, RETURNS)


@pytest.fixture
def episode():
    return Simulator().episode(TOOLSET, 7)


def created(episode, title="Dinner", day="Monday"):
    return episode.call("create_event", {"title": title, "day": day}).value["event_id"]


def test_what_was_created_is_listed_and_read(episode):
    before = episode.call("list_events", {"day": "Monday"}).value["events"]
    new = created(episode)
    after = episode.call("list_events", {"day": "monday"}).value["events"]
    assert {"event_id": new, "title": "Dinner", "day": "Monday"}.items() <= after[-1].items()
    assert [e["event_id"] for e in episode.call("list_events", {"day": "Monday"}).value["events"]] == [
        *(e["event_id"] for e in before), new
    ]  # fmt: skip
    assert all(e["event_id"] != new for e in episode.call("list_events", {"day": "Friday"}).value["events"])
    read = episode.call("get_event", {"event_id": new}).value
    assert (read["title"], read["day"]) == ("Dinner", "Monday")


def test_a_change_is_read(episode):
    found = episode.call("list_events", {"day": "Monday"}).value["events"][0]["event_id"]
    episode.call("update_event", {"event_id": found, "new_title": "Lunch"})
    episode.call("cancel_event", {"event_id": found})
    for value in (
        episode.call("get_event", {"event_id": found}).value,
        episode.call("list_events", {"day": "Monday"}).value["events"][0],
    ):
        assert (value["title"], value["status"]) == ("Lunch", "cancelled")


def test_what_was_deleted_is_gone(episode):
    events = episode.call("list_events", {"day": "Monday"}).value["events"]
    new = created(episode)
    for gone in (events[0]["event_id"], new):
        assert episode.call("delete_event", {"event_id": gone}).ok
        assert episode.call("get_event", {"event_id": gone}).code == "not_found"
        assert episode.call("delete_event", {"event_id": gone}).code == "not_found"
    left = [e["event_id"] for e in episode.call("list_events", {"day": "Monday"}).value["events"]]
    assert left == [e["event_id"] for e in events[1:]]


def test_things_without_ids(episode):
    other = episode.call("read_temperature", {"room": "hall"})
    episode.call("set_temperature", {"room": "kitchen", "celsius": 31})
    assert episode.call("read_temperature", {"room": "Kitchen"}).value["temperature"] == 31
    assert episode.call("read_temperature", {"room": "hall"}) == other
    assert episode.call("delete_file", {"path": "/a"}).ok
    assert episode.call("read_file", {"path": "/a"}).code == "not_found"
    assert episode.call("read_file", {"path": "/b"}).ok


def test_a_change_that_the_schema_does_not_allow_is_not_laid_over():
    narrow = Toolset(TOOLS, RETURNS | {"read_temperature": obj(temperature={"type": "integer", "maximum": 20})})
    episode = Simulator().episode(narrow, 7)
    before = episode.call("read_temperature", {"room": "kitchen"})
    episode.call("set_temperature", {"room": "kitchen", "celsius": 31})
    assert episode.call("read_temperature", {"room": "kitchen"}) == before


def test_a_full_list_stays_within_its_bounds():
    short = RETURNS | {"list_events": obj(events={"type": "array", "items": EVENT, "minItems": 2, "maxItems": 2})}
    episode = Simulator().episode(Toolset(TOOLS, short), 7)
    created(episode)
    assert len(episode.call("list_events", {"day": "Monday"}).value["events"]) == 2


def test_episodes_do_not_see_each_others_writes():
    simulator = Simulator()
    first, second = simulator.episode(TOOLSET, 7), simulator.episode(TOOLSET, 7)
    before = second.call("list_events", {"day": "Monday"})
    new = created(first)
    first.call("delete_file", {"path": "/a"})
    assert new in first.call("list_events", {"day": "Monday"}).content
    assert second.call("list_events", {"day": "Monday"}) == before
    assert second.call("read_file", {"path": "/a"}).ok
    assert second.call("get_event", {"event_id": new}).code == "not_found"


def test_state_can_be_switched_off():
    episode = Simulator(SimulatorConfig(state=False)).episode(TOOLSET, 7)
    before = episode.call("read_temperature", {"room": "kitchen"})
    episode.call("set_temperature", {"room": "kitchen", "celsius": 31})
    assert episode.call("read_temperature", {"room": "kitchen"}) == before


@pytest.mark.parametrize(
    ("name", "function", "effect", "noun"),
    [
        ("cancel_order", {}, "update", "order"),
        ("removeCartItem", {}, "delete", "item"),
        ("listCities", {}, "read", "city"),
        ("weather", {}, "read", "weather"),
        ("book_flight", {}, "create", "flight"),
        ("get_booking", {}, "read", "booking"),
        ("frobnicate", {"x-effect": "create"}, "create", "frobnicate"),
        ("delete_all", {"annotations": {"readOnlyHint": True}}, "read", "all"),
        ("x", {"x-effect": "nonsense"}, "read", "x"),
    ],
)
def test_effects_and_nouns(name, function, effect, noun):
    assert (effect_of(name, function), noun_of(name)) == (effect, noun)
