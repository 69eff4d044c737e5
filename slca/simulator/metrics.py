"""What a simulator did in a run: counts and rates, for the manifest and the end of a run."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Mapping
from typing import Any

import numpy as np

_KEPT = 20_000


class Metrics:
    """Counters of one simulator; safe for several threads."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.fidelity: dict[str, float] | None = None
        self._cold: deque[float] = deque(maxlen=_KEPT)
        self._warm: deque[float] = deque(maxlen=_KEPT)
        self._seen: OrderedDict[bytes, int] = OrderedDict()
        self._lock = threading.Lock()

    def count(self, name: str, n: int = 1) -> None:
        with self._lock:
            self.counts[name] += n

    def latency(self, seconds: float, cold: bool) -> None:
        """Time of one call; of a batch, the batch's time shared equally."""
        (self._cold if cold else self._warm).append(seconds)

    def answered(self, key: bytes, content: str) -> None:
        """Compare the answer with that of an earlier equal call."""
        own = hash(content)
        with self._lock:
            if (before := self._seen.get(key)) is not None:
                self.counts["repeats"] += 1
                self.counts["repeats_equal"] += before == own
                return
            self._seen[key] = own
            if len(self._seen) > _KEPT:
                self._seen.popitem(last=False)

    def summary(self) -> dict[str, Any]:
        """Rates are None where nothing was counted.

        ``schema_valid_before``: share of fresh answers that fitted their schema as they came; ``_after``: after repair.
        ``determinism``: share of repeated calls that got an equal answer. ``fidelity``: agreement with held-out recorded
        answers (``replay.agreement``), where it was measured. Latencies in milliseconds per call.
        """
        with self._lock:
            c = dict(self.counts)
        get = Counter(c)
        cached = get["cache_hits"] + get["fresh"]
        return {
            "calls": get["calls"],
            "refused": get["refused"],
            "coerced": get["coerced"],
            "replayed": get["replayed"],
            "fresh": get["fresh"],
            "schema_valid_before": _rate(get["valid_before"], get["fresh"] - get["failed"]),
            "schema_valid_after": _rate(get["valid_after"], get["fresh"]),
            "repaired": get["repaired"],
            "fallbacks": get["fallbacks"],
            "cache_hit_rate": _rate(get["cache_hits"], cached),
            "determinism": _rate(get["repeats_equal"], get["repeats"]),
            "repeats": get["repeats"],
            "latency_fresh_ms": _percentiles(self._cold),
            "latency_known_ms": _percentiles(self._warm),
            "prompt_tokens": get["prompt_tokens"],
            "tokens": get["tokens"],
            "fidelity": self.fidelity,
            "faults": {k.removeprefix("fault/"): n for k, n in sorted(c.items()) if k.startswith("fault/")},
            "failures": {k.removeprefix("failure/"): n for k, n in sorted(c.items()) if k.startswith("failure/")},
        }


def _rate(part: int, whole: int) -> float | None:
    return part / whole if whole > 0 else None


def _percentiles(seconds: deque[float]) -> dict[str, float] | None:
    if not seconds:
        return None
    p50, p95 = np.percentile(np.array(seconds) * 1000.0, [50, 95])
    return {"p50": float(p50), "p95": float(p95)}


def merge(total: Mapping[str, Any] | None, new: Mapping[str, Any]) -> dict[str, Any]:
    """Summaries of an interrupted run and its continuation: counts add up, rates are weighted by what they count."""
    if not total:
        return dict(new)
    weights = {
        "schema_valid_before": "fresh", "schema_valid_after": "fresh", "cache_hit_rate": "calls", "determinism": "repeats",
    }  # fmt: skip
    out: dict[str, Any] = {}
    for key, value in new.items():
        old = total.get(key)
        if key in weights:
            pairs = [(m[key], m.get(weights[key], 0)) for m in (total, new) if m.get(key) is not None]
            whole = sum(w for _, w in pairs)
            out[key] = sum(v * w for v, w in pairs) / whole if whole else None
        elif isinstance(value, int) and isinstance(old, int):
            out[key] = old + value
        elif key in ("faults", "failures") and isinstance(old, Mapping):
            out[key] = dict(Counter(old) + Counter(value))
        else:
            out[key] = value if value is not None else old
    return out


def lines(summary: Mapping[str, Any]) -> list[str]:
    """The summary as text, one line per group, without what did not happen."""

    def share(key: str) -> str:
        return "-" if summary[key] is None else f"{100 * summary[key]:.1f} %"

    out = [
        f"simulator: {summary['calls']} calls, {summary['refused']} refused, {summary['fresh']} answered afresh, "
        f"cache hits {share('cache_hit_rate')}, determinism {share('determinism')} of {summary['repeats']} repeats",
        f"  schema-valid {share('schema_valid_before')} before and {share('schema_valid_after')} after repair; "
        f"{summary['repaired']} repaired, {summary['fallbacks']} fell back",
    ]
    for key, name in (("latency_fresh_ms", "fresh"), ("latency_known_ms", "known")):
        if summary[key]:
            out.append(f"  {name} call: p50 {summary[key]['p50']:.3g} ms, p95 {summary[key]['p95']:.3g} ms")
    if summary["tokens"]:
        out.append(f"  tokens: {summary['prompt_tokens']} read, {summary['tokens']} written")
    if found := summary.get("fidelity"):
        overlap, types = 100 * found["field_overlap"], 100 * found["type_agreement"]
        out.append(
            f"  {found['n']:.0f} held-out recorded answers: fields overlap {overlap:.1f} %, types agree {types:.1f} %"
        )
    for key in ("faults", "failures"):
        if summary[key]:
            out.append(f"  {key}: " + ", ".join(f"{k} {n}" for k, n in summary[key].items()))
    return out
