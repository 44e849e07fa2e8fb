"""Writes a wheel: the same bytes for the same content, wherever and whenever it is written."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import re
import time
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tilewright_generator.errors import UsageError

# No entry of a zip file is older than 1980, or later than 2107.
_EARLIEST = 315532800
_LATEST = 4354819198


@dataclass(frozen=True)
class Wheel:
    """A distribution that holds files and no code of its own to compile."""

    name: str
    version: str
    platform: str
    summary: str
    requires: Sequence[str]
    files: Mapping[str, Path]  # by their path in the wheel

    @property
    def file_name(self) -> str:
        return f"{self._stem}-py3-none-{self.platform}.whl"

    @property
    def _stem(self) -> str:
        return f"{re.sub(r'[-_.]+', '_', self.name).lower()}-{self.version}"

    def content(self) -> bytes:
        """The bytes of the wheel. The time of its entries is SOURCE_DATE_EPOCH, or the earliest possible."""
        entries = {path: file.read_bytes() for path, file in sorted(self.files.items())}
        info = f"{self._stem}.dist-info"
        entries[f"{info}/METADATA"] = self._metadata().encode()
        entries[f"{info}/WHEEL"] = (
            "Wheel-Version: 1.0\nGenerator: tilewright\nRoot-Is-Purelib: false\n"
            f"Tag: py3-none-{self.platform}\n"
        ).encode()
        record = "".join(f"{path},{_digest(data)},{len(data)}\n" for path, data in entries.items())
        entries[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
        moment = _moment()
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            for path, data in entries.items():
                entry = zipfile.ZipInfo(path, moment)
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.external_attr = (0o100755 if path.endswith(".so") else 0o100644) << 16
                archive.writestr(entry, data)
        return packed.getvalue()

    def _metadata(self) -> str:
        lines = ["Metadata-Version: 2.1", f"Name: {self.name}", f"Version: {self.version}"]
        lines += [f"Summary: {self.summary}", "Requires-Python: >=3.10"]
        return "\n".join([*lines, *(f"Requires-Dist: {name}" for name in self.requires), ""])


def _moment() -> tuple[int, int, int, int, int, int]:
    """The time of a wheel's entries: SOURCE_DATE_EPOCH, within what a zip file can say."""
    text = os.environ.get("SOURCE_DATE_EPOCH") or "0"
    if not re.fullmatch(r"[0-9]{1,11}", text):
        raise UsageError(f"SOURCE_DATE_EPOCH: expected seconds since 1970, got {text!r}")
    return time.gmtime(min(max(int(text), _EARLIEST), _LATEST))[:6]


def _digest(data: bytes) -> str:
    return f"sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()}"
