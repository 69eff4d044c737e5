"""Tasks in other words: consistent, reversible, and blind to the chat text's own words."""

from __future__ import annotations

import json
import random

from slca.rollout.chat import END, SPECIAL_TOKENS, chat_format
from slca.rollout.parser import parse_turn
from slca.tasks.cipher import KEPT, Cipher, make_cipher, tool_words
from slca.tasks.demonstrate import Noise, demonstrate
from slca.tasks.generate import generate

TASKS = generate(150, "train", 5)
CHAT = chat_format("compact")


def test_capitals_plurals_and_identifiers_follow() -> None:
    cipher = Cipher({"file": "trun", "find": "carve"})
    assert cipher.apply('Find files: find_file("file_id")') == 'Carve truns: carve_trun("trun_id")'
    assert cipher.apply("profile FILE <file> DOC-12") == "profile FILE <file> DOC-12"


def test_a_tag_is_never_rewritten() -> None:
    cipher = Cipher(dict.fromkeys(["tool", "call", "response", "start", "end", "im", "think"], "oops"))
    for token in SPECIAL_TOKENS:
        assert cipher.apply(token) == token


def test_replacements_differ_from_each_other_and_from_the_words_of_the_tools() -> None:
    for task in TASKS:
        words = make_cipher(task, random.Random(1), 1.0).words
        assert words.keys() == tool_words(task) and not words.keys() & KEPT
        assert len(set(words.values())) == len(words) and not words.keys() & set(words.values())
    assert make_cipher(TASKS[0], random.Random(1), 0.0).words == {}


def test_calls_in_cipher_parse_and_name_a_listed_tool() -> None:
    for k, task in enumerate(TASKS):
        cipher = make_cipher(task, random.Random(k))
        listed = cipher.apply(CHAT.prompt(task.messages, task.tools))
        for turn in demonstrate(task, 0, Noise()).turns:
            parsed = parse_turn(cipher.apply(CHAT.call_turn(turn.calls) if turn.calls else turn.reply))
            assert not parsed.errors and len(parsed.calls) == len(turn.calls)
            for was, call in zip(turn.calls, parsed.calls, strict=True):
                assert f"\n{call.name}(" in listed and call.name == cipher.apply(was.name)
                assert len(call.arguments) == len(was.arguments)
    assert json.loads(cipher.apply('{"name": "a", "arguments": {}}')) == {"name": "a", "arguments": {}}
    assert cipher.apply(END) == END
