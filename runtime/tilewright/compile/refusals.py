"""Kernels that the compilers refused. The cache remembers them, so that no call waits for the same refusal
again.

refusals/<kernel>.<key>.json

The key is that of the object: a digest of the source, its headers, the flags and the toolchain. If one of
these changes, the next call tries the kernel again. `tilewright build` always tries.
"""

from __future__ import annotations

import json
from contextlib import suppress

from tilewright.base import reading
from tilewright.compile import schemas
from tilewright.compile.store import Store
from tilewright.errors import StoreError, UnreadableFileError

_FOLDER = "refusals"


def remember(store: Store, kernel: str, key: str, reason: str) -> None:
    """Notes why the kernel of a key was refused. Does nothing if the cache cannot be written."""
    with suppress(StoreError, OSError):
        path = store.folder(_FOLDER) / f"{kernel}.{key}.json"
        path.write_text(json.dumps({"kernel": kernel, "key": key, "reason": reason}) + "\n", encoding="utf-8")


def forget(store: Store, kernel: str, key: str) -> None:
    """Forgets a refusal, because the kernel has been built."""
    with suppress(OSError):
        (store.root / _FOLDER / f"{kernel}.{key}.json").unlink(missing_ok=True)


def remembered(store: Store) -> dict[str, set[str]]:
    """The keys under which kernels were refused, by the kernel."""
    keys: dict[str, set[str]] = {}
    for path in store.listed(_FOLDER):
        kernel, key, _ = path.name.rsplit(".", 2)
        keys.setdefault(kernel, set()).add(key)
    return keys


def reason(store: Store, kernel: str, key: str) -> str:
    """Why a kernel was refused; "" if no readable note says so."""
    path = store.root / _FOLDER / f"{kernel}.{key}.json"
    with suppress(FileNotFoundError, UnreadableFileError):
        refusal = reading.load_json(path, schemas.REFUSAL)
        if (refusal["kernel"], refusal["key"]) == (kernel, key):
            return str(refusal["reason"])
    return ""
