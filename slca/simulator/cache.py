"""Answers kept by content: the same call in the same state gets the same answer, in every rollout and process.

A key is a digest of (tool schema, canonical arguments, state, backend, seed). Keys are held in memory and, where a file
is given, in SQLite, which several processes may share: the first answer that is written is the one that all get.
"""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections import OrderedDict
from pathlib import Path

_SCHEMA = """
CREATE TABLE IF NOT EXISTS answers (
    key BLOB PRIMARY KEY, content TEXT NOT NULL, origin TEXT NOT NULL, used INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS answers_used ON answers(used);
CREATE TABLE IF NOT EXISTS schemas (key BLOB PRIMARY KEY, content TEXT NOT NULL) WITHOUT ROWID;
"""


def key_of(*parts: str) -> bytes:
    """(16,) bytes of a digest over ``parts``; no two lists of parts share a text."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.digest()


class Cache:
    """Answers by key; safe for several threads and, with a file, several processes.

    Args:
        path: SQLite file, made if missing; None keeps answers in this process alone.
        entries: beyond this number the oldest tenth is dropped (memory and file each).

    Raises:
        ValueError: the file is not such a cache or cannot be written.
    """

    def __init__(self, path: str | Path | None = None, entries: int = 200_000) -> None:
        if entries < 1:
            raise ValueError(f"cache_entries must be at least 1, not {entries}")
        self.path, self.entries = Path(path) if path else None, entries
        self._memory: OrderedDict[bytes, tuple[str, str]] = OrderedDict()
        self._lock = threading.Lock()
        self._local = threading.local()
        self._written = 0
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._open()

    def _open(self) -> sqlite3.Connection:
        """This thread's connection."""
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            try:
                connection = sqlite3.connect(str(self.path), timeout=60.0, isolation_level=None)
                connection.execute("PRAGMA journal_mode=WAL")
                connection.execute("PRAGMA synchronous=NORMAL")
                connection.executescript(_SCHEMA)
            except sqlite3.Error as err:
                raise ValueError(f"{self.path}: no simulator cache ({err}); name another file or delete it") from err
            self._local.connection = connection
        return connection

    def get(self, key: bytes) -> tuple[str, str] | None:
        """(content, who answered), None when the call is new."""
        with self._lock:
            if (found := self._memory.get(key)) is not None:
                self._memory.move_to_end(key)
                return found
        if self.path is None:
            return None
        row = self._open().execute("SELECT content, origin FROM answers WHERE key = ?", (key,)).fetchone()
        if row is not None:
            self._remember(key, (row[0], row[1]))
        return row

    def put(self, key: bytes, content: str, origin: str, keep: bool = True) -> tuple[str, str]:
        """Keep an answer, in the file only if ``keep``; returns the one that counts: the first that any process put."""
        kept = (content, origin)
        if self.path is not None and keep:
            db = self._open()
            db.execute("BEGIN IMMEDIATE")
            try:
                row = db.execute("SELECT content, origin FROM answers WHERE key = ?", (key,)).fetchone()
                if row is None:
                    newest = "(SELECT COALESCE(MAX(used), 0) + 1 FROM answers)"
                    db.execute(f"INSERT INTO answers VALUES (?, ?, ?, {newest})", (key, content, origin))
                else:
                    kept = (row[0], row[1])
                db.execute("COMMIT")
            except BaseException:
                db.execute("ROLLBACK")
                raise
            self._trim(db)
        return self._remember(key, kept)

    def _remember(self, key: bytes, value: tuple[str, str]) -> tuple[str, str]:
        with self._lock:
            value = self._memory.setdefault(key, value)
            if len(self._memory) > self.entries:
                for _ in range(max(1, self.entries // 10)):
                    self._memory.popitem(last=False)
        return value

    def _trim(self, db: sqlite3.Connection) -> None:
        """Keep the file bounded; counted now and then, for counting is slow."""
        self._written += 1
        if self._written % max(1, self.entries // 20):
            return
        (n,) = db.execute("SELECT COUNT(*) FROM answers").fetchone()
        if n > self.entries:
            drop = n - self.entries + self.entries // 10
            db.execute("DELETE FROM answers WHERE key IN (SELECT key FROM answers ORDER BY used LIMIT ?)", (drop,))

    def schema(self, key: bytes, content: str | None = None) -> str | None:
        """A kept response schema; with ``content``, keep it unless there is one, and return the one that counts."""
        if self.path is None:
            with self._lock:
                if content is None:
                    found = self._memory.get(key)
                    return found[0] if found else None
                return self._memory.setdefault(key, (content, "schema"))[0]
        db = self._open()
        if content is not None:
            db.execute("INSERT OR IGNORE INTO schemas VALUES (?, ?)", (key, content))
        row = db.execute("SELECT content FROM schemas WHERE key = ?", (key,)).fetchone()
        return row[0] if row else None

    def __len__(self) -> int:
        if self.path is None:
            return len(self._memory)
        (n,) = self._open().execute("SELECT COUNT(*) FROM answers").fetchone()
        return int(n)

    def by_origin(self) -> dict[str, int]:
        """Number of answers by who gave them."""
        if self.path is None:
            counts: dict[str, int] = {}
            for _, origin in self._memory.values():
                counts[origin] = counts.get(origin, 0) + 1
            return counts
        return dict(self._open().execute("SELECT origin, COUNT(*) FROM answers GROUP BY origin ORDER BY origin"))

    def close(self) -> None:
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._local.connection = None
