"""A reward for what the calls brought about, in place of how they match the gold (ours; the paper's "execution reward").

The gold is run against the schema simulator, and what it brought about, the answers of its successful calls, is
compared with the answers that the rollout got. Another plan that ends in the same answers is as good; a write that the
gold does not make is held against the rollout, a further read is not.
"""

from __future__ import annotations

from collections import Counter

from slca.rollout.rollout import Rollout
from slca.simulator.jsonvalue import canonical
from slca.simulator.simulator import episode_of
from slca.tasks.task import Task


def execution_reward(task: Task, rollout: Rollout) -> float:
    """``hits / (gold outcomes + further writes)`` in [0, 1]; 0 where no call is right."""
    episode = episode_of(task)
    for step in task.gold:
        for call in step:
            episode.call(call.name, call.arguments)
    gold = Counter(canonical(r.response.value) for r in episode.log if r.response.ok)
    if not gold:
        return 0.0
    made: Counter[str] = Counter()
    writes: Counter[str] = Counter()
    for turn in rollout.turns:
        for call, response in zip(turn.calls, turn.responses, strict=False):
            tool = episode.toolset.get(call.name)
            if response.ok and tool is not None:
                outcome = canonical(response.value)
                made[outcome] += 1
                writes[outcome] += tool.effect != "read"
    hits = (gold & made).total()
    return hits / (gold.total() + (writes - gold).total())
