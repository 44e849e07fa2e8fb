"""Our products in JAX, jitted too, through XLA's FFI.

    from tilewright.adapters import jax as tilewright_jax

    d = tilewright_jax.gemm(a, weight)  # a @ weight.T

XLA calls the op with its own buffers and its own stream: nothing is copied and nothing waits. It takes the
packages `jax-tvm-ffi` and torch, whose allocator lends workspaces. docs/adapters.md says what was run.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax_tvm_ffi
import torch
import tvm_ffi

import tilewright
from tilewright.families.gemm.problem import GATED

_TARGET = "tilewright_gemm"
# XLA's names of platforms, by the type of a DLPack device. On the CPU there are the tests' kernels alone.
_PLATFORMS = ("gpu", "cpu")


def gemm(
    a: jax.Array,
    weight: jax.Array,
    bias: jax.Array | None = None,
    *,
    activation: str = "none",
    dtype: Any = None,
) -> jax.Array:
    """activation(a @ weight.T + bias): a is [m, k], weight [n, k], bias [n]. With silu_mul, the result is
    [m, n/2], as that of `tilewright.gemm`.

    dtype: of the result; default: that of `a`. Types are those of `tilewright.gemm`; it has no derivative and
    no batching rule.
    """
    if a.ndim != 2 or weight.ndim != 2 or a.shape[1] != weight.shape[1]:
        raise ValueError(f"expected a of [m, k] and weight of [n, k], got {a.shape} and {weight.shape}")
    _register()
    columns = weight.shape[0] // 2 if activation in GATED else weight.shape[0]
    result = jax.ShapeDtypeStruct((a.shape[0], columns), dtype or a.dtype)
    call = jax.ffi.ffi_call(_TARGET, result)
    tensors = (a, weight) if bias is None else (a, weight, bias)
    answer: jax.Array = call(*tensors, activation=activation)
    return answer


@cache
def _register() -> None:
    for platform in _PLATFORMS:
        jax_tvm_ffi.register_ffi_target(
            _TARGET,
            tvm_ffi.convert(_gemm),
            arg_spec=["attrs.activation", "args", "rets"],
            platform=platform,
            pass_owned_tensor=True,
        )


def _gemm(activation: str, *buffers: Any) -> None:
    """What XLA calls as the program runs: the last of the buffers is the result."""
    a, weight, *bias, out = map(torch.from_dlpack, buffers)
    with _stream_of(buffers[0]):
        tilewright.gemm(a, weight.t(), bias=bias[0] if bias else None, activation=str(activation), out=out)


def _stream_of(buffer: Any) -> Any:
    """XLA's stream as torch's current one."""
    device = buffer.device
    if device.type != "cuda":
        return torch.cuda.stream(None)
    raw = tvm_ffi.get_raw_stream(device)
    return torch.cuda.stream(torch.cuda.ExternalStream(raw, device.index))
