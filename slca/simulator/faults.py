"""Seeded faults of the tools, to train agents that live with them.

Whether and how a call fails depends on (seed, episode, number of the call in it) alone, so a run can be repeated, and
an agent that tries again may succeed.
"""

from __future__ import annotations

from hashlib import blake2b

from slca.simulator.options import FAULTS
from slca.simulator.response import ToolResponse, dumps

_MESSAGES = {
    "timeout": "the tool did not answer in time; try again",
    "rate_limit": "too many requests (429); try again later",
    "server_error": "internal server error (500)",
}


class Faults:
    """Args:
        rates: kind (see ``FAULTS``) -> probability; together at most 1.
        seed: another seed, other faults.

    Raises:
        ValueError: an unknown kind, a rate outside [0, 1], rates above 1 together.
    """

    def __init__(self, rates: dict[str, float], seed: int = 0) -> None:
        for kind, rate in rates.items():
            if kind not in FAULTS:
                raise ValueError(f"no fault {kind!r}; choose among {', '.join(FAULTS)}")
            if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not 0 <= rate <= 1:
                raise ValueError(f"the rate of fault {kind!r} must lie in 0..1, not {rate!r}")
        if sum(rates.values()) > 1 + 1e-9:
            raise ValueError(f"the rates of the faults sum to {sum(rates.values()):g}, more than 1")
        self.rates, self.seed = {k: float(rates[k]) for k in FAULTS if rates.get(k)}, seed

    def draw(self, episode: str, number: int) -> str | None:
        """The fault of call ``number`` of an episode, None for none."""
        if not self.rates:
            return None
        digest = blake2b(f"{self.seed}\0{episode}\0{number}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
        x = int.from_bytes(digest, "big") / 2**64
        for kind, rate in self.rates.items():
            if x < rate:
                return kind
            x -= rate
        return None


def faulty(kind: str, response: ToolResponse | None) -> ToolResponse:
    """What the agent sees; ``response`` is the sound answer, needed for ``truncated`` only."""
    if kind == "empty":
        return ToolResponse("", None, ok=False, code="empty", source="fault")
    if kind == "truncated" and response is not None:
        text = response.content[: max(1, len(response.content) // 2)]
        return ToolResponse(text, None, ok=False, code="truncated", source="fault")
    value = {"error": kind, "message": _MESSAGES.get(kind, kind)}
    return ToolResponse(dumps(value), value, ok=False, code=kind, source="fault")
