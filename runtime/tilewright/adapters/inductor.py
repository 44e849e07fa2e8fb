"""torch.compile takes our products where they are the fastest.

Inductor times several implementations of each `torch.mm` that it compiles. `enable()` adds `tilewright.gemm`
to them, for the whole process:

    from tilewright.adapters import inductor

    inductor.enable()
    model = torch.compile(model)

What is not a product of ours (a type or a device without kernels, FP32 where TF32 is not allowed) is left to
torch. Tested with torch 2.13; docs/adapters.md says what was run.
"""

from __future__ import annotations

import torch

import tilewright
from tilewright.errors import TilewrightError


def tilewright_gemm(a: torch.Tensor, b: torch.Tensor, *, out: torch.Tensor) -> torch.Tensor:
    """out = a @ b. Inductor calls it by this name, to time it and in compiled code.

    Raises NotImplementedError for what our kernels do not compute: Inductor then passes it over.
    """
    if a.dtype == torch.float32 and not torch.backends.cuda.matmul.allow_tf32:
        raise NotImplementedError("our kernels multiply FP32 as TF32, which torch is not allowed to do here")
    try:
        return tilewright.gemm(a, b, out=out)
    except TilewrightError as error:
        raise NotImplementedError(str(error)) from error


def enable() -> None:
    """Let Inductor choose among its own products and ours, in this process. Later calls change nothing."""
    from torch._inductor import config  # noqa: PLC0415 (it takes a second to import)
    from torch._inductor.kernel.mm import lazy_register_extern_choice  # noqa: PLC0415

    if tilewright_gemm not in config.external_matmul:
        config.external_matmul = [*config.external_matmul, tilewright_gemm]
    # Code from Inductor's cache of compiled graphs calls the product without choosing it again.
    lazy_register_extern_choice(tilewright_gemm)


def disable() -> None:
    """Let Inductor choose among its own products alone. What is compiled stays as it is."""
    from torch._inductor import config  # noqa: PLC0415

    config.external_matmul = [choice for choice in config.external_matmul if choice is not tilewright_gemm]
