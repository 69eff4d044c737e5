"""The claims report and the figures of contamination, on small synthetic runs."""

from __future__ import annotations

import json
import math
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest
from scipy import stats
from test_figures import make_run, step, write

from figures import diagnostics, report
from figures.records import load_runs
from figures.report import CLAIMS, PaperClaim, Result, holm, judge, seeds_wanted, table
from figures.stats import bootstrap_p

SUCCESS = PaperClaim("success", "+1", "main", "slca", "grpo", "success")


def test_holm_against_the_definition() -> None:
    ps = [0.011, 0.02, 0.005, None, 0.9]
    assert holm(ps) == pytest.approx([0.033, 0.04, 0.02, None, 0.9], nan_ok=True)
    assert holm([]) == [] and holm([None]) == [None]
    assert holm([0.6, 0.7]) == [1.0, 1.0]


def test_seeds_wanted_by_the_textbook() -> None:
    gaps = [0.02, 0.05, -0.01]
    q = NormalDist().inv_cdf(0.975) + NormalDist().inv_cdf(0.8)
    assert seeds_wanted(gaps) == math.ceil((q * np.std(gaps, ddof=1) / np.mean(gaps)) ** 2)
    assert seeds_wanted([0.1]) is None and seeds_wanted([0.1, -0.1]) == 10_000 and seeds_wanted([0.1, 0.1]) == 2


def test_bootstrap_p() -> None:
    rng = np.random.default_rng(0)
    assert bootstrap_p(np.full((3, 20), 0.5)) == pytest.approx(2 / 4001)
    assert bootstrap_p(np.zeros((3, 20))) == 1.0
    noise = rng.normal(size=(1, 400))
    expected = 2 * (1 - NormalDist().cdf(abs(float(noise.mean())) / float(noise.std() / math.sqrt(400))))
    assert bootstrap_p(noise) == pytest.approx(expected, abs=0.05)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three seeds: SLCA succeeds on more tasks, with a lower process curve."""
    for seed, (ours, theirs) in enumerate([("abcd", "a"), ("abd", "ad"), ("abcd", "b")]):
        make_run(tmp_path / "records", "slca", seed, ours, (0.2, 0.3, 0.4 + seed / 100))
        make_run(tmp_path / "records", "grpo", seed, theirs, (0.4, 0.5, 0.6))
    return tmp_path


def test_a_claim_is_judged_by_the_larger_p_value(folder: Path) -> None:
    runs = load_runs(folder / "records")
    found = judge(SUCCESS, runs)
    gaps = np.array([[0, 1, 1], [0, 1, 0], [1, 0, 1]], dtype=float)  # tasks a, b, c; d needs no call
    assert found.difference == pytest.approx(gaps.mean()) and found.seeds == (0, 1, 2)
    t_p = float(stats.ttest_1samp(gaps.mean(1), 0.0).pvalue)
    assert found.p == pytest.approx(max(t_p, bootstrap_p(gaps)))
    assert found.verdict(0.2) == "not decided at this power" and found.verdict(0.01) == "holds"
    curve = judge(PaperClaim("c", "", "main", "slca", "grpo", "reward/process", "curve"), runs)
    assert curve.difference == pytest.approx(-0.2 + 0.01 / 3, abs=1e-9) and curve.bootstrap is None
    assert curve.verdict(0.01) == "does not hold"
    lower = Result(PaperClaim("c", "", "main", "slca", "grpo", "x", expected="lower"), -0.1)
    assert lower.verdict(0.01) == "holds" and lower.verdict(None) == "not decided at this power"


def test_what_was_not_run_says_so_and_is_not_counted(folder: Path) -> None:
    rows = table(report.collect(folder))
    assert len(rows) == len(CLAIMS)
    said = {row[0]: row[-1] for row in rows}
    assert sum(v == "not run" for v in said.values()) == sum(c.where != "main" or c.b in ("toolpo", "rltr") for c in CLAIMS)
    claim = PaperClaim("m", "", "main", "slca", "grpo", "never logged", "mean")
    assert judge(claim, load_runs(folder / "records")).p is None


@pytest.mark.parametrize("cosines, said", [
    ([0.01, 0.02, 0.03], "holds"), ([0.5, 0.51, 0.52], "does not hold"), ([-0.2, 0.0, 0.3], "not decided"),
])  # fmt: skip
def test_a_range_is_judged_by_the_interval(tmp_path: Path, cosines: list[float], said: str) -> None:
    for seed, cosine in enumerate(cosines):
        run = make_run(tmp_path, "slca", seed, "a")
        write(run / "metrics.jsonl", [step(0, 0.1) | {"gradient/cosine": cosine}, step(1, 0.2)])
    claim = next(c for c in CLAIMS if c.expected == "within")
    assert judge(claim, load_runs(tmp_path)).verdict(None) == said


def test_the_report_is_written_with_its_figures(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "figures").mkdir()
    (folder / "figures" / "x.png").write_bytes(b"\x89PNG")
    report.main(["--results", str(folder)])
    page = (folder / "claims.html").read_text()
    assert "data:image/png;base64,iVBORw==" in page and "&#x27;" in page and page.count("<tr>") == len(CLAIMS) + 1
    assert "not run" in (folder / "claims.md").read_text() and "claims.html" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="run make reproduce-table first"):
        report.main(["--results", str(folder / "none")])


def test_figures_of_contamination(tmp_path: Path) -> None:
    keys = [k for panels in diagnostics.FIGURES.values() for k in panels]
    for label in ("grpo", "slca"):
        for seed in (0, 1):
            run = make_run(tmp_path / "records", label, seed, "a")
            rows = [step(i, 0.5) | (dict.fromkeys(keys, 0.1 + seed) if i % 2 == 0 else {}) for i in range(5)]
            write(run / "metrics.jsonl", rows)
    runs = load_runs(tmp_path / "records")
    assert diagnostics.measured(runs[0], "sign_disagreement") == ([1, 3, 5], [0.1] * 3)
    paths = diagnostics.draw(runs, tmp_path / "figures")
    assert [p.name for p in paths] == [f"{name}.png" for name in diagnostics.FIGURES]
    before = [p.read_bytes() for p in paths]
    assert [p.read_bytes() for p in diagnostics.draw(runs, tmp_path / "figures")] == before  # same records, same bytes
    with pytest.raises(SystemExit, match="no run on record measured contamination"):
        make_run(tmp_path / "bare", "slca", 0, "a", (0.1, 0.2))
        diagnostics.main(["--records", str(tmp_path / "bare"), "--out", str(tmp_path)])


def test_claims_name_arms_that_exist() -> None:
    from experiments.ablation import FOLDER
    from slca.config_load import load_config

    for claim in CLAIMS:
        config = load_config("tiny" if claim.where == report.MAIN else FOLDER / f"{claim.where}.yaml")
        assert {claim.a, claim.b or claim.a} <= set(config.matrix.methods), json.dumps(claim.text)
