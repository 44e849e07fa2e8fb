"""The settings of `tilewright tune`: its options, and which of them go together."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright_generator.cli.output_files import OutputFile
from tilewright_generator.errors import UsageError

if TYPE_CHECKING:
    from tilewright.tools.tuning.stages import Options


def gpu_indices(text: str) -> list[int]:
    """The indices of GPUs in `--gpus 0,1`. Raises UsageError."""
    if not re.fullmatch(r"[0-9]{1,9}(,[0-9]{1,9})*", text):
        raise UsageError(f"--gpus: expected numbers with commas between them, such as 0,1, got {text!r}")
    indices = [int(index) for index in text.split(",")]
    if len(set(indices)) < len(indices):
        raise UsageError(f"--gpus {text}: expected different numbers")
    return indices


@dataclass(frozen=True)
class Settings:
    """The options of `tilewright tune`."""

    family: str | None
    words: Mapping[str, Any]  # of problems, as they are given
    sizes: str | None
    given: tuple[str, ...]
    out: Path | None
    again: bool
    only_new: bool
    build: bool
    built_only: bool
    gpus: str | None
    keep: int | None
    seconds: float | None
    exhaustive: bool
    seed: int
    dry_run: bool
    device: str | None
    merge: bool
    report: Path | None
    results: Path | None
    force: bool
    as_json: bool
    ray: bool
    ray_address: str | None
    root: str | None

    def to_json(self) -> dict[str, Any]:
        """The settings for a record."""
        return {name: value for name, value in asdict(self).items() if name != "words"} | {**self.words}

    @property
    def on_ray(self) -> bool:
        return self.ray or self.ray_address is not None

    @property
    def tunes(self) -> bool:
        return bool(self.sizes or self.given or self.only_new)

    def check(self, files: Sequence[Path]) -> None:
        """Checks the options before measuring for minutes."""
        for first, second in (
            ("build", "built_only"), ("keep", "exhaustive"), ("seconds", "exhaustive"), ("on_ray", "gpus"),
            ("again", "only_new"),
        ):  # fmt: skip
            if getattr(self, first) not in (None, False) and getattr(self, second) not in (None, False):
                names = [f"--{name.removeprefix('on_').replace('_', '-')}" for name in (first, second)]
                raise UsageError(f"{' and '.join(names)} exclude each other; give one of them")
        if not self.tunes and not self.report and not self.merge:
            raise UsageError(
                "expected problems (--sizes LIST|FILE, -s MxNxK, or --only-new: those that are tuned "
                "already), or --report or --merge"
            )
        if files and self.tunes:
            raise UsageError(f"{files[0]}: tuned files are read by --report and --merge alone")
        if self.merge and (self.tunes or not files):
            raise UsageError("--merge takes tuned FILEs and no sizes")
        for path in files:
            if not path.is_file():
                raise UsageError(f"there is no file {path}")
        if self.device is not None and self.tunes and not self.dry_run:
            raise UsageError("--device describes a GPU for --dry-run and --report; tuning is on this one")
        if self.gpus is not None:
            gpu_indices(self.gpus)
        for file in self.outputs():
            if self.dry_run:
                raise UsageError(f"{file.path}: a dry run has nothing to write; leave out this file")
            file.check()

    def outputs(self) -> list[OutputFile]:
        """The files that the command writes besides tuned files."""
        from tilewright.tools.benchmarking.report import RECORD_MARK  # noqa: PLC0415 (`--help` needs none)
        from tilewright.tools.tuning.report import MARK, table_of  # noqa: PLC0415

        files = []
        if self.results is not None:
            files.append(OutputFile(self.results, RECORD_MARK, self.force, "--results"))
        if self.report is not None:
            drawn = [self.report, table_of(self.report)]
            files += [OutputFile(path, MARK, self.force, "--report") for path in drawn if path is not None]
        return files

    def options(self) -> Options:
        from tilewright.tools.tuning.stages import KEEP, MOST_SECONDS, Options  # noqa: PLC0415 (`--help` needs none)

        if self.exhaustive:
            return Options.exhaustive()
        return Options(keep=self.keep or KEEP, seconds=self.seconds or MOST_SECONDS)
