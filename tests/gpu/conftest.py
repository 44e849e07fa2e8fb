"""Tests that need a GPU of an architecture with committed kernels; skipped, with the reason, elsewhere.

With TILEWRIGHT_REQUIRE_GPU=1 a test that would be skipped for want of a GPU fails. Kernels are not compiled
by a test: build them first (`tilewright build`).
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
import shares
import verified

from tilewright.architectures import routing
from tilewright.libraries.registry import Registry

_HERE = Path(__file__).parent
_HAS_TORCH = find_spec("torch") is not None
_REQUIRED = "TILEWRIGHT_REQUIRE_GPU"
collect_ignore_glob = [] if _HAS_TORCH else ["test_*.py"]


def pytest_configure(config: pytest.Config) -> None:
    file = os.environ.get("TILEWRIGHT_RECORD")
    if file and _HAS_TORCH and _why_not() is None:
        if hasattr(config, "workerinput"):
            raise pytest.UsageError(
                "TILEWRIGHT_RECORD needs all tests of a kernel in one process: leave out -n; "
                "TILEWRIGHT_SHARE=I/N runs a share of the kernels"
            )
        from recording import of_this_gpu  # noqa: PLC0415 (it imports torch)

        config.pluginmanager.register(of_this_gpu(Path(file)))


def pytest_report_header() -> str | None:
    if not _HAS_TORCH:
        return "tests/gpu: left out, torch is not installed"
    return f"tests/gpu: {verified.header()}"


def _required() -> bool:
    return os.environ.get(_REQUIRED, "0") != "0"


@pytest.fixture(autouse=True)
def required_gpu() -> None:
    if (reason := _why_not()) is not None:  # then the test would have been skipped
        pytest.fail(f"{reason}, and {_REQUIRED} is set")


@pytest.fixture(autouse=True)
def no_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_JIT", os.environ.get("TILEWRIGHT_JIT", "0"))


@pytest.fixture
def run_apart(tmp_path: Path, record_property: Callable[[str, object], None]) -> Callable[..., None]:
    """Runs a script in a process of its own, which can be ended: `run(SCRIPT, TACTIC, WORD, ...)`.

    It prints "done", or why it is not built. An empty tactic is for what is selected.
    """

    def run(script: str, tactic: str, *words: str) -> None:
        if tactic:
            record_property("kernel", tactic.partition("@")[0])
        path = tmp_path / "script.py"
        path.write_text(script, encoding="utf-8")
        command = [sys.executable, str(path), tactic, *words]
        result = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
        if result.stdout.startswith("not built"):
            pytest.skip(result.stdout)
        assert result.stdout.strip() == "done", result.stderr

    return run


@functools.cache
def _why_not() -> str | None:
    import torch  # noqa: PLC0415 (collection must work without it)

    if not torch.cuda.is_available():
        return "no GPU here"
    capability = torch.cuda.get_device_capability()
    registry = Registry()
    families = {table.family for table in registry.tables.values()}
    kernels = (kernel for family in families for kernel in registry.kernels(family))
    if not any(routing.runs_on(kernel.arch, capability) for kernel in kernels):
        return f"no committed kernel runs on {routing.describe(capability)}"
    return None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if share := os.environ.get(shares.SHARE):
        left = shares.deal(items, share)
        config.hook.pytest_deselected(items=left)
    if modules := os.environ.get(shares.HOSTS):
        module_of = {name: table.module for table in Registry().tables.values() for name in table}
        config.hook.pytest_deselected(items=shares.represent(items, modules, module_of))
    mine = [item for item in items if _HERE in item.path.parents]
    reason = _why_not() if mine else None
    for item in mine:
        item.add_marker(pytest.mark.gpu)
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(600))  # one that hangs keeps the GPU
        if reason is not None and not _required():
            kernel = shares.kernel_of(item)
            more = verified.why_never_run(kernel) if kernel else None
            item.add_marker(pytest.mark.skip(reason=f"{reason}, and {more}" if more else reason))
