"""Methods by name. A method turns a batch of groups into token advantages; nothing else differs between two runs."""

from __future__ import annotations

import dataclasses
import difflib
from typing import Any

from baselines.dapo import DAPO
from baselines.dr_grpo import DrGRPO
from baselines.gdpo import GDPO
from baselines.grpo import GRPO
from baselines.gspo import GSPOToken
from baselines.mt_grpo import MTGRPO
from baselines.rltr import RLTR
from baselines.support_control import SupportControl
from baselines.toolpo import ToolPO
from baselines.toolrl import ToolRL
from slca.credit import SLCA, Method
from slca.variants import SLCAVariant

METHODS: dict[str, type] = {
    "grpo": GRPO, "toolpo": ToolPO, "rltr": RLTR, "slca": SLCA, "gdpo": GDPO, "support_control": SupportControl,
    "dr_grpo": DrGRPO, "dapo": DAPO, "gspo_token": GSPOToken, "mt_grpo": MTGRPO, "toolrl": ToolRL,
    "slca_variant": SLCAVariant,
}  # fmt: skip


def make_method(name: str, **options: Any) -> Method:
    """The method ``name`` with ``options``; ValueError naming the nearest for an unknown name or option."""
    if name not in METHODS:
        raise ValueError(f"unknown method {name!r}{_nearest(name, list(METHODS))}")
    known = [f.name for f in dataclasses.fields(METHODS[name]) if f.name != "name"]
    for option in options:
        if option not in known:
            raise ValueError(f"method {name!r} has no option {option!r}{_nearest(option, known)}")
    for field in dataclasses.fields(METHODS[name]):
        value, wanted = options.get(field.name, field.default), type(field.default)
        fits = isinstance(value, wanted) or (wanted is float and type(value) is int)
        if not fits or (isinstance(value, bool) and wanted is not bool):
            raise ValueError(f"option {field.name} of method {name!r} is {value!r}; {wanted.__name__} is expected")
    return METHODS[name](**options)  # type: ignore[no-any-return]


def _nearest(word: str, known: list[str]) -> str:
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.4)
    return f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(known)}"
