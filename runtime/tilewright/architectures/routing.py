"""Which GPUs run which machine code.

The last characters of a target say how far it reaches (CUDA programming guide, "compute capability
and feature sets"):

- `a`, architecture-specific: this capability and no other. wgmma exists in sm_90a alone.
- `f`, family-specific: this capability and the later ones of its family. sm_100f runs on 10.0 and
  10.3; sm_120f on every 12.x.
- none: this capability and the later minors of its major.

So routing asks what a target reaches, never whether a capability equals a number: a new chip of a
known family finds its family's kernels.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from tilewright.architectures import table
from tilewright.architectures.table import Capability


def families() -> dict[int, str]:
    """The names of families of GPUs by their major number."""
    return {architecture.capability[0]: architecture.family for architecture in table.ARCHITECTURES}


class Target(NamedTuple):
    """A target of nvcc, for example `sm_90a`."""

    name: str
    major: int
    minor: int
    reach: str  # "a", "f" or ""

    @classmethod
    def parse(cls, name: str) -> "Target":
        """Raises ValueError where `name` is not a target's name."""
        match = re.fullmatch(r"sm_(\d+)(\d)([af]?)", name)
        if match is None:
            raise ValueError(f"{name!r} is not a target such as sm_90a, sm_100f or sm_120")
        return cls(name, int(match[1]), int(match[2]), match[3])

    @property
    def capability(self) -> Capability:
        return self.major, self.minor

    def runs_on(self, capability: Capability) -> bool:
        major, minor = capability
        if self.reach == "a":
            return (major, minor) == (self.major, self.minor)
        return major == self.major and minor >= self.minor


def runs_on(target: str, capability: Capability) -> bool:
    """Whether code compiled for `target` runs on a GPU of `capability`."""
    return Target.parse(target).runs_on(capability)


def wanted_target(capability: Capability) -> str:
    """The `arch:` to write into a spec for GPUs of `capability`.

    Tensor-core instructions exist in `a` and `f` targets alone. A minor that the table does not have gets the
    family target of its major, if there is one.
    """
    for architecture in table.ARCHITECTURES:
        if architecture.capability == capability:
            return architecture.best_target
    major, minor = capability
    family = f"sm_{major}0f"
    return family if family in table.targets() else f"sm_{major}{minor}a"


def describe(capability: Capability) -> str:
    """For messages: `compute capability 12.1 (sm_121, Blackwell (RTX, Spark))`."""
    major, minor = capability
    family = families().get(major)
    name = f", {family}" if family else ""
    return f"compute capability {major}.{minor} (sm_{major}{minor}{name})"


def advice(
    family: str, targets: Sequence[str], capability: Capability, specs: Sequence[str], others: Sequence[str]
) -> str:
    """The hint if no kernel of a family runs on GPUs of `capability`. Its rules know `targets`; kernels of
    the families `others` run there."""
    matching = [target for target in targets if runs_on(target, capability)]
    if not matching:
        alternatives = f" There are kernels of {', '.join(others)} for this GPU." if others else ""
        return (
            f"The rules of {family} know no target of this GPU (they know {', '.join(targets)}); "
            f"a family learns one in its rules and templates (docs/changing.md).{alternatives}"
        )
    best = wanted_target(capability)
    target = best if best in matching else matching[-1]
    where = f"a spec beside {', '.join(specs)}" if specs else "a spec in specs/"
    return (
        f"Add {where} with `family: {family}` and `arch: {target}`, then run `tilewright generate` and "
        f"`tilewright build --filter arch={target}`."
    )
