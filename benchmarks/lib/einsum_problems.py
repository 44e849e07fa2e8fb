"""The einsums that grouped_vs_deepgemm.py times: those of DeepGEMM's tests, and a gradient."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import torch
from benchmarks.lib.deepgemm_operands import Operands, Problem, by_blocks, empty, random_matrix

import tilewright
from tilewright.compat import deep_gemm as ours


def einsum() -> Iterator[Problem]:
    def make(equation: str, x: tuple[int, ...], y: tuple[int, ...], d: tuple[int, ...]) -> Operands:
        a, b = random_matrix(*x), random_matrix(*y)
        return Operands((equation, a, b), empty(*d), torch.einsum(equation, a, b))

    for h, r, d in ((128, 512, 128), (8, 4096, 1024)):
        for b in (4, 32, 128, 4096, 8192):
            for equation, x, z in (
                ("bhr,hdr->bhd", (b, h, r), (b, h, d)),
                ("bhd,hdr->bhr", (b, h, d), (b, h, r)),
            ):
                yield Problem(
                    f"einsum {equation}",
                    f"b={b} h={h} r={r} d={d}",
                    2.0 * b * h * r * d,
                    functools.partial(make, equation, x, (h, d, r), z),
                    lambda module, x: module.einsum(*x.tensors, x.d),
                    most=1e-6,
                    torch=lambda x: functools.partial(torch.einsum, *x.tensors),
                    torch_name="torch.einsum",
                )
            # The gradient of the operand [h, d, r] that the other two read.
            equation = "bhd,bhr->hdr"
            yield Problem(
                f"einsum {equation}",
                f"b={b} h={h} r={r} d={d}",
                2.0 * b * h * r * d,
                functools.partial(make, equation, (b, h, d), (b, h, r), (h, d, r)),
                lambda module, x: tilewright.einsum(*x.tensors, out=x.d),
                most=1e-5,
                torch=lambda x: functools.partial(torch.einsum, *x.tensors),
                torch_name="torch.einsum",
                ours_alone=True,
            )


def fp8_einsum() -> Iterator[Problem]:
    def make(b: int, h: int, r: int, d: int) -> Operands:
        x, y = random_matrix(b, h, r), random_matrix(h, d, r)
        data, scales = ours.per_token_cast_to_fp8(x.view(-1, r), use_ue8m0=False)
        # Their transposition is part of the call on both sides.
        pair = data.view(x.shape), scales.view(b, h, -1)
        return Operands((pair, by_blocks(y)), empty(b, h, d), torch.einsum("bhr,hdr->bhd", x, y))

    for b in (4, 32, 128, 4096, 8192):
        h, r, d = 8, 4096, 1024
        yield Problem(
            "fp8_einsum bhr,hdr->bhd",
            f"b={b} h={h} r={r} d={d}",
            2.0 * b * h * r * d,
            functools.partial(make, b, h, r, d),
            lambda module, x: module.fp8_einsum("bhr,hdr->bhd", *x.tensors, x.d),
        )


def reduced() -> Iterator[Problem]:
    def make(s: int, m: int, n: int, k: int) -> Operands:
        a, b = random_matrix(s, m, k), random_matrix(s, n, k)
        # Sums of random products differ by what is lost beside sums that cancel: F32 throughout.
        expected = sum(
            torch.einsum("bmk,bnk->mn", x.float(), y.float())
            for x, y in zip(a.split(256), b.split(256), strict=True)
        )
        return Operands((a, b), torch.zeros(m, n, device="cuda"), expected)

    for s in (129, 4096, 8192):
        for m, n, k in ((128, 384, 128), (256, 256, 256), (384, 128, 384)):
            yield Problem(
                "einsum bmk,bnk->mn",
                f"b={s} {m}x{n}x{k}",
                2.0 * s * m * n * k,
                functools.partial(make, s, m, n, k),
                lambda module, x: module.einsum("bmk,bnk->mn", *x.tensors, x.d, c=x.d),
                most=1e-5,
                torch=lambda x: functools.partial(torch.einsum, "bmk,bnk->mn", *x.tensors),
                torch_name="torch.einsum, to BF16",
            )


KINDS: dict[str, Callable[[], Iterator[Problem]]] = {
    "einsum": einsum,
    "fp8_einsum": fp8_einsum,
    "reduced": reduced,
}
