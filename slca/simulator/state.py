"""What an episode has changed: writes are kept as entities and seen by later reads (ours).

Backends answer each call by itself, so that equal calls get equal answers. The state is laid over those answers: what a
rollout created appears in its lists, what it changed reads as changed, what it deleted is not found. A laid-over answer
that no longer fits the response schema is dropped for the backend's own.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from slca.simulator.effects import is_cancel, singular
from slca.simulator.ids import id_values, is_id
from slca.simulator.schema_backend import answer
from slca.simulator.toolset import Tool
from slca.simulator.validation import plain_validator

_NEW = ("new_", "updated_", "to_")
_CANCELLED = ("cancelled", "canceled", "Cancelled", "CANCELLED")


@dataclass
class Entity:
    """One thing the episode wrote: ``identifier`` None where its tool knows no ids; ``about`` are the call's arguments.

    ``settled`` are the fields that a call gave or a create told; others are what updates told beside.
    """

    noun: str
    identifier: str | None
    about: dict[str, Any]
    fields: dict[str, Any] = field(default_factory=dict)
    settled: set[str] = field(default_factory=set)
    created: bool = False
    cancelled: bool = False
    deleted: bool = False


class State:
    """Entities of one episode."""

    def __init__(self) -> None:
        self.entities: list[Entity] = []
        self._by_id: dict[str, Entity] = {}

    def gone(self, tool: Tool, arguments: dict[str, Any]) -> str | None:
        """What of the call's arguments names something that was deleted: a path, None for nothing."""
        if not any(e.deleted for e in self.entities):
            return None
        for path, text, _ in id_values(arguments, tool.parameters):
            if (known := self._by_id.get(text)) is not None and known.deleted:
                return path
        if tool.effect != "create":
            for e in self.entities:
                if e.deleted and e.identifier is None and e.noun == tool.noun and _agree(e.about, arguments):
                    return next(k for k in arguments if k in e.about)
        return None

    def record(self, tool: Tool, arguments: dict[str, Any], value: Any) -> None:
        """Take in a call that succeeded."""
        if tool.effect == "read":
            return
        given = [(p, text) for p, text, _ in id_values(arguments, tool.parameters)]
        told = value if isinstance(value, dict) else {}
        if tool.effect == "create":
            known = {text for _, text in given}
            fresh = [(p, text) for p, text, _ in id_values(value, tool.returns) if text not in known]
            identifier = min(fresh, key=lambda f: (f[0].count("."), _mismatch(f[0], tool.noun)))[1] if fresh else None
            fields = {**arguments, **told}
            self._add(Entity(tool.noun, identifier, dict(arguments), fields, set(fields), created=True))
            return
        entity = self._target(tool, given, arguments)
        if tool.effect == "delete":
            entity.deleted = True
            return
        changed = {k: v for k, v in arguments.items() if not is_id(k, _property(tool.parameters, k))}
        for key, new in changed.items():
            short = next((key[len(p) :] for p in _NEW if key.startswith(p)), key)
            entity.fields[short] = new
            entity.settled.add(short)
        for key, new in told.items():
            wanted = _property(tool.returns, key)
            # what an update tells of fields that it was not asked to change is made up, unless its schema says so
            if not is_id(key, wanted) and (key not in entity.settled or (isinstance(wanted, dict) and "enum" in wanted)):
                entity.fields[key] = new
        entity.cancelled = entity.cancelled or is_cancel(tool.name)

    def _add(self, entity: Entity) -> Entity:
        self.entities.append(entity)
        if entity.identifier is not None:
            self._by_id[entity.identifier] = entity
        return entity

    def _target(self, tool: Tool, given: list[tuple[str, str]], arguments: dict[str, Any]) -> Entity:
        """The entity that an update or a delete is about, a new one where it is not known yet."""
        if given:
            identifier = min(given, key=lambda g: _mismatch(g[0], tool.noun))[1]
            return self._by_id.get(identifier) or self._add(Entity(tool.noun, identifier, dict(arguments)))
        return self._add(Entity(tool.noun, None, dict(arguments)))

    def agreeing(self, tool: Tool, arguments: dict[str, Any], value: Any, seed: int) -> Any:
        """``value``, a backend's answer, made to agree with the call: what was given is told back under its own name.

        What a create returns has ids that nothing else in the episode has.
        """
        if not isinstance(value, dict):
            return value
        out = dict(value)
        for key, given in arguments.items():
            short = next((key[len(p) :] for p in _NEW if key.startswith(p)), key) if tool.effect == "update" else key
            wanted = _property(tool.returns, short)
            if short in out and "x-echo" not in (wanted or {}) and _may_be(given, wanted):
                out[short] = copy.deepcopy(given)
        if tool.effect == "create":
            for key, text in value.items():
                taken = isinstance(text, str) and text in self._by_id and text not in arguments.values()
                if taken and is_id(key, _property(tool.returns, key)):
                    other = answer(tool.name, {**arguments, "": len(self.entities)}, tool.returns, seed)
                    out[key] = other[key] if isinstance(other, dict) and key in other else text
        return out if out != value and tool.fits(out) else value

    def overlay(self, tool: Tool, arguments: dict[str, Any], value: Any) -> Any:
        """``value``, the answer to a read or an update, as it is after the episode's writes."""
        if tool.effect not in ("read", "update") or not self.entities:
            return value
        out = copy.deepcopy(value)
        if tool.effect == "update":  # its answer tells the rest of what it names, which it did not change
            if (e := self._named_by(out, tool.returns)) is not None:
                known = {k: v for k, v in e.fields.items() if k in e.settled}
                _lay(replace(e, fields=known, cancelled=False), out, tool.returns)
            return out if out != value and tool.fits(out) else value
        self._walk(out, tool.returns)
        if isinstance(out, dict):
            for e in self._asked_about(tool, arguments):
                _lay(e, out, tool.returns, aside=arguments)
        self._complete(tool, arguments, out)
        return out if out != value and tool.fits(out) else value

    def _asked_about(self, tool: Tool, arguments: dict[str, Any]) -> Iterator[Entity]:
        asked = {text for _, text, _ in id_values(arguments, tool.parameters)}
        for e in self.entities:
            if e.identifier in asked or (e.identifier is None and e.noun == tool.noun and _agree(e.about, arguments)):
                yield e

    def _walk(self, value: Any, schema: Any) -> None:
        """Lay changes over every object that carries the id of an entity; deleted ones leave their list."""
        if isinstance(value, list):
            items = schema.get("items") if isinstance(schema, dict) else None
            for item in list(value):
                if (e := self._named_by(item, items)) is not None and e.deleted:
                    value.remove(item)
                else:
                    self._walk(item, items)
        elif isinstance(value, dict):
            if (e := self._named_by(value, schema)) is not None:
                _lay(e, value, schema)
            for key, item in value.items():
                self._walk(item, _property(schema, key))

    def _named_by(self, value: Any, schema: Any) -> Entity | None:
        if not isinstance(value, dict):
            return None
        texts = [v for k, v in value.items() if isinstance(v, str) and is_id(k, _property(schema, k))]
        return next((self._by_id[t] for t in texts if t in self._by_id), None)

    def _complete(self, tool: Tool, arguments: dict[str, Any], value: Any) -> None:
        """Add what the episode created to the list that should hold it."""
        for items, schema, most in _lists(value, tool.returns):
            names = [k for k, s in (schema.get("properties") or {}).items() if is_id(k, s)]
            for e in self.entities:
                if not (e.created and not e.deleted and e.identifier and names and e.noun == tool.noun):
                    continue
                present = any(isinstance(i, dict) and e.identifier in i.values() for i in items)
                if present or len(items) >= most or not _agree(e.fields, arguments, least=0):
                    continue
                item = answer(tool.name, {"id": e.identifier}, schema, 0)
                if isinstance(item, dict):
                    _lay(e, item, schema)
                    item[names[0]] = e.identifier
                    items.append(item)


def _property(schema: Any, name: str) -> Any:
    return (schema.get("properties") or {}).get(name) if isinstance(schema, dict) else None


def _mismatch(path: str, noun: str) -> bool:
    """False when the id at ``path`` is named after ``noun``: such ids are the first choice."""
    last = next((p for p in reversed(path.split(".")) if not p.isdigit()), "")
    return singular(last.removesuffix("_ids").removesuffix("_id")) != noun


def _agree(written: dict[str, Any], asked: dict[str, Any], least: int = 1) -> bool:
    """Are the values that both name equal, and at least ``least`` of them?"""
    shared = [k for k in asked if k in written]
    return len(shared) >= least and all(_folded(written[k]) == _folded(asked[k]) for k in shared)


def _folded(value: Any) -> Any:
    return value.casefold() if isinstance(value, str) else value


def _lay(entity: Entity, target: dict[str, Any], schema: Any, aside: dict[str, Any] | None = None) -> None:
    """Put the entity's fields over those of ``target`` that have the same name and may hold them.

    ``aside`` are the arguments of the read: a thermostat that was set by ``{room, celsius}`` and is read by ``{room}``
    as ``{temperature}`` has one value left to tell, and it is told under the noun.
    """
    fields = entity.fields
    if aside is not None and entity.noun in target and entity.noun not in fields:
        left = [v for k, v in entity.about.items() if k not in aside and not isinstance(v, (dict, list))]
        fields = fields | {entity.noun: left[0]} if len(left) == 1 else fields
    for key in target:
        wanted = _property(schema, key)
        if key in fields and not is_id(key, wanted) and _may_be(fields[key], wanted):
            target[key] = copy.deepcopy(fields[key])
        elif entity.cancelled and key in ("status", "state"):
            target[key] = next((c for c in _CANCELLED if _may_be(c, wanted)), target[key])


def _may_be(value: Any, schema: Any) -> bool:
    return not isinstance(schema, dict) or bool(plain_validator(schema).is_valid(value))


def _lists(value: Any, schema: Any) -> Iterator[tuple[list[Any], dict[str, Any], float]]:
    """Lists of objects at the top or one level below, with the schema of their items and their largest length."""
    pairs = [(value, schema)]
    if isinstance(value, dict):
        pairs = [(v, _property(schema, k)) for k, v in value.items()]
    for items, own in pairs:
        if isinstance(items, list) and isinstance(own, dict) and isinstance(own.get("items"), dict):
            yield items, own["items"], own.get("maxItems", float("inf"))
