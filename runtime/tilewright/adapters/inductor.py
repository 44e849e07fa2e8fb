"""torch.compile takes our products where they are the fastest.

Inductor times several implementations of each product that it compiles. `enable()` adds `tilewright.gemm` to
them for `mm` and `addmm` (a product and a matrix or a bias that is added), for the whole process:

    from tilewright.adapters import inductor

    inductor.enable()
    model = torch.compile(model)

What is not a product of ours (a type or a device without kernels, FP32 where TF32 is not allowed) is left to
torch. docs/adapters.md says which releases of torch were run.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch

import tilewright
from tilewright.errors import TilewrightError

if TYPE_CHECKING:
    from torch._inductor.choices import InductorChoices


def tilewright_gemm(a: torch.Tensor, b: torch.Tensor, *, out: torch.Tensor) -> torch.Tensor:
    """out = a @ b. Inductor calls it by this name, to time it and in compiled code.

    Raises NotImplementedError for what our kernels do not compute: Inductor then passes it over.
    """
    return _product(a, b, out)


def tilewright_addmm(
    c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *, out: torch.Tensor, alpha: float = 1, beta: float = 1
) -> torch.Tensor:
    """out = alpha * (a @ b) + beta * c, called as `tilewright_gemm`. A `c` of one row is a bias."""
    if c.dim() == 2 and c.stride(0) == 0:
        c = c[0]
    if c.dim() == 2:
        return _product(a, b, out, c=c, alpha=alpha, beta=beta)
    if beta != 1:
        raise NotImplementedError(
            f"beta: {beta}, expected 1 beside a bias: kernels of tilewright add a bias unscaled"
        )
    return _product(a, b, out, bias=c, alpha=alpha)


def _product(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor, **terms: Any) -> torch.Tensor:
    if a.dtype == torch.float32 and not torch.backends.cuda.matmul.allow_tf32:
        raise NotImplementedError("our kernels multiply FP32 as TF32, which torch is not allowed to do here")
    try:
        return tilewright.gemm(a, b, out=out, **terms)
    except TilewrightError as error:
        raise NotImplementedError(str(error)) from error


def enable() -> None:
    """Let Inductor choose among its own products and ours, in this process. Later calls change nothing.

    `addmm` is a matter of the thread that compiles: call this in each of them. If the program has set a
    handler of choices, `addmm` stays torch's.
    """
    from torch._inductor import config  # noqa: PLC0415 (it takes a second to import)
    from torch._inductor.choices import InductorChoices  # noqa: PLC0415
    from torch._inductor.kernel.mm import lazy_register_extern_choice  # noqa: PLC0415
    from torch._inductor.virtualized import V  # noqa: PLC0415

    if tilewright_gemm not in config.external_matmul:
        config.external_matmul = [*config.external_matmul, tilewright_gemm]
    if type(V.choices) is InductorChoices:
        V.set_choices_handler(_with_addmm()())
    # Code from Inductor's cache of compiled graphs calls the products without choosing them again.
    lazy_register_extern_choice(tilewright_gemm)
    lazy_register_extern_choice(tilewright_addmm)


def disable() -> None:
    """Let Inductor choose among its own products alone. What is compiled stays as it is."""
    from torch._inductor import config  # noqa: PLC0415
    from torch._inductor.choices import InductorChoices  # noqa: PLC0415
    from torch._inductor.virtualized import V  # noqa: PLC0415

    config.external_matmul = [choice for choice in config.external_matmul if choice is not tilewright_gemm]
    if isinstance(V.choices, _with_addmm()):
        V.set_choices_handler(InductorChoices())


@functools.cache
def _with_addmm() -> type[InductorChoices]:
    """Inductor's choices, with ours for `addmm`, which has no list of outside products as `mm` has."""
    from torch._inductor.choices import InductorChoices  # noqa: PLC0415
    from torch._inductor.kernel.mm import aten_addmm, lazy_register_extern_choice  # noqa: PLC0415
    from torch._inductor.utils import use_aten_gemm_kernels  # noqa: PLC0415

    class WithAddmm(InductorChoices):  # type: ignore[misc]  # torch gives it no types here
        def get_template_configs(
            self, kernel_inputs: Any, templates: list[Any], op_name: str, *rest: Any, **named: Any
        ) -> list[Any]:
            choices: list[Any] = super().get_template_configs(
                kernel_inputs, templates, op_name, *rest, **named
            )
            # Inductor asks several times for one product. ATen's product is in one of these lists at most.
            asked = aten_addmm in templates or not (templates or use_aten_gemm_kernels())
            if op_name == "addmm" and asked:
                layout = kernel_inputs.output_layout(flexible=False)
                scalars = {name: kernel_inputs.get_scalar(name) for name in ("alpha", "beta")}
                ours = lazy_register_extern_choice(tilewright_addmm)
                choices.append(ours.bind(kernel_inputs.nodes(), layout, **scalars))
            return choices

    return WithAddmm
