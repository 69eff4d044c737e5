"""The backend ``vllm``: as ``llm``, with vLLM in this process for its speed. vLLM is not among the requirements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slca.simulator.backends import Draft, Request
from slca.simulator.grammar import grammar_schema
from slca.simulator.options import SimulatorConfig
from slca.simulator.prompt import prompt_ids

_CONTEXT = 4096


class VLLMBackend:
    """A model of vLLM as the tools.

    Args:
        engine: a ``vllm.LLM`` whose structured output allows no white space of the model's own.
        name: what ``identity`` calls it.
        temperature: 0 is greedy. max_tokens: of one answer.
    """

    uses_context = True

    def __init__(self, engine: Any, name: str, temperature: float = 0.6, max_tokens: int = 256) -> None:
        self.engine, self.temperature, self.max_tokens = engine, temperature, max_tokens
        self.tokenizer = engine.get_tokenizer()
        self.identity = f"vllm {name} temperature {temperature:g} tokens {max_tokens}"

    @classmethod
    def from_config(cls, config: SimulatorConfig) -> VLLMBackend:
        """The checkpoint ``config.model``.

        Raises:
            ValueError: vLLM is not installed, or there is no such checkpoint.
        """
        from slca.policy import resolve_checkpoint

        try:
            from vllm import LLM
        except ImportError as err:
            raise ValueError(
                f"simulator.backend 'vllm' needs vLLM in this environment ({err}); install it, take backend 'llm', or serve "
                "the model and take backend 'openai'"
            ) from err
        try:
            path = resolve_checkpoint(config.model)
        except (OSError, RuntimeError) as err:
            raise ValueError(f"simulator.model {config.model!r}: {err}") from err
        engine = LLM(
            model=str(path),
            max_model_len=_CONTEXT,
            enable_prefix_caching=True,
            structured_outputs_config={"backend": "guidance", "disable_any_whitespace": True},
        )
        return cls(engine, config.model, config.temperature, config.max_tokens)

    def answer(self, requests: Sequence[Request]) -> list[Draft]:
        """Drafts in the order of ``requests``."""
        if not requests:
            return []
        room = _CONTEXT - self.max_tokens
        prompts = [{"prompt_token_ids": prompt_ids(self.tokenizer, r)[-room:]} for r in requests]
        outputs = self.engine.generate(prompts, [self._sampling(r) for r in requests], use_tqdm=False)
        return [
            Draft(
                text=out.outputs[0].text.strip(),
                prompt_tokens=len(out.prompt_token_ids),
                tokens=len(out.outputs[0].token_ids),
            )
            for out in outputs
        ]

    def _sampling(self, request: Request) -> Any:
        from vllm import SamplingParams
        from vllm.sampling_params import StructuredOutputsParams

        schema = None
        if request.tool is not None:
            schema = StructuredOutputsParams(json=grammar_schema(request.tool.returns, request.arguments))
        return SamplingParams(
            temperature=self.temperature,
            max_tokens=self.max_tokens,
            seed=request.seed & 0x7FFFFFFF,
            structured_outputs=schema,
        )
