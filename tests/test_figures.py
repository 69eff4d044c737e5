"""Records, table, claims and figure on small synthetic run folders; numbers worked out by hand."""

from __future__ import annotations

import csv
import gzip
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from figures import convergence, records, table
from figures.claims import findings, verdict
from figures.paper_numbers import paper_cell
from figures.stats import Estimate

Json = dict[str, Any]
#: task -> (split, number of gold calls)
TASKS = {"a": ("seen", 1), "b": ("seen", 1), "c": ("unseen", 2), "d": ("unseen", 0)}


def example(task: str, ok: bool, mode: str = "greedy", sample: int = 0, **change: Any) -> Json:
    split, n_gold = TASKS[task]
    record = {
        "task": task, "split": split, "kind": "single", "sample": sample, "mode": mode, "success": ok,
        "name_f1": float(ok), "argument_match": float(ok), "process": 1.0 if ok else 0.4,
        "summary": 0.75 if n_gold else None, "joint_success": ok, "abstention_correct": None if n_gold else ok,
        "n_calls": n_gold + 1, "n_gold": n_gold, "redundant_calls": 1, "tool_turns": 1, "policy_tokens": 10,
        "total_tokens": 100, "stop_reason": "answer",
    }  # fmt: skip
    return record | change


def step(i: int, process: float, outcome: float = 0.5) -> Json:
    return {
        "step": i, "reward/process": process, "reward/outcome": outcome, "tokens/policy_cum": 1000.0 * (i + 1),
        "tokens/total_cum": 3000.0 * (i + 1), "seconds_cum": 30.0 * (i + 1), "unread": 1 / 3,
    }  # fmt: skip


def make_run(
    root: Path,
    label: str,
    seed: int,
    ok: str = "",
    curve: tuple[float, ...] = (),
    config: Json | None = None,
    **extra: Any,
) -> Path:
    """A finished run that succeeds on the tasks named in ``ok`` and whose process reward follows ``curve``."""
    folder = root / f"{label}-seed{seed}-0abc"
    folder.mkdir(parents=True)
    base = {
        "method": {"name": label},
        "seed": seed,
        "label": label,
        "train": {"steps": 4, "lr": 1e-4 * (1 + len(label))},
    }
    manifest = {
        "config": base | (config or {}), "config_hash": f"hash_{label}", "label": label, "seed": seed, "commit": "c0ffee",
        "versions": {}, "machine": "x", "wall_seconds": 99.0, "status": "finished", "secret": "dropped",
        "parts": {"judge": "rubric", "simulator": "schema", "engine": "transformers"},
    } | extra  # fmt: skip
    (folder / "manifest.json").write_text(json.dumps(manifest))
    write(folder / "metrics.jsonl", [step(i, p) for i, p in enumerate(curve)])
    rows = [example(t, t in ok) for t in TASKS]
    rows += [example(t, s == 0, "sampled", s) for t in TASKS for s in range(2)]
    write(folder / "eval.jsonl", rows)
    return folder


def write(path: Path, rows: list[Json]) -> None:
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))


@pytest.fixture
def runs_folder(tmp_path: Path) -> Path:
    """SFT start, GRPO and SLCA with two seeds, and an unfinished RLTR run."""
    root = tmp_path / "runs" / "tiny"
    make_run(root, "sft", 0, ok="d")
    for seed in (0, 1):
        make_run(root, "grpo", seed, ok="ad", curve=(0.1, 0.2, 0.3, 0.4 + 0.1 * seed))
        make_run(root, "slca", seed, ok="abd", curve=(0.1, 0.45, 0.6, 0.6))
    make_run(root, "rltr", 0, status="running")
    return root


# -- records ------------------------------------------------------------------------------------------------------


def test_load_passes_over_unfinished_runs(runs_folder: Path) -> None:
    runs = records.load_runs(runs_folder)
    assert [(r.label, r.seed) for r in runs] == [("grpo", 0), ("grpo", 1), ("sft", 0), ("slca", 0), ("slca", 1)]
    assert runs[0].series("reward/process").tolist() == [0.1, 0.2, 0.3, 0.4]
    with pytest.raises(records.RecordError, match="step 0 has no number 'kl'"):
        runs[0].series("kl")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 3: damaged"),
        ("[]", "line 3: damaged .expected a JSON object"),
        ('{"step": 1}', "step 1 follows step 1"),
    ],
)
def test_a_damaged_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    folder = make_run(tmp_path, "grpo", 0, curve=(0.1, 0.2))
    with open(folder / "metrics.jsonl", "a") as f:
        f.write(line + "\n")
    with pytest.raises(records.RecordError, match=message):
        records.load_runs(tmp_path)


def test_a_cut_gzip_is_named(tmp_path: Path) -> None:
    folder = make_run(tmp_path, "grpo", 0)
    data = gzip.compress((folder / "eval.jsonl").read_bytes())
    (folder / "eval.jsonl").unlink()
    (folder / "eval.jsonl.gz").write_bytes(data[: len(data) // 2])
    with pytest.raises(records.RecordError, match=r"eval\.jsonl\.gz, line \d+: damaged"):
        records.load_runs(tmp_path)


def test_bad_manifests_are_refused(tmp_path: Path) -> None:
    folder = make_run(tmp_path, "grpo", 0)
    twin = tmp_path / "grpo-seed0-other"
    twin.mkdir()
    (twin / "manifest.json").write_text((folder / "manifest.json").read_text())
    with pytest.raises(records.RecordError, match="two finished runs of grpo, seed 0"):
        records.load_runs(tmp_path)
    (twin / "manifest.json").write_text('{"status": "finished", "label": "grpo", "seed": 0}')
    with pytest.raises(records.RecordError, match="'config' is missing"):
        records.load_runs(tmp_path)
    (twin / "manifest.json").write_text('{"status": ')
    with pytest.raises(records.RecordError, match="grpo-seed0-other/manifest.json: not JSON"):
        records.load_runs(tmp_path)
    with pytest.raises(records.RecordError, match="no such folder of runs"):
        records.load_runs(tmp_path / "none")


def test_runs_of_another_base_config_are_refused(tmp_path: Path) -> None:
    make_run(tmp_path, "grpo", 0)
    make_run(tmp_path, "slca", 0)
    records.check_comparable(records.load_runs(tmp_path))  # method, seed and learning rate may differ
    make_run(tmp_path, "toolpo", 0, config={"train": {"steps": 9}})
    with pytest.raises(
        records.RecordError, match="grpo-seed0-0abc and toolpo-seed0-0abc differ in train.steps: 4 and 9"
    ):
        records.check_comparable(records.load_runs(tmp_path))


def test_runs_of_one_label_may_differ_in_the_seed_only(tmp_path: Path) -> None:
    make_run(tmp_path, "grpo", 0)
    make_run(tmp_path, "grpo", 1, config={"train": {"steps": 4, "lr": 0.5}})
    with pytest.raises(records.RecordError, match=r"differ in train\.lr"):
        records.check_comparable(records.load_runs(tmp_path))


def test_an_ablation_says_what_it_varies(tmp_path: Path) -> None:
    make_run(tmp_path, "grpo", 0)
    make_run(tmp_path, "no-hierr", 0, config={"reward": {"weights": [0.2]}}, varied=["reward"])
    records.check_comparable(records.load_runs(tmp_path))


def test_export_is_compact_complete_and_repeatable(runs_folder: Path, tmp_path: Path) -> None:
    runs = records.load_runs(runs_folder)
    size = records.export_runs(runs, tmp_path / "records")
    files = {p.relative_to(tmp_path): p.read_bytes() for p in (tmp_path / "records").rglob("*") if p.is_file()}
    assert size == sum(map(len, files.values()))
    assert not any(b"secret" in data or b"unread" in data for data in files.values())
    copy = records.load_runs(tmp_path / "records")
    assert table.markdown(table.table_rows(copy), table.caption(copy)) == table.markdown(
        table.table_rows(runs), table.caption(runs)
    )
    records.export_runs(copy[:1], tmp_path / "records")
    assert [p.name for p in (tmp_path / "records").iterdir()] == ["grpo-seed0-0abc"]
    records.export_runs(runs, tmp_path / "records")
    assert files == {p.relative_to(tmp_path): p.read_bytes() for p in (tmp_path / "records").rglob("*") if p.is_file()}
    with pytest.raises(records.RecordError, match="more than 10"):
        records.export_runs(runs, tmp_path / "records", limit_bytes=10)
    assert len(records.load_runs(tmp_path / "records")) == 5


def test_score_matrix_averages_samples_and_keeps_gaps(runs_folder: Path) -> None:
    runs = [r for r in records.load_runs(runs_folder) if r.label == "grpo"]
    tasks = records.task_ids(runs)
    assert tasks == ["a", "b", "c", "d"]
    greedy = records.score_matrix(runs, "success", tasks)
    np.testing.assert_array_equal(greedy, [[1, 0, 0, np.nan]] * 2)
    np.testing.assert_array_equal(
        records.score_matrix(runs, "success", tasks, "sampled"), [[0.5, 0.5, 0.5, np.nan]] * 2
    )
    np.testing.assert_array_equal(records.score_matrix(runs, "abstention", tasks), [[np.nan] * 3 + [1]] * 2)
    del runs[0].examples[1]["n_gold"]
    with pytest.raises(records.RecordError, match=r"eval\.jsonl, line 2: no usable 'n_gold'"):
        records.score_matrix(runs, "success", tasks)


# -- table --------------------------------------------------------------------------------------------------------


def test_rows_by_hand(runs_folder: Path) -> None:
    rows = table.table_rows(records.load_runs(runs_folder))
    assert list(rows) == ["sft", "grpo", "toolpo", "rltr", "slca"]
    slca, grpo, sft = rows["slca"], rows["grpo"], rows["sft"]
    assert slca["success_seen"].mean == 1.0
    assert slca["success_unseen"].mean == 0.0
    assert slca["success_seen_sampled"].mean == 0.5
    assert slca["delta_success"].mean == pytest.approx(1 / 3)
    assert slca["delta_success"].n_tasks == 3
    assert sft["delta_success"].mean == pytest.approx(-1 / 3)
    assert sft["delta_success"].n_seeds == 2  # the start pairs with both seeds of GRPO
    assert grpo["delta_success"] == table.NO_MEANING
    assert slca["process"].mean == pytest.approx((1 + 1 + 0.4) / 3)
    assert slca["p_better"] == pytest.approx((0.5 + 1.0 + 0.5) / 3)
    assert slca["abstention"].mean == 1.0
    assert slca["calls"].mean == pytest.approx((2 + 2 + 3 + 1) / 4)
    assert slca["train_policy_tokens"] == 4000.0
    assert slca["train_seconds"] == 120.0
    assert sft["train_seconds"] == table.NO_MEANING
    assert rows["toolpo"]["success_seen"] is None
    assert rows["toolpo"]["p_better"] is None
    assert rows["toolpo"]["train_seconds"] is None


def test_steps_to_reach_grpo(runs_folder: Path, tmp_path: Path) -> None:
    """GRPO ends at 0.4 and 0.5; SLCA passes 0.4 at step 2 and 0.5 at step 3: the median is 2.5."""
    rows = table.table_rows(records.load_runs(runs_folder))
    assert rows["slca"]["steps_to_grpo"] == 2.5
    assert rows["grpo"]["steps_to_grpo"] == 4.0
    make_run(tmp_path, "grpo", 0, curve=(0.9,) * 20)
    make_run(tmp_path, "rltr", 0, curve=(0.95,) + (0.1,) * 19)  # one lucky batch is not there yet: window 2
    runs = records.load_runs(tmp_path)
    assert math.isinf(table.steps_to_reach(runs[1], runs[0]))
    assert table.steps_to_reach(runs[0], runs[0]) == 2.0
    assert table.table_rows(runs)["rltr"]["steps_to_grpo"] == "not reached"


def test_files_say_what_stands_behind_them(runs_folder: Path, tmp_path: Path) -> None:
    make_run(runs_folder, "no-hierr", 0, ok="a", curve=(0.1,) * 4)
    paths = table.write_table(records.load_runs(runs_folder), tmp_path / "out")
    assert [p.name for p in paths] == ["table.csv", "table.md", "table.tex", "comparison.md"]
    text = paths[1].read_text()
    main = text.split("## Quality")[0]
    lines = [line.strip("| ").split(" | ") for line in main.splitlines() if line.startswith("|")]
    assert [line[0] for line in lines[2:]] == ["SFT start", "GRPO", "ToolPO", "RLTR", "SLCA-GRPO", "no-hierr"]
    assert all(len(line) == len(table.MAIN) for line in lines[2:])
    assert lines[4] == ["ToolPO", *["not run"] * 6, "77.35 ± 1.19 / 68.86 ± 0.43 / 34.18 ± 2.42"]
    assert lines[6][1] == "100.0 [100.0, 100.0]"
    assert lines[6][3].startswith("+33.3 [")
    for fact in (
        "SFT start 1, GRPO 2",
        "2 seen and 2 unseen",
        "judge: rubric",
        "simulator: schema",
        "c0ffee",
        "GRPO hash_grpo",
    ):
        assert fact in main
    tex = paths[2].read_text()
    assert "no-hierr" in tex
    assert r"Success@0.9 seen, \%" in tex
    assert r"hash\_grpo" in tex
    assert "±" not in tex
    with open(paths[0], newline="") as f:
        rows = {row["label"]: row for row in csv.DictReader(f)}
    assert float(rows["slca"]["success_seen"]) == 1.0
    assert float(rows["slca"]["delta_success"]) == pytest.approx(1 / 3, rel=1e-5)
    assert rows["rltr"]["success_seen_low"] == "not run"
    assert rows["grpo"]["bfcl"] == "not run"
    assert float(rows["slca"]["steps_to_grpo"]) == 2.5


def test_the_table_needs_no_grpo(tmp_path: Path) -> None:
    make_run(tmp_path, "slca", 0, ok="a", curve=(0.1, 0.2))
    row = table.table_rows(records.load_runs(tmp_path))["slca"]
    assert row["success_seen"].mean == 0.5
    assert row["delta_success"] is None
    assert row["steps_to_grpo"] is None


def test_paper_cells() -> None:
    assert paper_cell("slca", "tau2") == "41.02 ± 1.01"
    assert paper_cell("rltr", "tau2") == "33.72"
    assert paper_cell("rltr", "bfcl") == "–"
    assert paper_cell("sft", "in_domain") == "–"
    assert paper_cell("no_hierr", "in_domain") == "73.44 ± 1.21"


# -- claims -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expected", "low", "high", "said"),
    [
        ("higher", 0.01, 0.2, "holds"),
        ("higher", -0.2, -0.01, "does not hold"),
        ("higher", -0.1, 0.1, "not decided (the interval covers zero)"),
        ("lower", -0.2, -0.01, "holds"),
        ("lower", 0.01, 0.2, "does not hold"),
        ("lower", -0.1, 0.0, "not decided (the interval covers zero)"),
        ("not lower", -0.01, 0.3, "holds"),
        ("not lower", -0.03, 0.3, "not decided (the interval covers the margin)"),
        ("not lower", -0.019, -0.001, "does not hold"),
    ],
)
def test_verdict(expected: str, low: float, high: float, said: str) -> None:
    assert verdict(expected, [Estimate((low + high) / 2, low, high, 3, 10)]) == said


def test_all_intervals_must_agree() -> None:
    narrow, wide = Estimate(0.1, 0.05, 0.15, 3, 100), Estimate(0.1, -0.4, 0.6, 3, 1)
    assert verdict("higher", [narrow]) == "holds"
    assert verdict("higher", [narrow, wide]).startswith("not decided")


def test_findings_by_hand(runs_folder: Path) -> None:
    faster, training, final, redundant, success = findings(records.load_runs(runs_folder))
    assert faster.difference == pytest.approx(0.4375 - (0.25 + 0.275) / 2)
    assert faster.student.low == pytest.approx(0.175 - 12.7062 * 0.0125, rel=1e-3)  # t(0.975, 1), half-range 0.0125
    assert faster.verdict == "holds"
    assert training.difference == 0.0
    assert final.difference == 0.0
    assert final.verdict == "holds"
    assert redundant.verdict.startswith("not decided")
    assert success.difference == pytest.approx(1 / 3)
    assert success.verdict.startswith("not decided")  # three tasks


def test_one_seed_decides_nothing_and_no_run_says_so(tmp_path: Path) -> None:
    make_run(tmp_path, "grpo", 0, ok="a", curve=(0.1, 0.2))
    assert {f.verdict for f in findings(records.load_runs(tmp_path))} == {"not run"}
    make_run(tmp_path, "slca", 0, ok="abc", curve=(0.8, 0.9))
    assert all(f.verdict.startswith("not decided (one seed") for f in findings(records.load_runs(tmp_path)))


# -- figure -------------------------------------------------------------------------------------------------------


def test_area_under_curve_by_hand(runs_folder: Path) -> None:
    areas = convergence.area_under_curve(records.load_runs(runs_folder))
    assert areas.keys() == {"grpo", "slca"}
    assert areas["grpo"] == {0: pytest.approx(0.25), 1: pytest.approx(0.275)}


def test_curves_share_the_range_of_all_seeds(tmp_path: Path) -> None:
    make_run(tmp_path, "grpo", 0, curve=(0.0, 1.0, 2.0))
    slow = make_run(tmp_path, "grpo", 1, curve=(0.0, 1.0, 2.0))
    write(slow / "metrics.jsonl", [step(i, float(i)) | {"seconds_cum": 60.0 * (i + 1)} for i in range(3)])
    seeds = records.by_label(records.load_runs(tmp_path))["grpo"]
    x, curves = convergence.curves_over_seeds(seeds, convergence.PROCESS, "seconds_cum", points=3)
    assert x.tolist() == [60.0, 75.0, 90.0]
    np.testing.assert_allclose(curves, [[1.0, 1.5, 2.0], [0.0, 0.25, 0.5]])
    x, curves = convergence.curves_over_seeds(seeds, convergence.PROCESS, "step")
    assert x.tolist() == [1, 2, 3]
    np.testing.assert_allclose(curves, [[0.0, 1.0, 2.0]] * 2)


def test_figure_is_drawn_from_committed_records_alone(
    runs_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    records.export_runs(records.load_runs(runs_folder), tmp_path / "records")
    args = ["--records", str(tmp_path / "records"), "--out", str(tmp_path / "out")]
    convergence.main(args)
    png, pdf = tmp_path / "out/figures/convergence.png", tmp_path / "out/figures/convergence.pdf"
    assert capsys.readouterr().out.split() == [str(png), str(pdf)]
    assert png.read_bytes().startswith(b"\x89PNG")
    assert pdf.read_bytes().startswith(b"%PDF")
    table.main(args)
    assert (tmp_path / "out/comparison.md").exists()


def test_figure_refuses_what_it_cannot_draw(runs_folder: Path, tmp_path: Path) -> None:
    runs = records.load_runs(runs_folder)
    with pytest.raises(records.RecordError, match="no training steps on record for sft"):
        convergence.draw(runs, tmp_path, ["sft"])
    with pytest.raises(records.RecordError, match="0 methods to draw"):
        convergence.draw([r for r in runs if r.label == "sft"], tmp_path)


def test_commands_end_with_a_clear_error(runs_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="error: .*no such folder of runs"):
        table.main(["--records", str(tmp_path / "none")])
    with pytest.raises(SystemExit, match="error: .*no finished run"):
        (tmp_path / "empty").mkdir()
        convergence.main(["--records", str(tmp_path / "empty")])
    out = tmp_path / "records"
    records.main(["--runs", str(runs_folder.parent), "--records", str(out)])
    assert len(records.load_runs(out)) == 5
