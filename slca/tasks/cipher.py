"""Tasks in other words: the words of the listed tools replaced consistently in request, tools, calls and replies.

A policy that sees a fixed set of tools learns their names by heart and can call no other. Under a new cipher for every
demonstration the only way to the right call is to compare the request with the tool list, and to copy from it: what an
unseen tool needs, too. (Ours; the paper starts from models that have seen many tools.)
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from dataclasses import dataclass

from slca.tasks.task import Task


def _split(text: str) -> tuple[str, ...]:
    return tuple(text.split())


#: Part of the chat text, of a type or of an error, or too common to carry meaning.
KEPT = frozenset(
    _split(
        "string integer number boolean object any true false null date time email name arguments error code "
        "message missing argument unknown tool tools wrong type enum unexpected not found user assistant system "
        "the and for with from that this are was its has have you your what which who how does into out one two "
        "all "
    )
)
#: Real words to replace others by.
WORDS = _split(
    "paper stone garden signal paint window letter engine market bridge farm glass wheel island tower brush "
    "button river candle copper basket ladder mirror needle orange pocket rocket saddle silver temple tunnel "
    "velvet whistle anchor barrel blanket cabin canvas carpet castle cherry cotton curtain desert dragon "
    "feather finger forest hammer harbor helmet jacket kettle lemon marble meadow metal ocean pepper pillow "
    "planet powder ribbon shadow spider spring statue summer thunder ticket tongue valley violin winter "
    "wizard carve climb dance draw fold gather grind hold jump knit lift melt mend pour press pull push roll "
    "scatter shake sing slice spin stir sweep throw tie trim twist wash weigh whisper wrap "
)
_ONSETS = _split("b bl br c ch cr d dr f fl g gr h j k l m n p pl pr qu r s sh st t th tr v w z")
_NUCLEI = _split("a e i o u ai ea oo ou")
_CODAS = ("", "", "", *_split("b ck d ft g l ll m mp n nd nt p r rd rn s sk st t x"))
_LETTERS = re.compile(r"[A-Za-z]+")
#: Tags and control tokens of the chat text, and formats (``string<date>``), stay; every other word is looked up.
_TAG_OR_WORD = re.compile(r"<[|/]?[a-z_]+\|?>|[A-Za-z]+")


@dataclass(frozen=True)
class Cipher:
    """Lower-case singular word -> replacement; ``apply`` keeps capitals and the plural s."""

    words: dict[str, str]

    def apply(self, text: str) -> str:
        """The text with every known word replaced, also inside identifiers (``find_file`` -> ``carve_trun``)."""
        return _TAG_OR_WORD.sub(lambda m: m.group() if m.group()[0] == "<" else self._word(m.group()), text)

    def _word(self, word: str) -> str:
        low = word.lower()
        other, ending = self.words.get(low), ""
        if other is None and low.endswith("s"):
            other, ending = self.words.get(low[:-1]), "s"
        if other is None or (word.isupper() and len(word) > 1):
            return word
        return (other[:1].upper() + other[1:] if word[0].isupper() else other) + ending


def make_cipher(task: Task, rng: random.Random, share: float = 0.75) -> Cipher:
    """A cipher for about ``share`` of the words in the names, descriptions and parameters of the task's tools."""
    found = sorted(tool_words(task))
    chosen = [w for w in found if rng.random() < share]
    words: dict[str, str] = {}
    taken = set(found)
    for word in chosen:
        while (other := _draw(rng)) in taken:
            pass
        taken.add(other)
        words[word] = other
    return Cipher(words)


def tool_words(task: Task) -> set[str]:
    """Singular content words of the task's tools."""
    texts: list[str] = []
    for tool in task.tools:
        function = tool["function"]
        texts += [function["name"], function.get("description") or ""]
        texts += _property_names(function.get("parameters") or {})
    return set(_content_words(texts))


def _property_names(schema: dict[str, object]) -> Iterable[str]:
    properties = schema.get("properties")
    for name, value in properties.items() if isinstance(properties, dict) else ():
        yield name
        if isinstance(value, dict):
            yield from _property_names(value)


def _content_words(texts: Iterable[str]) -> Iterable[str]:
    for text in texts:
        for word in _LETTERS.findall(text.lower()):
            if word.endswith("s") and not word.endswith("ss"):
                word = word[:-1]
            if len(word) >= 3 and word not in KEPT:
                yield word


def _draw(rng: random.Random) -> str:
    if rng.random() < 0.35:
        return rng.choice(WORDS)
    return "".join(rng.choice(_ONSETS) + rng.choice(_NUCLEI) + rng.choice(_CODAS) for _ in range(rng.choice((1, 2, 2))))
