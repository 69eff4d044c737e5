"""What recorded answers teach: response schemas of tools without one, and how like them the simulated answers are."""

import json
from types import SimpleNamespace

import pytest

from slca.simulator.fidelity import measure_fidelity
from slca.simulator.metrics import lines, merge
from slca.simulator.options import SimulatorConfig
from slca.simulator.simulator import Simulator
from slca.simulator.toolset import Toolset

PAIR = {"type": "object", "properties": {"pair": {"type": "string"}}}
TOOL = {"name": "get_rate", "description": "Rate.", "parameters": PAIR}
TASK = SimpleNamespace(tools=[{"type": "function", "function": TOOL}], returns={})


def row(i):
    return {"tool": "get_rate", "arguments": {"pair": f"P{i}"}, "response": {"quote": i, "bid": {"at": str(i)}}}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "calls.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in map(row, range(40))))
    return str(path)


def call(simulator, pair):
    return simulator.episode(Toolset([TOOL])).call("get_rate", {"pair": pair})


def test_a_tool_without_response_schema_answers_as_its_recorded_answers_do(file):
    taught, untaught = (call(Simulator(SimulatorConfig(recordings=f)), "new").value for f in (file, ""))
    assert set(taught) == {"quote", "bid"} and isinstance(taught["quote"], int) and isinstance(taught["bid"]["at"], str)
    assert set(untaught) != set(taught)


def test_what_was_learned_is_kept_with_the_cache(file, tmp_path):
    config = SimulatorConfig(recordings=file, cache=str(tmp_path / "cache.sqlite"))
    first, second = Simulator(config), Simulator(config)
    assert call(first, "new").content == call(second, "new").content
    tool = Toolset([TOOL])["get_rate"]
    assert first._learned(tool).digest == second._learned(tool).digest != tool.digest


def test_a_given_response_schema_is_not_overruled(file):
    returns = {"get_rate": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}}
    episode = Simulator(SimulatorConfig(recordings=file)).episode(Toolset([TOOL], returns))
    assert set(episode.call("get_rate", {"pair": "new"}).value) == {"x"}


def test_fidelity_is_measured_on_held_out_answers_and_not_counted_as_calls(file):
    simulator = Simulator(SimulatorConfig(recordings=file, held_out=0.25))
    held_out = len(simulator.recordings.held_out)
    assert 0 < held_out < 40 and held_out + len(simulator.recordings) == 40
    assert measure_fidelity(simulator, [TASK]) == {"n": held_out, "field_overlap": 1.0, "type_agreement": 1.0}
    found = simulator.metrics.summary()
    assert found["calls"] == 0 and found["fidelity"]["n"] == held_out
    assert "fields overlap 100.0 %" in "\n".join(lines(found))
    assert merge(found, Simulator().metrics.summary())["fidelity"] == found["fidelity"]


def test_a_simulator_that_knows_nothing_of_the_answers_agrees_less(file):
    simulator = Simulator(SimulatorConfig(recordings=file, held_out=1.0))
    assert measure_fidelity(simulator, [TASK])["field_overlap"] == 0.0
    assert measure_fidelity(simulator, []) is None
