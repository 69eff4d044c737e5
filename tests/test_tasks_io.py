"""JSONL of tasks: round trip, and every error names the line and the field."""

from __future__ import annotations

import copy
import json

import pytest

from slca.tasks.__main__ import main
from slca.tasks.generate import generate
from slca.tasks.io import TaskError, doubts, from_json, load_jsonl, problems, save_jsonl, to_json

GOOD = to_json(generate(30, "train", 0, ["dependent"])[0])


def test_round_trip(tmp_path):
    tasks = generate(60, "test_unseen", 2)
    save_jsonl(tasks, tmp_path / "deep" / "t.jsonl")
    assert load_jsonl(tmp_path / "deep" / "t.jsonl") == tasks
    assert from_json(json.loads(json.dumps(to_json(tasks[0])))) == tasks[0]
    assert list(problems(GOOD)) == []


def test_a_users_minimal_task_is_enough():
    record = {
        "id": "mine", "messages": [{"role": "user", "content": "hi"}],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}],
        "gold": [[{"name": "f"}]],
    }
    assert list(problems(record)) == []
    assert from_json(record).gold[0][0].arguments == {}


def damage(path: list, value) -> dict:
    record = copy.deepcopy(GOOD)
    target = record
    for key in path[:-1]:
        target = target[key]
    if value is KeyError:
        del target[path[-1]]
    else:
        target[path[-1]] = value
    return record


@pytest.mark.parametrize(
    "path, value, field",
    [
        (["id"], KeyError, "id: missing"),
        (["id"], 5, "id: "),
        (["messages"], [], "messages: "),
        (["messages", 0, "role"], "human", "messages[0].role: 'human'"),
        (["messages", 0, "content"], None, "messages[0].content: "),
        (["messages", 0, "role"], "assistant", "messages[0].role: the last"),
        (["tools", 0, "function", "name"], KeyError, "tools[0]: "),
        (["tools", 0], 3, "tools[0]: "),
        (["tools", 0, "function", "parameters"], {"type": 7}, "tools[0]: "),
        (["gold"], [{"name": "x"}], "gold: "),
        (["gold", 0, 0, "name"], "no_such_tool", "gold[0][0].name: 'no_such_tool'"),
        (["gold", 1, 0, "arguments"], "x", "gold[1][0].arguments: "),
        (["facts", 0, "tool"], "other", "facts[0].tool: "),
        (["facts", 0, "step"], 9, "facts[0]: gold has no call"),
        (["facts", 0, "path"], KeyError, "facts[0]: "),
        (["tags"], "single", "tags: "),
        (["returns", "stranger"], {}, "returns.stranger: "),
        (["sim_seed"], True, "sim_seed: "),
        (["meta"], [], "meta: "),
        (["extra"], 1, "extra: unknown field"),
    ],
)
def test_each_damage_is_named(path, value, field):
    found = list(problems(damage(path, value)))
    assert any(p.startswith(field) for p in found), found


def test_file_errors_name_the_line(tmp_path):
    file = tmp_path / "t.jsonl"
    lines = [json.dumps(GOOD), "", "{broken", json.dumps(damage(["sim_seed"], "x")), json.dumps(GOOD), "[1]"]
    file.write_text("\n".join(lines))
    with pytest.raises(TaskError) as caught:
        load_jsonl(file)
    text = str(caught.value)
    for where in (f"{file}:3: not a line of JSON", f"{file}:4: sim_seed", f"{file}:5: id", f"{file}:6: a task is an"):
        assert where in text


def test_binary_and_empty_files_are_refused(tmp_path):
    file = tmp_path / "t.jsonl"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TaskError, match=r"t\.jsonl:1"):
        load_jsonl(file)
    file.write_text("\n")
    with pytest.raises(TaskError, match="no task in it"):
        load_jsonl(file)


def test_command_line(tmp_path, capsys):
    out = str(tmp_path / "t.jsonl")
    assert main(["generate", "--n", "20", "--out", out]) == 0
    assert main(["validate", out]) == 0
    assert main(["show", "--file", out, "--n", "2"]) == 0
    assert "20 tasks" in capsys.readouterr().out
    (tmp_path / "t.jsonl").write_text("{}\n")
    assert main(["validate", out]) == 1
    assert "id: missing" in capsys.readouterr().err
    assert main(["validate", str(tmp_path / "none")]) == 1


@pytest.mark.parametrize("path, value, field", [
    (["gold", 0], [], "gold: "), (["gold", 0, 0, "arguments", "x"], float("nan"), "gold.0.0.arguments.x: must be a finite"),
    (["id"], "a\ud800", "id: is not valid Unicode"), (["messages", 0, "content"], "\udfff", "messages.0.content: is not"),
])  # fmt: skip
def test_values_without_a_sound_text_are_wrong(path, value, field):
    assert [p for p in problems(damage(path, value)) if p.startswith(field)]


def test_gold_that_its_own_tool_refuses_is_doubted(tmp_path, capsys):
    task = generate(30, "train", 0, ["single"])[0]
    assert list(doubts(task)) == []
    task.gold[0][0].arguments["no_such_argument"] = 1
    [doubt] = doubts(task)
    assert task.id in doubt and "gold[0][0]" in doubt and "unexpected_argument" in doubt
    save_jsonl([task], tmp_path / "t.jsonl")
    assert main(["validate", str(tmp_path / "t.jsonl")]) == 0
    assert "1 doubts" in capsys.readouterr().out
