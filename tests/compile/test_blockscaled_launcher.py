"""Launchers of block-scaled kernels, on any machine: which operands they refuse, and how.

A module's binding is compiled so that it takes the compiled kernel to run on the host. No GPU is touched.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from blockscaled_host import DEVICES, GOOD, ask, workspace
from compiled_kernels import STREAM_K, TWO_SM, Compiled

from tilewright import scale_factors
from tilewright.base import paths
from tilewright.compile.linking import link_command
from tilewright.compile.nvcc.toolchain import find_toolchain
from tilewright.declarations.arguments import launchable, packed
from tilewright.declarations.tactics import Tactic
from tilewright.families.blockscaled_gemm.interface import INTERFACE
from tilewright.families.blockscaled_gemm.problem import Problem
from tilewright.libraries.library import Launcher, Library, load

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.compile


def call(shape: tuple[int, int, int] = GOOD, **changed: Any) -> tuple[Any, ...]:
    """A launcher's arguments: right ones, on the host."""
    m, n, k = shape
    made: dict[str, Any] = {
        "a": torch.zeros(m, k // 2, dtype=torch.uint8),
        "b": torch.zeros(n, k // 2, dtype=torch.uint8).mT,
        "a_descale": torch.zeros(scale_factors.padded_shape(m, k, 16), dtype=torch.uint8),
        "b_descale": torch.zeros(scale_factors.padded_shape(n, k, 16), dtype=torch.uint8),
        "c": None,
        "out": torch.zeros(m, n, dtype=torch.bfloat16),
        "out_descale": None,
        "alpha": None,
        "out_global_scale": None,
        "bias": None,
        "beta": 0.0,
        "workspace": None,
    } | changed
    return tuple(made.values())


def launcher(one: Compiled, library: Library, right: tuple[Any, ...], **tactic: Any) -> Launcher:
    """Made for operands that lie as those of a right call do."""
    name, operands = one.record.name, right[: len(INTERFACE.names)]
    problem, sm_count = Problem(*GOOD, c=operands[4] is not None), DEVICES[name].sm_count
    arguments = packed(INTERFACE, problem, Tactic(name, **tactic), sm_count)
    made = launchable(INTERFACE, problem, arguments, tensors=operands, alignments={}
    )  # fmt: skip
    return library.launcher(name, made)


def launch(one: Compiled, library: Library, *arguments: Any, **tactic: Any) -> int:
    return launcher(one, library, call(), **tactic)(*arguments)


@pytest.fixture(scope="module")
def on_host(compiled: dict[str, Compiled], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Library]:
    """By kernel: the compiled kernel behind its module's binding, which takes it to run on the host: so that
    tensors without a GPU get as far as they can."""
    import tvm_ffi  # noqa: PLC0415 (only for where its headers are)

    toolchain = find_toolchain()
    made = {}
    for name in (TWO_SM, STREAM_K):
        folder = tmp_path_factory.mktemp("on_host")
        kernel = compiled[name]
        command = [
            *toolchain.host, "-std=c++17", "-O1", "-fPIC", "-fvisibility=hidden",
            "-DTILEWRIGHT_DEVICE_TYPE=kDLCPU", f"-I{paths.include_dir()}",
            f"-isystem{Path(tvm_ffi.__file__).parent / 'include'}",
            "-c", str(kernel.table.folder / "table.cc"), "-o", str(folder / "table.o"),
        ]  # fmt: skip
        subprocess.run(command, check=True)
        listing = folder / "objects"
        listing.write_text(f'"{folder / "table.o"}"\n"{kernel.object}"\n', encoding="utf-8")
        library = folder / "on_host.so"
        subprocess.run(link_command(toolchain, library, listing), check=True)
        made[name] = Library(library)
    return made


def test_a_call_that_is_right_gets_as_far_as_cuda(
    on_host: dict[str, Library], two_sm: Compiled, stream_k: Compiled
) -> None:
    """What the next test changes in this call is then the reason why it is refused."""
    if torch.cuda.is_available():
        pytest.skip("there is a GPU, which must not be given the host's memory")
    assert launch(two_sm, on_host[TWO_SM], *call()) > 0
    needed = workspace(stream_k, GOOD, decomposition="split_k", splits=2)
    room = torch.zeros(needed + 256, dtype=torch.uint8)
    start = -room.data_ptr() % 256
    arguments = call(workspace=room[start : start + needed])
    assert launch(stream_k, on_host[STREAM_K], *arguments, decomposition="split_k", splits=2) > 0


_WRONG: dict[str, tuple[str, Any]] = {
    "a of another type": ("a", lambda: _fp8(256, 512)),
    "b of another type": ("b", lambda: torch.zeros(512, 512).mT),
    "b row-major": ("b", lambda: _bytes(512, 512)),
    "another k": ("b", lambda: _bytes(512, 256).mT),
    "another n": ("b", lambda: _bytes(256, 512).mT),
    "d of another type": ("out", lambda: torch.zeros(256, 512).half()),
    "d of one dimension": ("out", lambda: torch.zeros(512, dtype=torch.bfloat16)),
    "scales of another type": ("a_descale", lambda: _mx(256, 64)),
    "scales without their padding": ("a_descale", lambda: _bytes(128, 64)),
    "scales with gaps": ("b_descale", lambda: _bytes(512, 128)[:, :64]),
    "no scales": ("a_descale", lambda: None),
    "two alphas": ("alpha", lambda: torch.ones(2)),
    "scales of a D that has none": ("out_descale", lambda: _bytes(256, 32)),
    "c of another type": ("c", lambda: torch.zeros(256, 512)),
    "c of another shape": ("c", lambda: torch.zeros(256, 256, dtype=torch.bfloat16)),
}


def _bytes(*shape: int) -> Any:
    return torch.zeros(shape, dtype=torch.uint8)


def _fp8(*shape: int) -> Any:
    return _bytes(*shape).view(torch.float8_e4m3fn)


def _mx(*shape: int) -> Any:
    return _bytes(*shape).view(torch.float8_e8m0fnu)


@pytest.mark.parametrize("what", _WRONG)
def test_what_a_launcher_refuses(on_host: dict[str, Library], two_sm: Compiled, what: str) -> None:
    name, change = _WRONG[what]
    right = {"alpha": torch.ones(1)}
    made = launcher(two_sm, on_host[TWO_SM], call(**right))
    assert made(*call(**{**right, name: change()})) == -200 - INTERFACE.names.index(name)


def test_addresses_and_what_overlaps(on_host: dict[str, Library], two_sm: Compiled) -> None:
    """Answered in numbers, as the op answers with copies: `Status` of tilewright/launcher.hpp."""
    library = on_host[TWO_SM]
    room = torch.zeros(256 * 512 + 64, dtype=torch.uint8)
    start = -room.data_ptr() % 16
    shifted = room[start + 8 :][: 256 * 512].view(256, 512)
    assert launch(two_sm, library, *call(a=shifted)) == -100
    assert launch(two_sm, library, *call(b_descale=shifted.view(-1)[: 512 * 64])) == -100 - 3
    d = torch.zeros(256, 1024, dtype=torch.bfloat16)
    made = launcher(two_sm, library, call(out=d[:, :512], a=d.view(torch.uint8)[:, :512]))
    assert made(*call(out=d[:, :512], a=d.view(torch.uint8)[:, :512])) == -1000 - 64 * 5


def test_a_workspace_that_is_too_small(on_host: dict[str, Library], stream_k: Compiled) -> None:
    cut: dict[str, Any] = {"decomposition": "split_k", "splits": 2}
    with pytest.raises(ValueError, match="workspace holds 16 bytes"):
        launch(stream_k, on_host[STREAM_K], *call(workspace=_bytes(16)), **cut)


def test_tensors_on_the_host_are_refused(two_sm: Compiled) -> None:
    """By the library as it is shipped."""
    assert launch(two_sm, load(two_sm.library), *call()) == -200


def test_calls_that_are_no_calls(two_sm: Compiled) -> None:
    library, name, arguments = ask(two_sm, GOOD)
    with pytest.raises(TypeError, match="12 arguments, not 1"):
        launch(two_sm, library, None)
    with pytest.raises(ValueError, match="the arguments have 7 bytes"):
        library.can_implement(name, bytes(7))
    with pytest.raises(KeyError, match="has no kernel named nothing"):
        library.can_implement("nothing", arguments)
    absent = name.replace("_bf16_", "_f16_")
    assert absent in two_sm.table
    with pytest.raises(KeyError, match="is not in this library"):
        library.can_implement(absent, arguments)
