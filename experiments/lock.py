"""Write requirements.lock.txt: the versions that are installed here, without what belongs to one machine.

    python -m experiments.lock

Packages of an accelerator (nvidia, cuda, triton) are left to pip: torch asks for those its build needs.
"""

from __future__ import annotations

import re
from importlib.metadata import distributions
from pathlib import Path

_LEFT_OUT = re.compile(r"^(nvidia|cuda|triton|pip$|wheel$|slca-grpo$)")


def lines() -> list[str]:
    """``name==version`` of every installed package, sorted, local version labels (``+cpu``) dropped."""
    found = {d.metadata["Name"].lower().replace("_", "-"): d.version.split("+")[0] for d in distributions()}
    return [f"{name}=={version}" for name, version in sorted(found.items()) if not _LEFT_OUT.match(name)]


def main() -> None:
    path = Path("requirements.lock.txt")
    path.write_text("\n".join(lines()) + "\n", encoding="utf-8")
    print(f"{path}: {len(lines())} packages")


if __name__ == "__main__":
    main()
