"""How a simulator is set up: the section ``simulator`` of a config, and what the command line takes."""

from __future__ import annotations

from dataclasses import dataclass, field

#: Kinds of injected fault, and what becomes of a call that an endpoint cannot answer.
FAULTS = ("timeout", "rate_limit", "server_error", "empty", "truncated")
MODES = ("sgls", "without_schema")
ON_FAILURE = ("fallback", "pause", "fail")


@dataclass(frozen=True)
class SimulatorConfig:
    """Everything about the simulated tools.

    Attributes:
        backend: who answers: ``schema`` (no model), ``llm`` (in process, by transformers), ``vllm`` (in
            process, where vLLM is installed), ``openai`` (an endpoint), ``replay`` (recorded answers;
            what is not recorded is a failure, see ``on_failure``).
        mode: ``sgls``, or ``without_schema``: same backend, but no schema, no checks, no state (the ablation).
        lenient: coerce arguments of the wrong type where their meaning is plain ("5" to 5), and note it.
        state: writes are seen by later reads of the episode.
        check_ids: refuse ids that no tool has returned and no message has named, where response schemas are given.
        cache: "" (none), "memory", or a file (SQLite) that several processes may share.
        cache_entries: the cache drops its oldest entries beyond this number.
        recordings: JSONL of recorded calls to replay, "" for none.
        held_out: share of the recordings that is not replayed but compared with the answers (fidelity).
        faults: kind of fault (``FAULTS``) -> rate in [0, 1].
        seed: seed of the faults (answers have the task's own seed).
        model: checkpoint of ``llm`` and ``vllm`` (``smollm2``, a folder, a model of the Hub), or the endpoint's name of it.
        temperature, max_tokens: sampling of the backends that have a model.
        batch_size: calls that ``llm`` answers in one batch.
        base_url: the endpoint of ``openai``, such as ``http://127.0.0.1:8000/v1``.
        api_key_env: name of the environment variable that holds the endpoint's key.
        timeout: seconds for one request; retries: further tries, with backoff; concurrency: requests at once.
        on_failure: ``fallback`` (the schema backend answers), ``pause`` (wait until the endpoint is back) or ``fail``.
        breaker: failures in a row after which the endpoint is left alone for ``cooldown`` seconds.
    """

    backend: str = "schema"
    mode: str = "sgls"
    lenient: bool = False
    state: bool = True
    check_ids: bool = True
    cache: str = "memory"
    cache_entries: int = 200_000
    recordings: str = ""
    held_out: float = 0.0
    faults: dict[str, float] = field(default_factory=dict)
    seed: int = 0
    model: str = "smollm2"
    temperature: float = 0.6
    max_tokens: int = 256
    batch_size: int = 32
    base_url: str = ""
    api_key_env: str = "OPENAI_API_KEY"
    timeout: float = 60.0
    retries: int = 3
    concurrency: int = 16
    on_failure: str = "fallback"
    breaker: int = 5
    cooldown: float = 30.0


def simulator_name(config: SimulatorConfig) -> str:
    """One line for a manifest: who answers, and what is out of the ordinary.

    >>> simulator_name(SimulatorConfig(backend="llm", faults={"timeout": 0.1}))
    'llm (smollm2), faults timeout 0.1'
    """
    parts = [config.backend + (f" ({config.model})" if config.backend in ("llm", "vllm", "openai") else "")]
    parts += [config.mode] if config.mode != "sgls" else []
    parts += ["lenient"] if config.lenient else []
    parts += [] if config.state else ["no state"]
    parts += [f"replays {config.recordings}"] if config.recordings else []
    parts += ["faults " + ", ".join(f"{k} {v:g}" for k, v in config.faults.items())] if config.faults else []
    return ", ".join(parts)
