"""The generated tasks: catalogue, splits, kinds, determinism; demonstrations earn full rewards."""

from __future__ import annotations

import random
import re
from collections import Counter

import jsonschema
import pytest

from slca.rewards.judge import states
from slca.simulator.simulator import episode_of
from slca.tasks.catalogue import catalogue, load_domains
from slca.tasks.demonstrate import Noise, demonstrate
from slca.tasks.generate import MIX, SPLITS, choose_options, generate, link, lower_first
from slca.tasks.spec import is_optional
from slca.tasks.task import KINDS

_SLOT = re.compile(r"\{([^{}]+)\}")
N = 1500


@pytest.fixture(scope="module")
def tasks():
    return {split: generate(N, split, seed=3) for split in SPLITS}


def test_catalogue_is_large_enough_and_of_many_types():
    cat = catalogue()
    assert len({e.domain for e in cat.entries.values()}) >= 12
    assert len(cat.entries) >= 120
    text = str([e.schema for e in cat.entries.values()])
    for needed in ("integer", "number", "boolean", "array", "object", "enum", "date", "time", "email"):
        assert f"'{needed}'" in text


@pytest.mark.parametrize("tool", [t for d in load_domains() for t in d.tools], ids=lambda t: t.name)
def test_tool_is_well_formed(tool):
    entry = catalogue().entries[tool.name]
    jsonschema.Draft202012Validator.check_schema(entry.schema["function"]["parameters"])
    assert len(tool.ask) >= 3 and len(tool.reply) >= 2
    required = {p for p, k in tool.params.items() if not is_optional(k)}
    for ask in tool.ask:
        bare = re.sub(r"\[[^\[\]]*\]", "", ask)
        assert set(_SLOT.findall(bare)) == required, ask
        assert set(_SLOT.findall(ask)) <= tool.params.keys(), ask
    for reply in tool.reply:
        assert set(_SLOT.findall(reply)) <= required | tool.returns.keys(), reply
        assert set(_SLOT.findall(reply)) & tool.returns.keys(), reply
    if tool.vague:
        missing, text = tool.vague
        assert missing in required and missing not in _SLOT.findall(text)
        assert set(_SLOT.findall(text)) <= tool.params.keys()


@pytest.mark.parametrize("chain", catalogue().chains, ids=lambda c: f"{c.first}-{c.second}")
def test_chain_links_and_says_what_it_needs(chain):
    first, second = catalogue().entries[chain.first], catalogue().entries[chain.second]
    key = link(first, second)
    own = {p for p, k in first.tool.params.items() if not is_optional(k)}
    then = {f"then_{p}" for p, k in second.tool.params.items() if not is_optional(k) and p != key}
    for ask in chain.ask:
        assert set(_SLOT.findall(re.sub(r"\[[^\[\]]*\]", "", ask))) == own | then, ask


def test_same_seed_same_tasks_and_prefix_property():
    assert generate(40, "train", 5) == generate(60, "train", 5)[:40]
    assert generate(40, "train", 5) != generate(40, "train", 6)


def test_kinds_follow_the_mix(tasks):
    counts = Counter(t.kind for t in tasks["train"])
    assert set(counts) == set(KINDS)
    for kind, share in MIX.items():
        assert abs(counts[kind] / N - share) < 0.05


def test_only_the_kinds_asked_for():
    assert {t.kind for t in generate(50, "train", 0, ["parallel", "abstention"])} == {"parallel", "abstention"}
    with pytest.raises(ValueError, match="unknown kinds"):
        generate(1, "train", 0, ["serial"])
    with pytest.raises(ValueError, match="unknown split"):
        generate(1, "dev")


def test_no_test_request_and_no_unseen_tool_in_training(tasks):
    train = {t.messages[-1]["content"].lower() for t in [*tasks["train"], *generate(6000, "train", 1)]}
    for split in ("test_seen", "test_unseen"):
        assert not train & {t.messages[-1]["content"].lower() for t in tasks[split]}
    unseen = {n for n, e in catalogue().entries.items() if e.unseen}
    listed = {t["function"]["name"] for task in tasks["train"] + tasks["test_seen"] for t in task.tools}
    assert not listed & unseen
    assert 0.15 < len(unseen) / len(catalogue().entries) < 0.25


def test_unseen_tasks_are_about_unseen_tools(tasks):
    for task in tasks["test_unseen"]:
        if task.needs_call:
            assert any(catalogue().entries[c.name].unseen for step in task.gold for c in step)


def test_gold_calls_are_answered_and_give_the_facts(tasks):
    for task in tasks["train"][:600] + tasks["test_unseen"][:300]:
        episode = episode_of(task)
        answers = [[episode.call(c.name, c.arguments) for c in step] for step in task.gold]
        assert all(a.ok for step in answers for a in step), (task.id, answers)
        assert bool(task.facts) == task.needs_call
        for fact in task.facts:
            value = answers[fact.step][fact.index].value
            for part in fact.path.split("."):
                value = value[int(part)] if isinstance(value, list) else value[part]
            assert value == fact.value


def test_shape_of_each_kind(tasks):
    for task in tasks["train"]:
        sizes = [len(step) for step in task.gold]
        assert 2 <= len(task.tools) <= 5
        if task.kind in ("single", "choice"):
            assert sizes == [1]
        elif task.kind == "parallel":
            assert len(sizes) == 1 and sizes[0] >= 2
        elif task.kind == "dependent":
            assert sizes == [1, 1]
        else:
            assert sizes == []


def test_choice_lists_tools_of_the_same_domain(tasks):
    for task in tasks["train"]:
        if task.kind == "choice":
            domains = {catalogue().entries[t["function"]["name"]].domain for t in task.tools}
            assert len(domains) == 1 and len(task.tools) >= 3


def test_requests_vary(tasks):
    requests = [t.messages[-1]["content"] for t in tasks["train"] if t.needs_call]
    assert len(set(requests)) > 0.97 * len(requests)


def test_perfect_demonstration_calls_the_gold_and_states_every_fact(tasks):
    for task in tasks["train"][:400]:
        turns = demonstrate(task, 0, Noise()).turns
        assert [t.calls for t in turns[:-1]] == task.gold
        assert turns[-1].reply and not turns[-1].calls
        for fact in task.facts:
            assert states(turns[-1].reply, fact.value), (task.id, fact, turns[-1].reply)


def test_mistakes_happen_at_their_rates(tasks):
    some = [t for t in tasks["train"] if t.kind in ("single", "choice")][:400]
    wrong = sum(demonstrate(t, 0, Noise(wrong_tool=0.3)).turns[0].calls[0].name != t.gold[0][0].name for t in some)
    assert 0.22 < wrong / len(some) < 0.38
    again = sum(len(demonstrate(t, 0, Noise(redundant_call=0.3)).turns) == 3 for t in some)
    assert 0.22 < again / len(some) < 0.38
    silent = sum(not demonstrate(t, 0, Noise(omitted_call=0.3)).turns[0].calls for t in some)
    assert 0.22 < silent / len(some) < 0.38
    parallel = [t for t in tasks["train"] if t.kind == "parallel"]
    serial = [demonstrate(t, 0, Noise(serial_instead_of_parallel=1.0)).turns for t in parallel]
    assert all(len(t.calls) == 1 for turns in serial for t in turns[:-1])
    none_right = [t for t in tasks["train"] if not t.needs_call]
    assert all(demonstrate(t, 0, Noise(needless_call=1.0)).turns[0].calls for t in none_right)


def test_demonstrations_are_deterministic(tasks):
    noise = Noise(0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.1, 0.5, 0.5)
    for task in tasks["train"][:50]:
        assert demonstrate(task, 4, noise) == demonstrate(task, 4, noise)


def test_text_helpers():
    assert lower_first("Find it") == "find it"
    assert lower_first("I need it") == "I need it" and lower_first("Oslo is far") == "Oslo is far"
    assert lower_first("BK-1234 please") == "BK-1234 please"
    seen = {choose_options("a[ in {unit}]", random.Random(i))[0] for i in range(20)}
    assert seen == {"a", "a in {unit}"}
