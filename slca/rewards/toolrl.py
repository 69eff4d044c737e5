"""ToolRL's reward for the calls of a rollout (arXiv 2504.13958, section on reward design)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import linear_sum_assignment

from slca.rewards.process import loosely_equal
from slca.tasks.task import Call


def toolrl_reward(calls: Sequence[Call], gold: Sequence[Call], format_valid: bool) -> float:
    """``format + correctness`` in [-3, 4].

    format is 1 or 0; correctness = 6 S / S_max - 3 with S = Jaccard of the sets of tool names + for each gold call, under
    the best one-to-one matching, Jaccard of its argument names (calls of one name) + number of its arguments with the
    right value; S_max = 1 + number of gold calls + number of their arguments.
    """
    names, wanted = {c.name for c in calls}, {g.name for g in gold}
    union = names | wanted
    score = len(names & wanted) / len(union) if union else 1.0
    if calls and gold:
        worth = np.array([[_worth(c, g) for c in calls] for g in gold])
        rows, columns = linear_sum_assignment(worth, maximize=True)
        score += float(worth[rows, columns].sum())
    best = 1 + len(gold) + sum(len(g.arguments) for g in gold)
    return float(format_valid) + 6.0 * score / best - 3.0


def _worth(call: Call, gold: Call) -> float:
    if call.name != gold.name:
        return 0.0
    union = call.arguments.keys() | gold.arguments.keys()
    keys = len(call.arguments.keys() & gold.arguments.keys()) / len(union) if union else 1.0
    values = sum(k in call.arguments and loosely_equal(call.arguments[k], v) for k, v in gold.arguments.items())
    return keys + values
