"""The host side of block-scaled kernels, on any machine: what they take, their workspaces, argument checks.

The kernels are those that are compiled for tests; their modules' libraries are loaded, and no GPU is touched.
"""

from __future__ import annotations

import itertools
import subprocess
from pathlib import Path
from typing import Any

import pytest
from compiled_kernels import HOPPER, STREAM_K, TWO_SM, ULTRA, Compiled

from tilewright import scale_factors
from tilewright.architectures.device import B200, B300, H200, RTX_PRO_6000
from tilewright.base import paths
from tilewright.compile.linking import link_command
from tilewright.compile.nvcc.toolchain import find_toolchain
from tilewright.declarations.arguments import launchable, packed, struct
from tilewright.declarations.tactics import Tactic
from tilewright.families.blockscaled_gemm.family import FAMILY
from tilewright.families.blockscaled_gemm.interface import INTERFACE
from tilewright.families.blockscaled_gemm.problem import Problem
from tilewright.libraries.library import Launcher, Library, load

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.compile, pytest.mark.timeout(1800)]

DEVICES = {TWO_SM: B200, ULTRA: B300, STREAM_K: RTX_PRO_6000, HOPPER: H200}
GOOD = (256, 512, 1024)
TILE_BYTES = 128 * 128 * 4  # of partial sums
SIDES = (1, 2, 3, 4, 6, 8)


@pytest.fixture(params=DEVICES)
def kernel(request: pytest.FixtureRequest, compiled: dict[str, Compiled]) -> Compiled:
    return compiled[request.param]


@pytest.fixture
def two_sm(compiled: dict[str, Compiled]) -> Compiled:
    return compiled[TWO_SM]


@pytest.fixture
def ultra(compiled: dict[str, Compiled]) -> Compiled:
    return compiled[ULTRA]


@pytest.fixture
def stream_k(compiled: dict[str, Compiled]) -> Compiled:
    return compiled[STREAM_K]


def ask(one: Compiled, shape: tuple[int, ...], **tactic: Any) -> tuple[Library, str, bytes]:
    """The library, and what its functions take for a problem (m, n, k[, batch])."""
    problem, device = Problem(*(*shape, 1)[:4]), DEVICES[one.record.name]
    name = one.record.name
    return load(one.library), name, packed(INTERFACE, problem, Tactic(name, **tactic), device.sm_count)


def takes(one: Compiled, shape: tuple[int, ...], **tactic: Any) -> bool:
    library, *question = ask(one, shape, **tactic)
    return library.can_implement(*question)


def workspace(one: Compiled, shape: tuple[int, ...], **tactic: Any) -> int:
    library, *question = ask(one, shape, **tactic)
    return library.workspace_bytes(*question)


def test_good_problems(kernel: Compiled) -> None:
    for shape in (
        GOOD, (1, 128, 512), (31, 256, 256), (128, 4096, 7168), (4097, 528, 96), (1, 16, 32), (*GOOD, 3),
        (8192, 28672, 8192),
    ):  # fmt: skip
        assert takes(kernel, shape), shape


def test_empty_and_impossible_problems(kernel: Compiled) -> None:
    for shape in ((0, 256, 256), (128, 0, 256), (128, 256, 0), (128, 256, 256, 0)):
        assert not takes(kernel, shape), shape


def test_k_that_tma_cannot_move(kernel: Compiled) -> None:
    for k in (16, 40, 136, 1000, 1008, 1023):
        assert not takes(kernel, (128, 256, k)), k


def test_n_that_a_store_cannot_write(compiled: dict[str, Compiled]) -> None:
    for name in (TWO_SM, STREAM_K):
        assert takes(compiled[name], (128, 264, 512))
        for n in (129, 130, 132, 260):
            assert not takes(compiled[name], (128, n, 512)), n
    assert takes(compiled[HOPPER], (128, 129, 512))  # single elements, where it must


def test_what_the_table_accepts_the_kernel_takes(kernel: Compiled) -> None:
    """Extents: where the rules say yes, can_implement does not say no."""
    record = kernel.record
    extents = itertools.product(
        (1, 7, 128, 4097), (8, 16, 24, 129, 260, 272, 1000), (32, 48, 72, 96, 160, 1024), (1, 3)
    )
    agreed = 0
    for shape in extents:
        legal = FAMILY.misfit(record, Problem(*shape)) is None
        agreed += legal
        if legal or record.name != ULTRA:  # whose D the table alone wants at multiples of 32 bytes
            assert takes(kernel, shape) == legal, shape
    assert agreed


def test_the_alignment_of_an_ultra_epilogue_is_a_rule(ultra: Compiled) -> None:
    reason = FAMILY.misfit(ultra.record, Problem(128, 264, 1024))
    assert reason is not None
    assert "d has 264 elements" in reason
    assert "not a multiple of 16" in reason
    assert FAMILY.misfit(ultra.record, Problem(128, 272, 1024)) is None


@pytest.mark.parametrize("name", [TWO_SM, ULTRA])
def test_clusters(compiled: dict[str, Compiled], name: str) -> None:
    """The rules and the kernel agree on every shape and fallback: sides of 1, 2 and 4, pairs whole,
    fallbacks that divide."""
    one = compiled[name]
    unit = 2 if name == TWO_SM else 1
    assert one.record.facts["cluster_multiple"] == [unit, 1]
    legal = []
    for m, n, fallback_m, fallback_n in itertools.product(SIDES, SIDES, SIDES, SIDES):
        if m * n > 16 or fallback_m * fallback_n > 16:
            continue
        tactic = Tactic(name, cluster=f"{m}x{n}", fallback=f"{fallback_m}x{fallback_n}")
        fits = FAMILY.misfit_arguments(tactic, one.record) is None
        if takes(one, GOOD, cluster=tactic.cluster, fallback=tactic.fallback):
            legal.append((m, n, fallback_m, fallback_n))
            assert max(m, n) <= 4
            assert m % unit == fallback_m % unit == 0
            assert m % fallback_m == n % fallback_n == 0
            assert fits, tactic
        else:
            assert not fits, tactic
    assert (4, 4, unit, 1) in legal
    assert (4, 2, 4, 2) in legal
    assert takes(one, GOOD)  # the smallest that the kernel has


def test_clusters_that_are_wrong(two_sm: Compiled, ultra: Compiled) -> None:
    for cluster, fallback in (
        ("1x1", "1x1"),  # cuts a pair of SMs
        ("3x1", "3x1"),  # likewise
        ("4x1", "1x1"),  # its fallback does
        ("8x1", "2x1"),  # scale factors are multicast to four
        ("2x8", "2x1"),
        ("2x2", "2x4"),  # a fallback that does not divide it
        ("4x2", "4x4"),
        ("2x2", "4x1"),
    ):
        assert not takes(two_sm, GOOD, cluster=cluster, fallback=fallback), (cluster, fallback)
    for cluster, fallback in (("1x4", "1x1"), ("2x2", "1x2"), ("4x4", "1x1")):
        assert takes(ultra, GOOD, cluster=cluster, fallback=fallback), (cluster, fallback)
    assert not takes(ultra, GOOD, cluster="1x8", fallback="1x1")


def test_settings_that_are_no_numbers_to_count_with(kernel: Compiled) -> None:
    """Swizzle, splits and the number of SMs: 0 and less are refused, not divided by."""
    library, name, arguments = ask(kernel, GOOD)
    assert library.can_implement(name, arguments)
    for what in ("splits",) if name == HOPPER else ("swizzle", "splits", "sm_count"):
        for value in (0, -1):
            wrong = struct(INTERFACE).from_buffer_copy(arguments)
            setattr(wrong.tactic, what, value)
            assert not library.can_implement(name, bytes(wrong)), what


def test_splits_over_a_cluster_of_hopper(compiled: dict[str, Compiled]) -> None:
    hopper = compiled[HOPPER]
    for splits in range(1, 17):
        assert takes(hopper, GOOD, splits=splits) == (splits in (1, 2, 4, 8)), splits
    assert takes(hopper, (16, 128, 256, 8191), splits=8)
    assert not takes(hopper, (16, 128, 256, 8192), splits=8)  # thread blocks along z
    assert takes(hopper, (32 * 65535, 128, 256))
    assert not takes(hopper, (32 * 65535 + 1, 128, 256))  # along y


def test_what_does_not_split_needs_no_workspace(compiled: dict[str, Compiled]) -> None:
    for shape in (GOOD, (1, 128, 512), (32, 5120, 25600), (*GOOD, 3)):
        for name in (TWO_SM, ULTRA, HOPPER):
            assert workspace(compiled[name], shape) == 0
        assert workspace(compiled[HOPPER], shape, splits=8) == 0
        assert workspace(compiled[STREAM_K], shape, decomposition="data_parallel") == 0


@pytest.mark.parametrize(
    "shape", [(32, 5120, 25600), (128, 128, 8192), (4096, 4096, 4096), (100, 520, 4128, 2)]
)
def test_workspace_of_stream_k(stream_k: Compiled, shape: tuple[int, ...]) -> None:
    """Partial sums and a few barriers for each tile of D that the tactic cuts, not for what any might."""
    m, n, _, batch = (*shape, 1)[:4]
    tiles = -(-m // 128) * -(-n // 128) * batch
    most = tiles * (TILE_BYTES + 8) + 128
    for splits in (2, 4):
        assert tiles * TILE_BYTES < workspace(stream_k, shape, decomposition="split_k", splits=splits) <= most
    cut = min(tiles, 2 * RTX_PRO_6000.sm_count)
    streamed = workspace(stream_k, shape, decomposition="stream_k")
    assert TILE_BYTES < streamed <= cut * TILE_BYTES + tiles * 8 + 128


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
        one = compiled[name]
        command = [
            *toolchain.host, "-std=c++17", "-O1", "-fPIC", "-fvisibility=hidden",
            "-DTILEWRIGHT_DEVICE_TYPE=kDLCPU", f"-I{paths.include_dir()}",
            f"-isystem{Path(tvm_ffi.__file__).parent / 'include'}",
            "-c", str(one.table.folder / "table.cc"), "-o", str(folder / "table.o"),
        ]  # fmt: skip
        subprocess.run(command, check=True)
        listing = folder / "objects"
        listing.write_text(f'"{folder / "table.o"}"\n"{one.object}"\n', encoding="utf-8")
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
