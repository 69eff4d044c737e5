"""Token in, token out: what the engine sampled is what the policy says, whatever the batch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers import make_task, random_policy

from slca.policy import Policy, load_policy
from slca.rollout.agent import Conversation, Sampling, answer_turns, rollout_groups
from slca.rollout.chat import END
from slca.rollout.engine import TransformersEngine, choose, uniforms
from slca.rollout.options import Limits
from slca.rollout.rollout import Rollout
from slca.tasks.generate import generate

Groups = list[list[Rollout]]
LIMITS = Limits(max_turns=4, max_calls=4, max_tokens=96, max_context=640)


class Scripted:
    """An engine that plays fixed turns; ids beyond the script never occur."""

    def __init__(self, turns: list[str]) -> None:
        self.turns = turns

    def run(self, conversations: list[Conversation], sampling: Sampling) -> None:
        for c in conversations:
            for text in self.turns:
                for token in c.codec.encode(text):
                    c.append_sampled(token, -1.0)
                    if c.turn_over:
                        break
                c.close_turn()
                if not c.awaits or answer_turns([c]) == [None]:
                    break


@pytest.fixture(scope="module")
def policy() -> Policy:
    """The embedded policy: its rollouts really call tools, read responses of unequal length and go on."""
    return load_policy("tiny-base")


TASKS = generate(6, "train", 3, ["parallel", "dependent", "single"])


def sample(policy: Policy, n: int, samples: int, seed: int = 0, temperature: float = 1.0, **options: int) -> Groups:
    engine = TransformersEngine(policy.model, **options)
    return rollout_groups(TASKS[:n], samples, engine, policy.codec, LIMITS, Sampling(temperature, seed))


def replay(policy: Policy, rollout: Rollout, temperature: float = 1.0) -> torch.Tensor:
    ids = torch.tensor([rollout.token_ids])
    with torch.no_grad():
        logits = policy.model(input_ids=ids, use_cache=False).logits[0].double() / temperature
    picked = logits[:-1].log_softmax(-1).gather(-1, ids[0, 1:, None]).squeeze(-1)
    return torch.cat([torch.zeros(1, dtype=torch.float64), picked])


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_replaying_the_ids_gives_the_sampling_logprobs(policy: Policy, temperature: float) -> None:
    rollouts = [r for group in sample(policy, 6, 6, temperature=temperature) for r in group]
    assert {len(r.turns) for r in rollouts} >= {2, 3}
    for rollout in rollouts:
        mask = torch.tensor(rollout.policy_mask)
        expected = replay(policy, rollout, temperature)[mask]
        found = torch.tensor(rollout.logprobs, dtype=torch.float64)[mask]
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("rows", [1, 3, 64])
def test_tokens_do_not_depend_on_the_batch(policy: Policy, rows: int) -> None:
    together = sample(policy, 4, 5, seed=3)
    other = sample(policy, 4, 5, seed=3, max_rows=rows)
    assert [[r.token_ids for r in g] for g in together] == [[r.token_ids for r in g] for g in other]
    fewer = sample(policy, 2, 3, seed=3)
    assert [r.token_ids for r in fewer[1]] == [r.token_ids for r in together[1][:3]]


def test_seed_and_sample_change_the_tokens(policy: Policy) -> None:
    group = sample(policy, 1, 6, seed=1)[0]
    assert len({tuple(r.token_ids) for r in group}) > 1
    assert [r.token_ids for r in sample(policy, 1, 6, seed=2)[0]] != [r.token_ids for r in group]


def test_the_prompt_is_shared_and_responses_are_masked(policy: Policy) -> None:
    for task, group in zip(TASKS, sample(policy, 6, 4), strict=True):
        prompt = policy.codec.encode(policy.codec.chat.prompt(task.messages, task.tools))
        for r in group:
            assert r.token_ids[: r.prompt_length] == prompt
            spans = [t for start, end in r.turn_spans for t in range(start, end)]
            assert spans == [i for i, m in enumerate(r.policy_mask) if m]


def script(turns: list[str], limits: Limits = LIMITS) -> Rollout:
    policy = random_policy()
    return rollout_groups([make_task()], 1, Scripted(turns), policy.codec, limits, Sampling())[0][0]  # type: ignore[arg-type]


WIDE = Limits(max_turns=3, max_calls=2, max_tokens=400, max_context=2000)
CALL = '<tool_call>{"name": "get_weather", "arguments": {"city": "Oslo"}}</tool_call>'


def test_masks_mark_policy_tokens_only() -> None:
    rollout = script([CALL + END, "It is 3 degrees." + END], WIDE)
    codec = random_policy().codec
    sampled = [t for t, m in zip(rollout.token_ids, rollout.policy_mask, strict=True) if m]
    assert codec.decode(sampled) == CALL + END + "It is 3 degrees." + END
    off = [t for t, m in zip(rollout.token_ids, rollout.policy_mask, strict=True) if not m]
    assert "<tool_response>" in codec.decode(off[rollout.prompt_length :])
    assert rollout.stop_reason == "answer" and rollout.reply == "It is 3 degrees."
    assert [t.opens_call for t in rollout.turns] == [True, False]
    (start, end), _ = rollout.turn_spans
    assert codec.decode(rollout.token_ids[start:end]) == CALL + END


@pytest.mark.parametrize(
    ("turns", "limits", "reason"),
    [
        ([CALL + END] * 5, WIDE, "max_turns"),
        ([CALL * 5 + END], WIDE, "max_calls"),
        (["no end " * 200], WIDE, "max_tokens"),
        (["no end " * 80], Limits(max_tokens=500, max_context=100), "context"),
    ],
)
def test_the_reason_of_a_stop_is_recorded(turns: list[str], limits: Limits, reason: str) -> None:
    assert script(turns, limits).stop_reason == reason


def test_a_broken_call_goes_back_to_the_policy_as_a_response() -> None:
    rollout = script(["<tool_call>{oops</tool_call>" + END, "Sorry about that." + END], WIDE)
    assert not rollout.turns[0].calls and rollout.turns[0].responses[0].code == "bad_json"
    assert "bad_json" in random_policy().codec.decode(rollout.token_ids)


def test_a_prompt_that_does_not_fit_is_a_recorded_outcome(policy: Policy) -> None:
    limits = Limits(max_context=10)
    engine = TransformersEngine(policy.model)
    (rollout,) = rollout_groups([make_task()], 1, engine, policy.codec, limits, Sampling())[0]
    assert rollout.stop_reason == "context" and not rollout.turns and rollout.reply == ""


def test_greedy_takes_the_most_likely_token_and_draws_follow_the_distribution() -> None:
    logits = torch.tensor([[0.0, 1.0, -1.0]])
    token, logprob = choose(logits, Sampling(0.0), torch.zeros(1, dtype=torch.float64))
    assert token.item() == 1 and logprob.item() == pytest.approx(float(logits.double().log_softmax(-1)[0, 1]))
    draws = torch.from_numpy(uniforms(0, "t", 0, 20_000))
    tokens, _ = choose(logits.expand(20_000, 3), Sampling(0.5), draws)
    expected = (logits[0] / 0.5).softmax(-1).numpy()
    assert np.abs(np.bincount(tokens.numpy(), minlength=3) / 20_000 - expected).max() < 0.015
