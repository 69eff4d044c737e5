"""Run folders: what is written survives, what was half-written is not believed."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch

from slca.config_load import load_config
from slca.runs import Run, RunLocked

CONFIG = load_config("tiny", ["seed=4"])


class Tied(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(5, 3)
        self.inner = torch.nn.Linear(3, 3)
        self.head = torch.nn.Linear(3, 5, bias=False)
        self.head.weight = self.embed.weight


def step(model: Tied, optimizer: torch.optim.Optimizer, k: int) -> None:
    torch.manual_seed(k)
    ids = torch.randint(0, 5, (7,))
    loss = torch.nn.functional.cross_entropy(model.head(model.inner(model.embed(ids))), ids.roll(1))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


def make() -> tuple[Tied, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = Tied()
    return model, torch.optim.AdamW(model.parameters(), lr=0.1, betas=(0.9, 0.95))


def test_manifest_says_what_ran(tmp_path):
    with Run.open(tmp_path, CONFIG, {"parts": {"judge": "rubric"}}) as run:
        manifest = run.manifest
        assert run.folder.parent == tmp_path / "tiny" and run.folder.name.startswith("slca-seed4-")
        assert manifest["config"]["train"]["steps"] == CONFIG.train.steps and manifest["status"] == "running"
        assert {"commit", "versions", "machine", "config_hash", "parts"} <= manifest.keys()
        assert not run.finished
        run.finish({"eval": 1}, seconds=2.5)
    assert Run.is_finished(run.folder) and Run.summary_of(run.folder) == {"eval": 1}
    with Run.open(tmp_path, CONFIG) as again:
        assert again.finished and again.manifest["wall_seconds"] == 2.5


def test_a_failed_run_may_be_tried_again(tmp_path):
    with Run.open(tmp_path, CONFIG) as run:
        run.fail("step 3: loss is nan")
        assert run.manifest["status"] == "failed" and "step 3" in run.manifest["failure"]
    with Run.open(tmp_path, CONFIG) as run:
        assert run.manifest["status"] == "running"


def test_checkpoints_give_the_same_future_bit_for_bit(tmp_path):
    model, optimizer = make()
    with Run.open(tmp_path, CONFIG) as run:
        for k in range(6):
            if k == 3:
                run.save_checkpoint(3, model.state_dict(), optimizer, {"totals": {"seconds": 0.1}})
            step(model, optimizer, k)
        other, fresh = make()
        found = run.latest_checkpoint()
        assert found is not None and found[0] == 3
        assert run.load_checkpoint(found[1], other, fresh) == {"totals": {"seconds": 0.1}}
    assert other.head.weight.data_ptr() == other.embed.weight.data_ptr()
    for k in range(3, 6):
        step(other, fresh, k)
    for a, b in zip(model.state_dict().values(), other.state_dict().values(), strict=True):
        assert torch.equal(a, b)


def test_only_whole_checkpoints_count_and_old_ones_go(tmp_path):
    model, optimizer = make()
    with Run.open(tmp_path, CONFIG) as run:
        assert run.latest_checkpoint() is None
        for k in (2, 4):
            run.save_checkpoint(k, model.state_dict(), optimizer, {})
        half = run.folder / "checkpoints" / "partial"
        half.mkdir()
        (half / "state.json").write_text("{}")
        (run.folder / "checkpoints" / "step-000009").mkdir()
        assert run.latest_checkpoint()[0] == 4
        assert not (run.folder / "checkpoints" / "step-000002").exists()
        run.save_checkpoint(6, model.state_dict(), optimizer, {})
        assert run.latest_checkpoint()[0] == 6


def test_metrics_after_the_checkpoint_are_forgotten(tmp_path):
    with Run.open(tmp_path, CONFIG) as run:
        for k in range(5):
            run.log(k, {"x": k / 3})
        with open(run.folder / "metrics.jsonl", "a") as file:
            file.write('{"step": 5, "x"')
        run.forget_after(3)
        assert [r["step"] for r in run.metrics()] == [0, 1, 2] and run.metrics()[2]["x"] == 2 / 3
        run.log(3, {"x": 1.0})
        lines = (run.folder / "metrics.jsonl").read_text().splitlines()
        assert [json.loads(line)["step"] for line in lines] == [0, 1, 2, 3]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_values_that_are_not_finite_are_refused(tmp_path, value):
    with Run.open(tmp_path, CONFIG) as run, pytest.raises(ValueError, match="step 2: metric kl is"):
        run.log(2, {"kl": value})


def test_two_processes_cannot_work_in_one_folder(tmp_path):
    code = (
        "import sys; from slca.config_load import load_config; from slca.runs import Run, RunLocked\n"
        "try: Run.open(sys.argv[1], load_config('tiny', ['seed=4']))\n"
        "except RunLocked as e: print('locked', e)\n"
        "else: print('open')"
    )

    def other() -> str:
        done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
        return done.stdout

    with Run.open(tmp_path, CONFIG) as run:
        assert other().startswith(f"locked {run.folder} is in use")
    assert other() == "open\n"


def test_a_second_opening_in_this_process_is_refused_too(tmp_path):
    with Run.open(tmp_path, CONFIG), pytest.raises(RunLocked):
        Run.open(tmp_path, CONFIG)
