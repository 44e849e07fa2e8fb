"""The origin of tuned times, and whether they hold for this machine."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilewright.architectures import device as devices
from tilewright.architectures.device import DeviceProperties
from tilewright.architectures.table import Capability
from tilewright.base.schema import Integer, Schema, String, fields

if TYPE_CHECKING:
    from tilewright.libraries.registry import Registry

FORMAT = 2
_SHORT = {"cuda": 2, "cutlass": 3}  # how many numbers of a release are kept
FIELDS: dict[str, Schema] = {
    "gpu": String(r".*[A-Za-z0-9].*", "a GPU's name"),
    "capability": String(r"\d{1,3}\.\d{1,3}", "a capability such as 9.0"),
    "sm_count": Integer(1, 4096),
    **fields(("driver", "cuda", "cutlass"), String(r"[\w.+ -]{0,100}", "a release")),
}


@dataclass(frozen=True, slots=True)
class Header:
    """A GPU, its driver, and the releases that its kernels are built with. "": not known."""

    gpu: str
    capability: str  # "9.0"
    sm_count: int
    driver: str  # "580.159.04"
    cuda: str  # the compiler's release: "13.0"
    cutlass: str  # the headers' release: "4.2.0"

    @classmethod
    def of(
        cls,
        device: DeviceProperties,
        registry: Registry,
        family: str,
        *,
        driver: str | None = None,
        cuda: str | None = None,
        cutlass: str | None = None,
    ) -> Header:
        """The header of this machine for a family's kernels on `device`. Values that the caller passes are
        not looked up.

        CUDA and CUTLASS are the releases in the libraries of the family's modules for the GPU; if no library
        is built, the releases that a build would use. It starts no process if the driver's own file is
        readable.
        """
        if cuda is None or cutlass is None:
            built_with = _built_with(device, registry, family) or _to_build_with()
            cuda = built_with["cuda"] if cuda is None else cuda
            cutlass = built_with["cutlass"] if cutlass is None else cutlass
        if driver is None:
            driver = devices.driver() or ""
        return cls(
            gpu=device.name,
            capability=f"{device.capability[0]}.{device.capability[1]}",
            sm_count=device.sm_count,
            driver=driver,
            cuda=_shortened("cuda", cuda),
            cutlass=_shortened("cutlass", cutlass),
        )

    @classmethod
    def parse(cls, head: Mapping[str, Any]) -> Header:
        """The header from a file's head, which matches `FIELDS`. Releases are shortened as in `of`, so that a
        file that is merged and written again still belongs to the same machine."""
        values = {name: head[name] for name in FIELDS}
        return cls(**values | {name: _shortened(name, values[name]) for name in _SHORT})

    @property
    def capability_numbers(self) -> Capability:
        major, _, minor = self.capability.partition(".")
        return int(major), int(minor)

    def mismatch(self, other: Header, *, shipped: bool) -> str | None:
        """Why times under the header `other` do not hold for this machine; None if they do.

        Launches take other times with a driver of another branch (580), so a user's own file is refused. A
        shipped file is not refused: its kernels are compiled ahead, so a driver does not change their code.
        Values that are not known here are not compared, because then no kernel could run.
        """
        return "; ".join(self._differences(other, shipped, strictly=False)) or None

    def conflict(self, other: Header) -> str | None:
        """Why times under both headers cannot share a file; None if they can.

        Unlike `mismatch`, a value that only one of the headers states is a conflict too: otherwise the file
        would state less than before, or more than is known, and readers would refuse times they took before.
        """
        return "; ".join(self._differences(other, shipped=False, strictly=True)) or None

    def _differences(self, other: Header, shipped: bool, strictly: bool) -> Iterator[str]:
        for name, mine, theirs in (
            ("GPU", self.gpu, other.gpu),
            ("capability", self.capability, other.capability),
            ("number of SMs", str(self.sm_count), str(other.sm_count)),
            ("CUDA", self.cuda, other.cuda),
            ("CUTLASS", self.cutlass, other.cutlass),
        ):
            if (mine or strictly) and mine != theirs:
                yield f"its {name} is {theirs or 'not stated'}, here it is {mine or 'not known'}"
        if shipped or not (self.driver or strictly) or _branch(self.driver) == _branch(other.driver):
            return
        stated, own = other.driver or "not stated", self.driver or "not known"
        yield f"its driver is {stated}, here it is {own} (another branch)"


def _built_with(device: DeviceProperties, registry: Registry, family: str) -> Mapping[str, str] | None:
    """The releases that the libraries of most kernels name; if two have equally many kernels, the newer."""
    cuda: Counter[str] = Counter()
    cutlass: Counter[str] = Counter()
    for kernels, toolchain in registry.toolchains(family, device.capability):
        cuda[_shortened("cuda", toolchain.get("nvcc", ""))] += kernels
        cutlass[_shortened("cutlass", toolchain.get("cutlass", ""))] += kernels
    return {"cuda": _commonest(cuda), "cutlass": _commonest(cutlass)} if cuda else None


def _commonest(counts: Counter[str]) -> str:
    return max(counts, key=lambda release: (counts[release], _numbers(release)))


def _to_build_with() -> Mapping[str, str]:
    from tilewright.compile.nvcc.cutlass import installed_release  # noqa: PLC0415 (only where nothing is built)
    from tilewright.compile.nvcc.toolchain import cuda_release  # noqa: PLC0415

    return {"cuda": cuda_release() or "", "cutlass": installed_release(os.environ.get("CUTLASS_PATH"))}


def _shortened(name: str, release: str) -> str:
    return ".".join(re.findall(r"\d+", release)[: _SHORT[name]])


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", release)))


def _branch(driver: str) -> str:
    return driver.partition(".")[0]
