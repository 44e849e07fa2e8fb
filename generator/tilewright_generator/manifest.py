"""generated/manifest.json: which files are tilewright's, and the hash of each as it was written.

A file whose hash still matches may be replaced or removed. Any other has been edited by hand, or never was
tilewright's, and is kept.
"""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath

from tilewright_generator.errors import UsageError

NAME = "manifest.json"
_FORMAT = 1
_quoted = json.encoder.encode_basestring_ascii


def read(folder: Path, force: bool = False) -> dict[str, str]:
    """Hashes by path below `folder`; empty where there is no manifest.

    A damaged one is a `UsageError`, or counts as none with `force`.
    """
    path = folder / NAME
    try:
        document = json.loads(path.read_bytes())
        if document["format"] != _FORMAT:
            raise ValueError(f"its format is {document['format']}, this tilewright writes {_FORMAT}")
        files = document["files"]
        for name, digest in files.items():
            _check(name, digest)
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if force:
            return {}
        raise UsageError(
            f"{path} is damaged ({error}); restore it, or run `tilewright generate --force`, which replaces "
            "every file that the specs name and removes what else bears tilewright's header"
        ) from None
    return dict(files)


def dumps(files: dict[str, str]) -> bytes:
    """The manifest's bytes: sorted, a file on each line."""
    # By hand: json.dumps takes its slow road for indented text.
    lines = ",\n".join(f"{_quoted(path)}: {_quoted(digest)}" for path, digest in sorted(files.items()))
    listing = f"{{\n{lines}\n}}" if lines else "{}"
    return f'{{\n"format": {_FORMAT},\n"files": {listing}\n}}\n'.encode()


def _check(name: object, digest: object) -> None:
    """Paths lead nowhere but down: what a manifest lists may be deleted."""
    if not isinstance(name, str) or not isinstance(digest, str) or len(digest) != 64:
        raise ValueError(f"the entry {name!r} is not a path and a SHA-256")
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or ":" in name or str(path) != name:
        raise ValueError(f"the path {name!r} does not lead to a file below it")
