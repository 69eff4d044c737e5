"""All generated tools by name, which of them are kept from training, and which look alike."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from slca.tasks import domains
from slca.tasks.spec import Chain, Domain, Tool, function_schema, return_schema

#: Share of each domain's tools that no training task shows, not even as a distractor.
UNSEEN_SHARE = 0.2


@dataclass(frozen=True)
class Entry:
    """A tool with its domain and its two schemas, built once."""

    tool: Tool
    domain: str
    schema: dict[str, Any]
    returns: dict[str, Any]
    unseen: bool


@dataclass(frozen=True)
class Catalogue:
    """``entries`` by tool name; ``chains`` with their domain's tools; ``look_alikes`` from most to least alike."""

    entries: dict[str, Entry]
    chains: tuple[Chain, ...]
    look_alikes: dict[str, tuple[str, ...]]

    def names(self, split: str) -> list[str]:
        """Tools that tasks of ``split`` may list: all for ``test_unseen``, the seen ones otherwise."""
        return [n for n, e in self.entries.items() if split == "test_unseen" or not e.unseen]

    def targets(self, split: str) -> list[str]:
        """Tools that requests of ``split`` are about."""
        return [n for n, e in self.entries.items() if e.unseen == (split == "test_unseen")]

    def chains_of(self, split: str) -> list[Chain]:
        """Chains of seen tools, or for ``test_unseen`` those that need an unseen one."""
        def unseen(chain: Chain) -> bool:
            return self.entries[chain.first].unseen or self.entries[chain.second].unseen

        return [c for c in self.chains if unseen(c) == (split == "test_unseen")]


def load_domains() -> list[Domain]:
    """The ``DOMAIN`` of every module of ``slca.tasks.domains``, by module name."""
    names = sorted(m.name for m in pkgutil.iter_modules(domains.__path__))
    return [importlib.import_module(f"{domains.__name__}.{name}").DOMAIN for name in names]


@lru_cache(maxsize=1)
def catalogue() -> Catalogue:
    entries: dict[str, Entry] = {}
    chains: list[Chain] = []
    look_alikes: dict[str, tuple[str, ...]] = {}
    for domain in load_domains():
        by_hash = sorted(domain.tools, key=lambda t: blake2b(t.name.encode()).digest())
        unseen = {t.name for t in by_hash[: round(UNSEEN_SHARE * len(by_hash))]}
        for tool in domain.tools:
            if tool.name in entries:
                raise ValueError(f"tool {tool.name!r} is in domains {entries[tool.name].domain} and {domain.name}")
            schema, returns = function_schema(tool), return_schema(tool)
            entries[tool.name] = Entry(tool, domain.name, schema, returns, tool.name in unseen)
            look_alikes[tool.name] = _ranked(tool, domain.tools)
        chains.extend(domain.chains)
    return Catalogue(entries, tuple(chains), look_alikes)


def _ranked(tool: Tool, others: Sequence[Tool]) -> tuple[str, ...]:
    alike = sorted((o for o in others if o is not tool), key=lambda o: (-_likeness(tool, o), o.name))
    return tuple(o.name for o in alike)


def _likeness(a: Tool, b: Tool) -> int:
    """Words that names and descriptions share, and parameters that both take."""
    def words(t: Tool) -> set[str]:
        return set(re.findall(r"[a-z]+", f"{t.name} {t.description}".lower().replace("_", " "))) - {"a", "of", "the"}

    return len(words(a) & words(b)) + len(a.params.keys() & b.params.keys())
