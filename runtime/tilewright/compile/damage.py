"""Damaged libraries of a build cache: what is wrong with each, and where a build moves them."""

from __future__ import annotations

from pathlib import Path

from tilewright.compile.keys import HeaderSet
from tilewright.compile.library import described_in, read
from tilewright.compile.store import Store
from tilewright.errors import BuildError


def set_aside_damaged(module: str, store: Store, include: Path) -> list[str]:
    """Moves the module's damaged libraries to the quarantine and says of each what was wrong with it."""
    messages = []
    for path in described_in(store.root, module):
        if _damaged(path, module, include):
            with store.lock(f"library-{module}-{path.parent.name}"):  # it may be a new one by now
                if reason := _damaged(path, module, include):
                    messages.append(f"{reason}; set aside in {store.quarantine(path.parent)}")
    return messages


def damaged(module: str, store: Store, include: Path) -> list[str]:
    """What is wrong with each of the module's damaged libraries; changes nothing."""
    return [why for path in described_in(store.root, module) if (why := _damaged(path, module, include))]


def _damaged(path: Path, module: str, include: Path) -> str:
    try:
        read(path, module, HeaderSet(include), thorough=True)
    except FileNotFoundError:
        pass
    except BuildError as error:
        return error.message
    return ""
