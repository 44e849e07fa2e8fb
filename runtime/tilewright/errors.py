"""The errors Tilewright raises, each with the exit code a command line answers with.

0 is fine, 1 a drift or a failed check, 2 a usage or environment error, 3 an internal error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from pathlib import Path


class TilewrightError(Exception):
    """Base of every error raised on purpose.

    `message` says what is wrong, `hint` (optional) what mends it; `str()` gives both.
    """

    exit_code: ClassVar[int] = 3

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\n{self.hint}"

    def __reduce__(self) -> tuple[Any, ...]:
        """Whatever a subclass is made of, another process gets it as it is."""
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: type[TilewrightError], args: tuple[Any, ...], state: dict[str, Any]) -> TilewrightError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(state)
    return error


class FileError(TilewrightError):
    """A file cannot be used. The message is `path` and, after a colon, `reason`."""

    exit_code = 2

    def __init__(self, path: Path | str, reason: str, *, hint: str | None = None) -> None:
        super().__init__(f"{path}: {reason}", hint=hint)
        self.reason = reason


class UnreadableFileError(FileError):
    """A file is not what tilewright reads there: a folder, no JSON, a value of a wrong type, too large."""


class UnwritableFileError(FileError):
    """A file is not written where it would have to be: a link or a folder stands there."""


class TableError(TilewrightError):
    """A dispatch table is missing, unreadable or of another format."""

    exit_code = 2


class ToolchainError(TilewrightError):
    """No usable nvcc, host compiler or CUTLASS was found, or one cannot do what is asked."""

    exit_code = 2


class BuildError(TilewrightError):
    """A kernel did not compile, failed a check of its machine code, or did not link."""

    exit_code = 1


class UncompilableError(BuildError):
    """The compilers refuse a kernel: from the same source, the same toolchain would again."""


class StoreError(TilewrightError):
    """The build cache, or a tuned file, cannot be written: disk full, no permission."""

    exit_code = 1


class CacheRefusedError(StoreError):
    """A folder is not taken for the build cache: what it holds is not ours, or others may write to it."""

    exit_code = 2


class TunedFileError(TilewrightError):
    """A tuned file is damaged: cut off, or not what tuning writes."""

    exit_code = 2


class ForeignTunedFileError(TunedFileError):
    """A tuned file is whole, and of another GPU, driver, CUDA or CUTLASS release, or format."""


class ArgumentError(TilewrightError, ValueError):
    """An argument of an op has a wrong value: shape, stride, device, alignment, aliasing.

    `argument` names it; the message says what is expected and what was given.
    """

    exit_code = 2

    def __init__(self, argument: str, message: str, *, hint: str | None = None) -> None:
        super().__init__(f"{argument}: {message}", hint=hint)
        self.argument = argument


class ArgumentTypeError(ArgumentError, TypeError):
    """An argument of an op has a wrong type or dtype."""


class AlignmentError(ArgumentError):
    """An operand lies so that TMA cannot read or write it, and the op makes no copy of its kind."""


class NoKernelError(TilewrightError):
    """No kernel of the tables computes the problem."""

    exit_code = 2


class UnsupportedDeviceError(TilewrightError):
    """No kernel of the tables runs on this GPU."""

    exit_code = 2


class NotBuiltError(TilewrightError):
    """The kernel is in a table, is not built (or is stale), and may not be built now."""

    exit_code = 2


class BundleError(TilewrightError):
    """A folder is no bundle that can be used here, or a call needs what its bundle does not have."""

    exit_code = 2


class LaunchError(TilewrightError):
    """The CUDA runtime or the kernel refused a launch."""

    exit_code = 3


class WrongResultError(TilewrightError):
    """A kernel computed something else than the reference."""

    exit_code = 1


class MeasureError(TilewrightError):
    """A tactic was not timed: CUDA or torch refused."""

    exit_code = 1


class GpuLostError(TilewrightError):
    """A kernel left the GPU in a state in which this process runs nothing more on it."""

    exit_code = 1

    under_way: str | None = None
    """The tactic that was under way, as `str()` of it."""

    def of(self, tactic: object) -> GpuLostError:
        """The same, of the tactic that was under way."""
        self.under_way = str(tactic)
        return self
