"""Records what the tests compared, kernel by kernel: TILEWRIGHT_RECORD=FILE.

A row says of a kernel that all tests of it passed, or that one failed. Tests of a kernel are those that take
it as the parameter `kernel` (or all of a module that uses it as a fixture), and, for failures, those marked
`marks_kernels` that launched it or that name it (`record_property("kernel", NAME)`, where another process
launches it). A kernel of which some tests alone, or some cases of one, ran (`-k`, an interruption) keeps the
row that it has, unless one failed.

A row's problems are what was compared by `comparing`; of a kernel whose tests compare by themselves, the
tests that launched it.

The hammer (test_hammer.py) reports its runs of a kernel, and how many had wrong bits, as a property of its
test. They are kept beside the kernel's run, as `hammered`, with what the kernel was made of: neither says
anything of the other. Fewer than `LEAST_HAMMERED` runs are kept only if some were wrong. They are written
every few kernels, so that a process that is killed loses no more.

Rows that the file has of other kernels stay, with their dates, if they are of the same GPU and driver.

Processes that each take a share of the kernels (TILEWRIGHT_SHARE, shares.py) keep one file: it is read and
written under a lock when a process is through.
"""

from __future__ import annotations

import datetime
import functools
import inspect
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import filelock
import pytest
import torch
from shares import kernel_of

from tilewright_generator import records

if TYPE_CHECKING:
    from tilewright.compile.source_keys import HostKeys

MARK = "marks_kernels"
HAMMERED = "hammered"
HOST_KEY = "host_key"
LEAST_HAMMERED = 2000  # runs
KEPT_BACK = 8  # hammered kernels that are not written yet, at most

_Rows = dict[str, dict[str, Any]]  # of a record, by their kernels' names


class Recorder:
    """A pytest plugin.

    `card` says of which GPU and driver; `made_of`, a kernel's source key, machine code and host key; `names`
    are those of all kernels, in the order of the record; `comparing` are modules whose `compare` and
    `compare_values`, (found, wanted, ...), tests look up in them.
    """

    def __init__(
        self,
        file: Path,
        card: Mapping[str, str],
        made_of: Callable[[str], Mapping[str, str]],
        names: Iterable[str],
        comparing: Iterable[ModuleType],
    ) -> None:
        self._file, self._card, self._made_of, self._names = file, dict(card), made_of, list(names)
        self._item: pytest.Item | None = None
        self._problems: defaultdict[str, int] = defaultdict(int)
        self._errors: defaultdict[str, float] = defaultdict(float)
        self._passed: defaultdict[str, int] = defaultdict(int)  # tests that take the kernel, and launched it
        self._failed: set[str] = set()
        self._launched: set[str] = set()  # by the test that runs
        # A kernel's tests, by function and by case: those that ran, and all that it has.
        self._ran: defaultdict[str, set[str]] = defaultdict(set)
        self._wanted: defaultdict[str, set[str]] = defaultdict(set)
        self._partly: list[str] = []
        self._hammered: dict[str, dict[str, int]] = {}  # runs, and how many were wrong
        for module in comparing:
            for name in ("compare", "compare_values"):
                if hasattr(module, name):
                    setattr(module, name, self._noting(getattr(module, name)))

    def launched(self, kernel: str) -> None:
        """Notes that the test that runs has launched a kernel."""
        self._launched.add(kernel)

    @property
    def _kernel(self) -> str | None:
        """The kernel that the test that runs is of."""
        return None if self._item is None else kernel_of(self._item)

    @pytest.hookimpl(tryfirst=True)  # before any are deselected
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            if (kernel := kernel_of(item)) is not None:
                self._wanted[kernel].add(item.nodeid)

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self._item, self._launched = item, set()
        if self._kernel is not None and isinstance(item, pytest.Function):
            self._wanted[self._kernel] |= _tests_of_kernels(item.module)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        kernel, item = self._kernel, self._item
        if report.failed:
            self._failed |= {kernel} if kernel else set()
            if item is not None and item.get_closest_marker(MARK):
                self._failed |= self._launched
                self._failed |= {str(value) for name, value in report.user_properties if name == "kernel"}
        for name, value in report.user_properties if report.when == "call" else ():
            if name == HAMMERED:
                self._note_hammered(**value)  # type: ignore[arg-type]
        if report.when == "call" and report.passed and kernel in self._launched:
            self._passed[kernel] += 1
        if report.when == "teardown" and kernel is not None and isinstance(item, pytest.Function):
            self._ran[kernel] |= {f"{item.module.__name__}.{item.originalname}", item.nodeid}

    def _note_hammered(self, kernel: str, runs: int, wrong: int) -> None:
        if wrong or runs >= LEAST_HAMMERED:
            self._hammered[kernel] = {"runs": runs, "wrong": wrong}
        if len(self._hammered) >= KEPT_BACK:
            self._write()

    def pytest_sessionfinish(self) -> None:
        self._write(self._add_tested)

    def _write(self, *add: Callable[[_Rows, str], None]) -> None:
        with filelock.FileLock(self._file.with_name(f"{self._file.name}.lock")):
            before = records.read(self._file)
            same_card = self._card.items() <= before.items()
            rows = {
                row["name"]: {**row, "date": row.get("date", before["date"])}
                for row in (before["kernels"] if same_card else ())
            }
            today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
            for each in (*add, self._add_hammered):
                each(rows, today)
            head = {"format": records.FORMAT, **self._card, "date": today}
            records.write(self._file, head, [rows[name] for name in self._names if name in rows])

    def _add_tested(self, rows: _Rows, today: str) -> None:
        others = (self._failed | self._passed.keys()) - self._problems.keys()
        for name in [*self._problems, *sorted(others)]:
            passed = name not in self._failed
            if passed and not self._wanted[name] <= self._ran[name]:
                self._partly.append(name)
                continue
            rows[name] = {
                "name": name,
                **self._made_of(name),
                "date": today,
                "problems": self._problems.get(name, self._passed.get(name, 0)),
                "max_error": self._errors[name] if name in self._problems else None,
                "passed": passed,
                **{key: value for key, value in rows.get(name, {}).items() if key == HAMMERED},
            }

    def _add_hammered(self, rows: _Rows, today: str) -> None:
        while self._hammered:
            name, counts = self._hammered.popitem()
            made_of = {key: word for key, word in self._made_of(name).items() if key != HOST_KEY}
            rows.setdefault(name, {"name": name, **made_of})[HAMMERED] = {**made_of, "date": today, **counts}

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._partly:
            terminalreporter.write_line(
                f"{len(self._partly)} kernels not recorded in {self._file}: some of their tests did not run"
            )

    def _noting(self, compare: Callable[..., None]) -> Callable[..., None]:
        """The comparison of a family, which also keeps what it has seen."""

        def note(found: torch.Tensor, wanted: torch.Tensor, *rest: Any, **options: Any) -> None:
            compare(found, wanted, *rest, **options)
            if self._kernel is not None:
                self._note(self._kernel, found, wanted)

        return note

    def _note(self, kernel: str, found: torch.Tensor, wanted: torch.Tensor) -> None:
        value, right = found.double(), wanted.double()
        finite = value.isfinite() & right.isfinite()  # what is not, the comparison has seen
        value, right = (torch.where(finite, x, 0.0) for x in (value, right))
        error = float((value - right).norm() / right.norm())
        error = 0.0 if math.isnan(error) else error  # 0 / 0
        self._problems[kernel] += 1
        self._errors[kernel] = max(self._errors[kernel], float(f"{error:.2e}"))


def _tests_of_kernels(module: ModuleType) -> set[str]:
    """The functions of a module that take a kernel: a run of some tests by name collects no others."""
    marks = getattr(module, "pytestmark", [])
    all_of_them = any(
        mark.name == "usefixtures" and "kernel" in mark.args
        for mark in (marks if isinstance(marks, list) else [marks])
    )
    return {
        f"{module.__name__}.{name}"
        for name, function in vars(module).items()
        if name.startswith("test_") and (all_of_them or "kernel" in inspect.signature(function).parameters)
    }


def of_this_gpu(file: Path) -> Recorder:
    """A recorder of the kernels that are built here, which sees every launch of this process."""
    import blockscaled_reference  # noqa: PLC0415 (with the ops, which a machine without a GPU need not load)
    import gemm_reference  # noqa: PLC0415
    import prenorm_reference  # noqa: PLC0415
    import quantize_comparison  # noqa: PLC0415

    from tilewright.architectures.device import driver  # noqa: PLC0415
    from tilewright.declarations.table import Table, find_tables  # noqa: PLC0415

    names = [name for path in find_tables() for name in sorted(Table.read(path))]
    card = {"gpu": torch.cuda.get_device_name(), "driver": driver() or "unknown"}
    comparing = (gemm_reference, blockscaled_reference, quantize_comparison, prenorm_reference)
    recorder = Recorder(file, card, _made_of, names, comparing)
    _watch_launches(recorder.launched)
    return recorder


def _made_of(kernel: str) -> dict[str, str]:
    """The keys of what is loaded; the sources on disk may be newer. The host code is that on disk when the
    first kernel is recorded: no library is loaded unless its headers are as they were."""
    from tilewright import context  # noqa: PLC0415
    from tilewright.compile.library import described  # noqa: PLC0415

    registry = context.current().registry
    record = registry.record(kernel)
    built = described(registry.library(record).path).kernels[kernel]
    made_of = {"source_key": built["source_key"], "machine_code": built.get("machine_code", "")}
    return {**made_of, HOST_KEY: _host_keys().of(registry.table_of(kernel), record)}


@functools.cache
def _host_keys() -> HostKeys:
    from tilewright.base import paths  # noqa: PLC0415
    from tilewright.compile.source_keys import HostKeys  # noqa: PLC0415

    return HostKeys(paths.include_dir())


def _watch_launches(launched: Callable[[str], None]) -> None:
    """Has every launcher that is made from now on say so when it is called."""
    from tilewright.libraries.library import Launcher, Library  # noqa: PLC0415

    make = Library.launcher

    def launcher(self: Library, kernel: str, made: Any) -> Launcher:
        inner = make(self, kernel, made)

        def launch(*arguments: Any) -> int:
            launched(kernel)
            return inner(*arguments)

        return launch

    Library.launcher = launcher  # type: ignore[method-assign]
