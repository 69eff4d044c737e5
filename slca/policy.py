"""Policies: the tiny model that is built here, and any transformers checkpoint.

A checkpoint folder is an ordinary transformers folder (``config.json``, ``model.safetensors``, tokenizer files) plus
``slca.json``, which names the chat format and says where the weights come from.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import torch

from slca import smollm2
from slca.rollout.agent import TextCodec
from slca.rollout.chat import SPECIAL_TOKENS, chat_format

ASSETS = Path(__file__).parent / "assets"
#: Names of embedded checkpoints, usable wherever a checkpoint folder is.
EMBEDDED = ("tiny-base", smollm2.NAME)
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")


@dataclass
class Policy:
    """A causal LM with its tokenizer and chat format. ``source`` is the name or folder it was loaded from."""

    model: Any
    codec: TextCodec
    source: str

    @property
    def chat(self) -> str:
        return self.codec.chat.name

    @property
    def device(self) -> torch.device:
        return next(iter(self.model.parameters())).device

    def n_parameters(self) -> int:
        return sum(p.numel() for p in self.model.parameters())


def _folder_of(name: str | Path) -> Path:
    return {"tiny-base": ASSETS / "tiny-base", smollm2.NAME: smollm2.folder()}.get(str(name), Path(name))


def resolve_checkpoint(name: str | Path) -> Path:
    """Folder of a checkpoint: an embedded name, a folder, or a model of the Hub (``owner/name``, safetensors only).

    ``smollm2`` is built when it is first asked for; a model of the Hub is downloaded, or taken from the Hub's own
    cache where ``HF_HUB_OFFLINE`` is set.

    Raises:
        FileNotFoundError: there is no such checkpoint; says what there is.
    """
    path = smollm2.build() if str(name) == smollm2.NAME else _folder_of(name)
    if not (path / "config.json").is_file():
        if isinstance(name, str) and not path.exists() and _HUB_NAME.fullmatch(name):
            return _from_hub(name)
        known = ", ".join(EMBEDDED)
        raise FileNotFoundError(
            f"no checkpoint at {name!r} (no config.json there); give a folder, a model of the Hub, or one of: {known}. "
            "`make tiny-base` builds the embedded one."
        )
    return path


def _from_hub(name: str) -> Path:
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, allow_patterns=["*.json", "*.safetensors", "*.txt", "*.model", "*.jinja"]))
    except Exception as err:  # many kinds: offline, no such model, gated
        raise FileNotFoundError(
            f"no folder {name!r}, and the Hub gave no model of that name ({type(err).__name__}: {str(err)[:200]}); unset "
            "HF_HUB_OFFLINE to download it"
        ) from err


def checkpoint_digest(name: str | Path) -> str | None:
    """What tells two start policies of one name apart; None where there is no checkpoint (yet).

    Weights up to 64 MB are read; of larger ones names and sizes must do.
    """
    path = _folder_of(name)
    files = sorted(path.glob("*.safetensors"))
    if not files:
        return None
    digest = hashlib.sha256()
    for file in files:
        size = file.stat().st_size
        digest.update(f"{file.name}:{size};".encode())
        if size <= 64_000_000:
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def load_model(checkpoint: str | Path, dtype: torch.dtype = torch.float32) -> tuple[Any, Any, dict[str, Any]]:
    """(model with the shared-prefix attention set, tokenizer, what ``slca.json`` says; {} without one)."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from slca.packing import prepare_model

    path = resolve_checkpoint(checkpoint)
    meta_file = path / "slca.json"
    meta = json.loads(meta_file.read_text()) if meta_file.is_file() else {}
    tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=True)
    model = AutoModelForCausalLM.from_pretrained(path, dtype=dtype, use_safetensors=True, local_files_only=True)
    prepare_model(model)
    return model, tokenizer, meta


def load_policy(checkpoint: str | Path, chat: str | None = None, dtype: torch.dtype = torch.float32) -> Policy:
    """Load a checkpoint as a policy. ``chat`` overrides the folder's chat format."""
    model, tokenizer, meta = load_model(checkpoint, dtype)
    return Policy(model, TextCodec(tokenizer, chat_format(chat or meta.get("chat", "hermes"))), str(checkpoint))


def save_policy(policy: Policy, folder: Path, manifest: dict[str, Any]) -> None:
    """Write a checkpoint folder; ``manifest`` goes into ``slca.json`` beside the chat format."""
    folder.mkdir(parents=True, exist_ok=True)
    policy.model.save_pretrained(folder, safe_serialization=True)
    policy.codec.tokenizer.save_pretrained(folder)
    text = json.dumps({"chat": policy.chat, **manifest}, indent=2, sort_keys=True)
    (folder / "slca.json").write_text(text + "\n", encoding="utf-8")


def train_tokenizer(texts: Iterable[str], vocab_size: int) -> Any:
    """Byte-level BPE with the call format's special tokens; numbers are cut into pairs of digits.

    All pairs are tokens, whatever the texts hold: a number is copied in few steps, none of which is ambiguous for long.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(r"\d{1,2}|[^\S\n]?[A-Za-z]+|_[a-z]+|[^\S\n]?[^\sA-Za-z\d]+|\s+"), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    pairs = " ".join(f"{n:02d}" for n in range(100))
    tokenizer.train_from_iterator(chain([pairs] * 500, texts), trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<|endoftext|>", eos_token="<|im_end|>", bos_token=None, unk_token=None
    )


@dataclass(frozen=True)
class TinyConfig:
    """Shape of the tiny decoder. As many key/value heads as heads: one head was slower to copy in short trials."""

    vocab_size: int = 2048
    hidden_size: int = 160
    layers: int = 4
    heads: int = 5
    kv_heads: int = 5
    intermediate_size: int = 416
    max_position: int = 1024
    rope_theta: float = 10_000.0


def build_tiny(config: TinyConfig, tokenizer: Any, seed: int) -> Policy:
    """A fresh Llama-architecture policy for ``tokenizer`` with the compact chat format, initialised from ``seed``."""
    from transformers import LlamaConfig, LlamaForCausalLM

    from slca.packing import prepare_model

    torch.manual_seed(seed)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=config.hidden_size,
            intermediate_size=config.intermediate_size,
            num_hidden_layers=config.layers,
            num_attention_heads=config.heads,
            num_key_value_heads=config.kv_heads,
            max_position_embeddings=config.max_position,
            rope_parameters={"rope_type": "default", "rope_theta": config.rope_theta},
            tie_word_embeddings=True,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
            bos_token_id=None,
        )
    )
    prepare_model(model)
    return Policy(model, TextCodec(tokenizer, chat_format("compact")), "tiny")
