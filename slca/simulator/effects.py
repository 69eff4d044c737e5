"""What a tool does to the world, by its annotation or the verb of its name (ours)."""

from __future__ import annotations

from typing import Any

from slca.simulator.vocabulary import words

EFFECTS = ("read", "create", "update", "delete")


def _split(text: str) -> frozenset[str]:
    return frozenset(text.split())


_VERBS = {
    "read": _split(
        "get list search find fetch read check show view lookup look query track count compare estimate convert calculate "
        "compute describe measure retrieve translate plan validate browse inspect detect predict is has"
    ),
    "create": _split(
        "create add book reserve order place schedule send post make register open upload insert new start rent buy "
        "purchase submit enroll apply subscribe log invite share generate issue reply request write save transfer append"
    ),
    "update": _split(
        "update set edit modify change move rename reschedule extend mark assign pay cancel rate lock unlock mute turn "
        "snooze restore reroute put patch approve close archive complete return block enable disable adjust replace "
        "toggle increase decrease upgrade reject stop pause resume"
    ),
    "delete": _split("delete remove drop destroy clear unsubscribe erase purge discard revoke uninstall"),
}
_EFFECT_OF = {verb: effect for effect, verbs in _VERBS.items() for verb in verbs}


def effect_of(name: str, function: dict[str, Any]) -> str:
    """``read``, ``create``, ``update`` or ``delete``.

    ``x-effect`` decides, then MCP's ``annotations.readOnlyHint``, then the first verb in the name that is known; a tool
    that says nothing reads.

    >>> effect_of("calendar.createEvent", {}), effect_of("weather", {}), effect_of("get_x", {"x-effect": "delete"})
    ('create', 'read', 'delete')
    """
    if function.get("x-effect") in EFFECTS:
        return str(function["x-effect"])
    annotations = function.get("annotations")
    if isinstance(annotations, dict) and annotations.get("readOnlyHint") is True:
        return "read"
    return verb_effect(name) or "read"


def verb_effect(name: str) -> str | None:
    """The effect that the first known verb in ``name`` tells, None without one."""
    return next((_EFFECT_OF[w] for w in words(name) if w in _EFFECT_OF), None)


def noun_of(name: str) -> str:
    """The last word of the name that is no verb, in the singular: what the tool is about; "" for none.

    >>> noun_of("listCustomerOrders"), noun_of("turn_on_device"), noun_of("ping")
    ('order', 'device', 'ping')
    """
    parts = [w for w in words(name) if w not in _EFFECT_OF] or words(name)
    return singular(parts[-1]) if parts else ""


def singular(word: str) -> str:
    """A guess good enough to match "orders" with "order" and "cities" with "city"."""
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "ches", "shes")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


def is_cancel(name: str) -> bool:
    """Does the tool cancel something, which keeps the entity and changes its status?"""
    return "cancel" in words(name)
