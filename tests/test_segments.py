"""Segments of concrete conversations, from turns as they were sampled to the two masks."""

from __future__ import annotations

import pytest
import torch
from helpers_rollouts import call_text, lay_out
from hypothesis import given, settings
from hypothesis import strategies as st

from slca.segments import NONE, SUMMARY, TOOL, Boundary, run_index, segment
from slca.trainer import stack

CALL = call_text("weather", city="Oslo")
CUT = '<tool_call>{"name": "weather", "argum'
BROKEN = "<tool_call>{weather Oslo}</tool_call>"
REPLY = "It is 12 degrees in Oslo."
THOUGHT = "<think>Should I write <tool_call> now?</think>It is 12 degrees."
LETTERS = {NONE: ".", TOOL: "T", SUMMARY: "S"}


def drawn(boundary: Boundary, *rollouts: list[tuple[str, int, int]]) -> list[str]:
    """One letter a token after the prompt: T tool, S summary, . neither."""
    batch = stack([[lay_out(*turns) for turns in rollouts]], [[]])
    rows = segment(batch.policy_mask, batch.opens_call, boundary).tolist()
    return ["".join(LETTERS[s] for s in row) for row in rows]


@pytest.mark.parametrize(
    ("turns", "paper", "structural"),
    [
        ([(CALL, 3, 2), (REPLY, 2, 0)], "TTT..SS", "TTT..SS"),
        ([(CALL, 3, 2), (CALL, 1, 4), (REPLY, 2, 0)], "TTT..T....SS", "TTT..T....SS"),
        ([(CALL + CALL + CALL, 5, 3), (REPLY, 1, 0)], "TTTTT...S", "TTTTT...S"),
        ([(BROKEN, 2, 1), (CALL, 2, 1), (REPLY, 2, 0)], "TT.TT.SS", "TT.TT.SS"),
        ([(REPLY, 4, 0)], "SSSS", "SSSS"),
        ([(THOUGHT, 4, 0)], "SSSS", "SSSS"),
        # Where the two rules differ: the last run opens a call.
        ([(CALL, 3, 2), (CUT, 2, 0)], "TTT..SS", "TTT..TT"),
        ([(CALL, 3, 2), (BROKEN, 2, 0)], "TTT..SS", "TTT..TT"),
        ([(CALL, 2, 1), (CALL, 2, 3)], "TT.SS...", "TT.TT..."),
        ([(CUT, 3, 0)], "SSS", "TTT"),
        ([(CALL, 3, 2)], "SSS..", "TTT.."),
        # An empty reply still samples the token that ends it.
        ([(CALL, 3, 2), ("", 1, 0)], "TTT..S", "TTT..S"),
    ],
)
def test_conversations(turns: list[tuple[str, int, int]], paper: str, structural: str) -> None:
    assert drawn("paper", turns) == [paper]
    assert drawn("structural", turns) == [structural]


def test_each_row_has_its_own_boundary_and_padding_belongs_to_none() -> None:
    long, short, cut = [(CALL, 2, 2), (CALL, 1, 1), (REPLY, 3, 0)], [(REPLY, 2, 0)], [(CALL, 1, 1), (CUT, 2, 0)]
    assert drawn("paper", long, short, cut) == ["TT..T.SSS", "SS.......", "T.SS....."]
    assert drawn("structural", long, short, cut) == ["TT..T.SSS", "SS.......", "T.TT....."]


def test_without_policy_tokens_both_segments_are_absent() -> None:
    assert drawn("paper", [("", 0, 2)]) == drawn("structural", [("", 0, 2)]) == [".."]
    assert segment(torch.zeros(2, 0, dtype=torch.bool)).shape == (2, 0)
    assert segment(torch.zeros(0, 4, dtype=torch.bool)).shape == (0, 4)


TURNS = st.lists(
    st.tuples(st.sampled_from([CALL, CALL + CALL, CUT, BROKEN, REPLY, THOUGHT]), st.integers(1, 4), st.integers(1, 3)),
    min_size=1,
    max_size=5,
)


@given(st.lists(TURNS, min_size=1, max_size=4), st.sampled_from(["paper", "structural"]))
@settings(max_examples=60, deadline=None)
def test_turns_are_whole_and_answers_of_tools_are_in_no_segment(
    rollouts: list[list[tuple[str, int, int]]], boundary: Boundary
) -> None:
    for row, turns in zip(drawn(boundary, *rollouts), rollouts, strict=True):
        at = 0
        for k, (text, sampled, masked) in enumerate(turns):
            last = k == len(turns) - 1
            opens = text in (CALL, CALL + CALL, CUT, BROKEN)
            letter = "S" if last and not (boundary == "structural" and opens) else "T"
            assert row[at : at + sampled] == letter * sampled
            assert row[at + sampled : at + sampled + masked] == "." * masked
            at += sampled + masked
        assert not row[at:].strip(".")


def test_runs_are_counted_from_zero_in_each_row() -> None:
    mask = torch.tensor([[1, 0, 0, 1, 1, 0, 1], [0, 0, 1, 0, 0, 0, 0], [0] * 7], dtype=torch.bool)
    assert run_index(mask).tolist() == [[0, -1, -1, 1, 1, -1, 2], [-1, -1, 0, -1, -1, -1, -1], [-1] * 7]
    with pytest.raises(ValueError, match=r"\(N, T\) bool"):
        run_index(mask[0])
