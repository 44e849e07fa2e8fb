"""The kernel of docs/lean_kernels.md, on a GPU: in clusters, with tiles that reach beyond D."""

from __future__ import annotations

import ctypes

import pytest
import torch
from lean_kernels_page import NAME, compiled

from tilewright.errors import ToolchainError

_INT, _LONG, _POINTER = ctypes.c_int32, ctypes.c_int64, ctypes.c_void_p


class Tactic(ctypes.Structure):
    """tilewright/tactic.h."""

    _fields_ = [
        (name, _INT)
        for name in (
            "raster", "swizzle", "decomposition", "splits", "reduction", "cluster_m", "cluster_n",
            "fallback_m", "fallback_n", "sm_count",
        )
    ]  # fmt: skip


class Args(ctypes.Structure):
    """The page's args.h."""

    _fields_ = [
        *((name, _INT) for name in "mnk"),
        *((name, _POINTER) for name in "abd"),
        *((name, _LONG) for name in ("ld_a", "ld_b", "ld_d")),
        ("tactic", Tactic),
    ]


class Kernel(ctypes.Structure):
    """tilewright/abi.h."""

    _fields_ = [
        *((name, ctypes.c_uint32) for name in ("abi_version", "args_bytes", "threads", "smem_bytes")),
        ("name", ctypes.c_char_p),
        ("can_implement", ctypes.CFUNCTYPE(_INT, _POINTER)),
        ("workspace_bytes", ctypes.CFUNCTYPE(_LONG, _POINTER)),
        ("launch", ctypes.CFUNCTYPE(_INT, _POINTER, _POINTER, _POINTER)),
    ]


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Kernel:
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("a kernel of sm_90a")
    try:
        library, _ = compiled(tmp_path_factory.mktemp("page"))
    except ToolchainError as error:
        pytest.skip(f"no toolchain: {error}")
    return Kernel.in_dll(ctypes.CDLL(str(library)), f"tilewright_{NAME}")


@pytest.mark.parametrize("cluster", [(1, 1), (2, 1), (1, 2), (2, 2)], ids=str)
@pytest.mark.parametrize("shape", [(128, 128, 64), (1, 8, 8), (300, 264, 456), (1500, 2000, 1000)], ids=str)
def test_it_multiplies(kernel: Kernel, shape: tuple[int, int, int], cluster: tuple[int, int]) -> None:
    m, n, k = shape
    generator = torch.Generator("cuda").manual_seed(m + n + k)
    a = torch.randn(m, k, device="cuda", generator=generator).bfloat16()
    b = torch.randn(n, k, device="cuda", generator=generator).bfloat16()
    wide = torch.full((m + 1, n + 8), float("nan"), device="cuda", dtype=torch.bfloat16)
    d = wide[:m, :n]
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    tactic = Tactic(swizzle=2, splits=1, cluster_m=cluster[0], cluster_n=cluster[1], sm_count=sms)
    args = Args(m, n, k, a.data_ptr(), b.data_ptr(), d.data_ptr(), k, k, wide.stride(0), tactic)
    assert kernel.args_bytes == ctypes.sizeof(Args)
    assert kernel.can_implement(ctypes.addressof(args)) == 0
    stream = torch.cuda.current_stream().cuda_stream
    assert kernel.launch(ctypes.addressof(args), None, stream) == 0
    torch.cuda.synchronize()
    wanted = a.double() @ b.double().T
    assert not d.isnan().any()
    # Rounding to BF16, and F32 sums of some hundred products.
    assert ((d.double() - wanted).abs() <= 2.0**-8 * wanted.abs() + 1e-4 * k**0.5).all()
    assert wide[m:].isnan().all()
    assert wide[:, n:].isnan().all()


def test_it_refuses_what_tma_cannot_read(kernel: Kernel) -> None:
    tactic = Tactic(swizzle=1, splits=1, sm_count=1)
    args = Args(8, 8, 8, None, None, None, 9, 8, 8, tactic)
    assert kernel.can_implement(ctypes.addressof(args)) == -1
