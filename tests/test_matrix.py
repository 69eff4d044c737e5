"""The matrix runner and the commands, as a user calls them, on a few very small cells."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from experiments import ablation, evaluate, reproduce, show
from experiments.matrix import adopt_twin, cells_of
from slca.config import with_label
from slca.config_load import for_arm, load_config
from slca.runs import Run

PROFILE = """
inherits: {tiny}
profile: mini
train: {{steps: 2, prompts_per_step: 2, minibatch_prompts: 2, checkpoint_every: 1}}
rollout: {{group_size: 3, max_turns: 3}}
tasks: {{train_size: 8}}
eval: {{size_seen: 5, size_unseen: 5, samples: 1}}
matrix:
  seeds: [0, 1]
  methods:
    grpo: {{method.name: grpo}}
    slca: {{method.name: slca}}
"""


@pytest.fixture(scope="module")
def mini(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tiny = Path(__file__).parent.parent / "experiments" / "configs" / "tiny.yaml"
    path = tmp_path_factory.mktemp("configs") / "mini.yaml"
    path.write_text(PROFILE.format(tiny=tiny))
    return path


@pytest.fixture(scope="module")
def done(mini: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The mini experiment, run once by the command."""
    root = tmp_path_factory.mktemp("mini")
    reproduce.main(["--profile", str(mini), "--runs", str(root / "runs"), "--out", str(root / "results")])
    return root


def test_cells_begin_with_the_start_and_finish_a_seed_before_the_next(mini: Path) -> None:
    cells = cells_of(load_config(mini), Path("runs"))
    assert [(c.label, c.seed) for c in cells] == [("sft", 0), ("grpo", 0), ("slca", 0), ("grpo", 1), ("slca", 1)]
    assert len({c.folder for c in cells}) == 5


def test_reproduce_writes_records_table_and_figures(done: Path) -> None:
    names = {p.name for p in (done / "results").iterdir()}
    assert {"table.md", "table.csv", "table.tex", "comparison.md", "records"} <= names
    assert list((done / "results").rglob("*.png")) and list((done / "results").rglob("*.pdf"))
    table = (done / "results" / "table.md").read_text()
    assert "SLCA-GRPO" in table and "not run" in table


def test_a_second_call_runs_nothing(done: Path, mini: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a finished cell was started again")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    reproduce.main(["--profile", str(mini), "--runs", str(done / "runs"), "--out", str(done / "again")])
    a, b = ((done / part / "table.csv").read_text() for part in ("results", "again"))
    assert a == b


def test_evaluation_and_rollouts_of_a_run(done: Path, mini: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--profile", str(mini), "--runs", str(done / "runs"), "--method", "grpo", "--seed", "1"]
    before = next((done / "runs").glob("mini/grpo-seed1-*/eval.jsonl")).read_bytes()
    evaluate.main(where)
    assert next((done / "runs").glob("mini/grpo-seed1-*/eval.jsonl")).read_bytes() == before
    show.main([*where, "--n", "2"])
    text = capsys.readouterr().out
    assert "success" in text and "policy:" in text and "rewards:" in text


def test_evaluation_of_a_run_that_was_not_trained_says_so(mini: Path, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="make train METHOD=slca SEED=0"):
        evaluate.main(["--profile", str(mini), "--runs", str(tmp_path), "--method", "slca"])


def test_a_failing_cell_is_named_and_the_others_go_on(
    mini: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken.yaml"
    arms = "{bad: {policy.checkpoint: nowhere}, grpo: {method.name: grpo}}"
    broken.write_text(f"inherits: {mini}\nmatrix: {{seeds: [0], methods: {arms}}}\n")
    with pytest.raises(SystemExit, match="not finished"):
        reproduce.main(["--profile", str(broken), "--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "out")])
    assert "bad, seed 0: failed, see" in capsys.readouterr().err.replace("\n", " ")
    assert "GRPO" in (tmp_path / "out/table.md").read_text()
    log = next((tmp_path / "runs").glob("mini/bad-*/log.txt")).read_text()
    assert "no checkpoint at 'nowhere'" in log


def test_commands_explain_themselves() -> None:
    for module in ("train", "evaluate", "reproduce", "ablation", "show", "tiny_base"):
        done = subprocess.run([sys.executable, "-m", f"experiments.{module}", "--help"], capture_output=True, text=True)
        assert done.returncode == 0 and "usage" in done.stdout


def test_wrong_names_are_refused_with_what_exists(mini: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="did you mean"):
        reproduce.main(["--profile", "tinny"])
    with pytest.raises(SystemExit):
        reproduce.main(["--profile", str(mini), "--methods", "slac"])
    assert "grpo, slca" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="no ablation 'nothing'"):
        ablation.main(["--name", "nothing"])


def test_an_arm_that_another_ablation_ran_is_taken_over(tmp_path: Path) -> None:
    config = load_config("tiny")
    [_, cell] = cells_of(config, tmp_path, ["sft", "slca"], [0])
    with Run.open(tmp_path, with_label(for_arm(config, "slca", 0), "paper", 0)) as run:
        assert run.folder.name.startswith("paper-seed0-")
        run.log(0, {"x": 1.0})
        (run.folder / "eval.jsonl").write_text("{}\n")
        assert not adopt_twin(replace(cell, folder=run.folder.with_name(f"slca-seed0-{run.folder.name[-8:]}")))
        run.finish({"eval": {}}, 1.0)
        twin = run.folder
    mine = replace(cell, folder=twin.with_name(f"slca-seed0-{twin.name[-8:]}"))
    assert adopt_twin(mine) and Run.is_finished(mine.folder)
    manifest = json.loads((mine.folder / "manifest.json").read_text())
    assert (manifest["label"], manifest["config"]["label"], manifest["same_run_as"]) == ("slca", "slca", twin.name)
    assert (mine.folder / "metrics.jsonl").read_bytes() == (twin / "metrics.jsonl").read_bytes()
    assert not adopt_twin(replace(mine, folder=tmp_path / "tiny" / "slca-seed0-00000000"))
    assert not adopt_twin(replace(mine, label="sft", folder=tmp_path / "tiny" / f"sft-seed0-{twin.name[-8:]}"))

