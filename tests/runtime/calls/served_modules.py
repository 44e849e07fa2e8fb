"""Calls ops of every family on built kernels of the host, and prints the modules that this imports.

    python served_modules.py GENERATED MODULE=LIBRARY ...

Run by `test_served_modules.py`, in a process that builds nothing.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from tilewright import context as contexts
from tilewright.architectures.device import B300, H200
from tilewright.libraries.registry import Registry


class Built(NamedTuple):
    """A library of host kernels; `host_modules.Built` lies beside what builds them."""

    path: Path
    toolchain: dict[str, str]

    def holds(self, record: object) -> bool:
        return True


def main() -> None:
    os.environ |= {"TILEWRIGHT_JIT": "0", "TILEWRIGHT_TUNED": ""}
    here = Path(__file__).parents[1]
    sys.path[:0] = map(str, (here, here / "contract", here.parent / "common"))
    generated, *modules = sys.argv[1:]
    libraries = dict(module.split("=", 1) for module in modules)

    registry = Registry(generated, libraries=lambda module: [Built(Path(libraries[module]), {})])
    for module in libraries:
        family = registry.tables[module].family
        calls = import_module(f"{family}_calls").CONTRACT
        described = B300 if calls.kernels == "blackwell" else H200
        with contexts.use(contexts.Context(registry, described=described)):
            for case in calls.cases():
                case.call()
    print("\n".join(name for name in sys.modules if name.startswith("tilewright")))


if __name__ == "__main__":
    main()
