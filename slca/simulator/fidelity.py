"""How like the recorded answers the simulated ones are, on recorded calls that the simulator was not told (ours)."""

from __future__ import annotations

import copy
from collections.abc import Iterable

from slca.simulator.metrics import Metrics
from slca.simulator.replay import agreement
from slca.simulator.simulator import Simulator
from slca.simulator.toolset import Toolset
from slca.tasks.task import Task


def measure_fidelity(simulator: Simulator, tasks: Iterable[Task]) -> dict[str, float] | None:
    """Answer the held-out recorded calls of the tasks' tools and compare; the result also goes into the metrics.

    Returns:
        ``n`` calls, mean ``field_overlap`` and ``type_agreement`` in [0, 1] (``replay.agreement``); None where no
        call could be compared.
    """
    tools: dict[str, Toolset] = {}
    for task in tasks:
        toolset = Toolset(task.tools, task.returns)
        toolset.checks_ids = False  # a recorded call stands alone: what it asks about was returned before it
        for name in toolset:
            tools.setdefault(name, toolset)
    probe = copy.copy(simulator)  # same backend and cache; but these calls are not the run's
    probe.metrics = Metrics()
    held_out = [r for r in simulator.recordings.held_out if r.tool in tools]
    calls = [(probe.episode(tools[r.tool], key=f"fidelity/{n}"), r.tool, r.arguments) for n, r in enumerate(held_out)]
    answers = probe.call_batch(calls)
    pairs = [agreement(a.value, r.response) for a, r in zip(answers, held_out, strict=True) if a.ok]
    if not pairs:
        return None
    overlap, types = (sum(column) / len(pairs) for column in zip(*pairs, strict=True))
    simulator.metrics.fidelity = {"n": float(len(pairs)), "field_overlap": overlap, "type_agreement": types}
    return simulator.metrics.fidelity
