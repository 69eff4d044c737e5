"""Small objects that several tests share: a hand-written task, a tokenizer on its text, a random policy."""

from __future__ import annotations

from typing import Any

from slca.policy import Policy, TinyConfig, build_tiny, train_tokenizer
from slca.rollout.chat import chat_format
from slca.tasks.task import Call, Fact, Task

WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Current weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}},
            "required": ["city"],
        },
    },
}
RETURNS = {"type": "object", "properties": {"temperature": {"type": "integer", "minimum": -10, "maximum": 40}}}


def make_task(name: str = "t0", city: str = "Oslo") -> Task:
    return Task(
        id=name,
        messages=[{"role": "user", "content": f"What is the weather in {city}?"}],
        tools=[WEATHER],
        gold=[[Call("get_weather", {"city": city})]],
        facts=[Fact("get_weather", "temperature", 3)],
        tags=["single"],
        returns={"get_weather": RETURNS},
        sim_seed=7,
    )


def random_policy(seed: int = 0, layers: int = 2) -> Policy:
    """A small untrained policy whose tokenizer knows the call format."""
    chat = chat_format("compact")
    text = chat.prompt(make_task().messages, [WEATHER]) + chat.call_turn([Call("get_weather", {"city": "Oslo"})])
    tokenizer = train_tokenizer([text] * 4, 320)
    shape = TinyConfig(hidden_size=32, layers=layers, heads=4, kv_heads=2, intermediate_size=64, max_position=512)
    return build_tiny(shape, tokenizer, seed)
