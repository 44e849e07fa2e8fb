"""The host side of Blackwell kernels, on any machine: which problems they take, workspaces, argument checks.

The kernels are those that test_compile.py compiles; their modules' libraries are linked and loaded, and no GPU
is touched.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_compile import KERNELS, TABLES

from tilewright.build.building import build
from tilewright.build.library import libraries
from tilewright.device import B200, B300, RTX_PRO_6000, DeviceProperties
from tilewright.library import Library, load
from tilewright.ops.blockscaled_gemm.problem import Problem
from tilewright.ops.common.tactics import Tactic

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.compile

TWO_SM = "blockscaled_gemm_sm100f_nvfp4_nvfp4_bf16_128x128x256_dyn_2sm"
ULTRA = "blockscaled_gemm_sm103_nvfp4_nvfp4_bf16_128x128x768_dyn_1sm_direct256"
STREAM_K = "blockscaled_gemm_sm120f_nvfp4_nvfp4_bf16_128x128x128_1x1_coop_streamk"
HOPPER = "blockscaled_gemm_sm90_nvfp4_nvfp4_bf16_128x32x256_1x1_coop_swap"
GOOD = (256, 512, 1024)


@pytest.fixture(scope="module")
def library() -> dict[str, Library]:
    """By kernel: the library of its module, built like any other."""
    report = build(TABLES, frozenset(KERNELS), strict=True)
    report.raise_for_failures()
    modules = {name: table.module for table in TABLES for name in table}
    return {name: load(Path(libraries(modules[name])[0].path)) for name in (TWO_SM, ULTRA, STREAM_K, HOPPER)}


def takes(
    library: dict[str, Library],
    kernel: str,
    shape: tuple[int, ...],
    device: DeviceProperties = B200,
    **tactic: Any,
) -> bool:
    problem = Problem(*shape)
    sizes = (problem.m, problem.n, problem.k, problem.batch)
    return library[kernel].can_implement(kernel, sizes, _options(kernel, problem, device, **tactic))


def _options(kernel: str, problem: Problem, device: DeviceProperties, **tactic: Any) -> tuple[int, ...]:
    return (*Tactic(kernel, **tactic).options(device.sm_count), *problem.options)


@pytest.mark.timeout(1800)
class TestCanImplement:
    @pytest.mark.parametrize("kernel", [TWO_SM, ULTRA, STREAM_K, HOPPER])
    def test_good_problems(self, library: dict[str, Library], kernel: str) -> None:
        for shape in (
            GOOD,
            (1, 128, 512),
            (31, 256, 256),
            (128, 4096, 7168),
            (4097, 264 * 2, 96),
            (*GOOD, 3),
        ):
            assert takes(library, kernel, shape), shape

    @pytest.mark.parametrize("kernel", [TWO_SM, ULTRA, STREAM_K, HOPPER])
    def test_k_that_tma_cannot_move(self, library: dict[str, Library], kernel: str) -> None:
        for k in (16, 40, 136, 1000):
            assert not takes(library, kernel, (128, 256, k)), k

    def test_n_that_the_store_cannot_write(self, library: dict[str, Library]) -> None:
        for kernel in (TWO_SM, STREAM_K):
            assert takes(library, kernel, (128, 264, 512))
            assert not takes(library, kernel, (128, 129, 512))
        assert takes(library, HOPPER, (128, 129, 512))

    @pytest.mark.parametrize("kernel", [TWO_SM, ULTRA, STREAM_K, HOPPER])
    def test_empty_problems(self, library: dict[str, Library], kernel: str) -> None:
        for shape in ((0, 256, 256), (128, 0, 256), (128, 256, 0), (128, 256, 256, 0)):
            assert not takes(library, kernel, shape), shape

    def test_clusters_of_two_sms(self, library: dict[str, Library]) -> None:
        for cluster, fallback in (("2x1", "2x1"), ("4x4", "2x1"), ("4x2", "4x1"), ("2x4", "2x2"), ("", "")):
            assert takes(library, TWO_SM, GOOD, cluster=cluster, fallback=fallback), cluster
        for cluster, fallback in (
            ("1x1", "1x1"),  # cuts a pair of SMs
            ("4x1", "1x1"),
            ("8x1", "2x1"),  # scale factors are multicast to four
            ("2x8", "2x1"),
            ("2x2", "2x4"),  # the fallback does not divide it
        ):
            assert not takes(library, TWO_SM, GOOD, cluster=cluster, fallback=fallback), (cluster, fallback)

    def test_clusters_of_one_sm(self, library: dict[str, Library]) -> None:
        assert takes(library, ULTRA, GOOD, B300, cluster="1x4", fallback="1x1")
        assert takes(library, ULTRA, GOOD, B300, cluster="2x2", fallback="1x2")
        assert not takes(library, ULTRA, GOOD, B300, cluster="1x8", fallback="1x1")

    def test_splits_on_hopper(self, library: dict[str, Library]) -> None:
        assert all(takes(library, HOPPER, GOOD, splits=splits) for splits in (1, 2, 4, 8))
        assert not takes(library, HOPPER, GOOD, splits=3)


@pytest.mark.timeout(1800)
class TestWorkspace:
    def test_what_does_not_split_needs_none(self, library: dict[str, Library]) -> None:
        for kernel in (TWO_SM, ULTRA, HOPPER):
            options = _options(kernel, Problem(*GOOD), B200)
            assert library[kernel].workspace_bytes(kernel, (*GOOD, 1), options) == 0

    def test_stream_k_keeps_the_partial_sums(self, library: dict[str, Library]) -> None:
        m, n, k = shape = (32, 5120, 25600)
        options = _options(STREAM_K, Problem(*shape), RTX_PRO_6000, decomposition="split_k", splits=4)
        tiles = -(-m // 128) * -(-n // 128)
        size = library[STREAM_K].workspace_bytes(STREAM_K, (m, n, k, 1), options)
        assert tiles * 128 * 128 * 4 <= size <= 4 * tiles * 128 * 128 * 4 + 2**20


@pytest.mark.timeout(1800)
class TestArguments:
    """What a launcher refuses before it touches anything: these tensors are on the host."""

    def launch(self, library: dict[str, Library], **changed: Any) -> int:
        options = _options(TWO_SM, Problem(*GOOD), B200)
        m, n, k = GOOD
        made: dict[str, Any] = {
            "a": torch.zeros(m, k // 2, dtype=torch.uint8),
            "b": torch.zeros(n, k // 2, dtype=torch.uint8).mT,
            "a_scale": torch.zeros(m, k // 16, dtype=torch.uint8),
            "b_scale": torch.zeros(n, k // 16, dtype=torch.uint8),
            "c": None,
            "d": torch.zeros(m, n, dtype=torch.bfloat16),
            "d_scale": None,
            "alpha": None,
            "d_global_scale": None,
            "beta": 0.0,
            "workspace": None,
        } | changed
        return library[TWO_SM].launcher(TWO_SM, options)(*made.values())

    def test_tensors_on_the_host(self, library: dict[str, Library]) -> None:
        with pytest.raises(ValueError, match="device type 1"):
            self.launch(library)

    def test_too_few_arguments(self, library: dict[str, Library]) -> None:
        options = _options(TWO_SM, Problem(*GOOD), B200)
        with pytest.raises(TypeError, match="11 arguments, not 1"):
            library[TWO_SM].launcher(TWO_SM, options)(None)

    def test_no_tensor(self, library: dict[str, Library]) -> None:
        with pytest.raises(TypeError, match="a_scale is None"):
            self.launch(library, a_scale=None)

    def test_options_of_another_family(self, library: dict[str, Library]) -> None:
        with pytest.raises(ValueError, match="options holds 2 numbers; 13 are wanted"):
            library[TWO_SM].launcher(TWO_SM, (0, 1))

    def test_a_kernel_that_is_not_linked(self, library: dict[str, Library]) -> None:
        with pytest.raises(KeyError, match="is not in this library"):
            library[TWO_SM].launcher(TWO_SM.replace("2sm", "1sm"), _options(TWO_SM, Problem(*GOOD), B200))
