"""A circuit breaker: an endpoint that failed several times in a row is left alone for a while, then tried by one call."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Breaker:
    """Opens after ``limit`` failures in a row, for ``cooldown`` seconds; safe for several threads."""

    def __init__(self, limit: int, cooldown: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.limit, self.cooldown, self._clock = limit, cooldown, clock
        self.failures = 0
        self._until = 0.0
        self._probing = False
        self._lock = threading.Lock()

    def wait(self) -> float:
        """Seconds until a call may be made, 0.0 for now; whoever gets 0.0 must report ``success`` or ``failure``."""
        with self._lock:
            if self.failures < self.limit:
                return 0.0
            left = self._until - self._clock()
            if left > 0 or self._probing:
                return max(left, 0.05)
            self._probing = True  # half open: one call tries, the others wait for what it finds
            return 0.0

    def success(self) -> None:
        with self._lock:
            self.failures, self._probing = 0, False

    def failure(self) -> None:
        with self._lock:
            self.failures += 1
            self._probing = False
            if self.failures >= self.limit:
                self._until = self._clock() + self.cooldown

    @property
    def open(self) -> bool:
        with self._lock:
            return self.failures >= self.limit
