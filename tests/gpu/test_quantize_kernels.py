"""Every generated `quantize` kernel that this GPU runs, against the exact reference: bit for bit."""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import Any

import pytest
import quantize_comparison as comparison
import quantize_inputs as inputs
import quantize_reference as of
import torch
from generated_kernels import fixture, names, registry
from late_writes import check_waits

import tilewright
from tilewright import reference
from tilewright.architectures.device import H200
from tilewright.declarations.arguments import packed
from tilewright.declarations.table import KernelRecord
from tilewright.families.quantize.cost import resident
from tilewright.families.quantize.family import FAMILY
from tilewright.families.quantize.interface import INTERFACE, READING_BACK
from tilewright.families.quantize.problem import BLOCK
from tilewright.formats.dtypes import dtype_of

ODD = [(1, 16), (120, 64), (129, 80), (200, 256), (1023, 7168), (7, 528), (257, 1040)]
FUSED = [(1, 64), (129, 208), (260, 1536), (33, 7168)]
# Of elements, and of scales, that are not the reference's, at most by a step: fast arithmetic, and fusions,
# whose sums and exponentials are rounded otherwise.
FAST_SHARE = 0.002
FUSED_SHARE = 0.002


kernel = fixture("quantize", "tilewright build quantize")


def test_every_kernel_is_built() -> None:
    records = [registry().record(name) for name in names("quantize")]
    missing = [one.name for one in records if not registry().is_built(one) and registry().buildable(one)]
    assert not missing, (
        f"{len(missing)} kernels are not built, {missing[0]} is the first: run `tilewright build quantize`"
    )


def is_exact(record: KernelRecord) -> bool:
    config = record.config
    plain = config["arithmetic"] == "exact" and config["fusion"] == "none"
    return bool(plain and config["direction"] == "quantize")


def asked(record: KernelRecord, case: of.Case) -> of.Case:
    """The case, with the choice between two scales of a block that the kernel makes."""
    return replace(case, four_over_six=record.config.get("four_over_six", "none"))


def tactics(record: KernelRecord) -> list[str]:
    """A grid as large as the work, as many thread blocks as fit, and one on each SM."""
    return [record.name, f"{record.name}@blocks={resident(record)}", f"{record.name}@blocks=1"]


def test_odd_shapes(kernel: KernelRecord) -> None:
    if not is_exact(kernel):
        pytest.skip("other tests compare it")
    config = kernel.config
    for seed, shape in enumerate(ODD):
        for case in of.cases(config["format"], config["x"], shape, seed):
            for tactic in tactics(kernel):
                asked(kernel, case).check(tactic)


def test_every_boundary_and_pattern(kernel: KernelRecord) -> None:
    if not is_exact(kernel):
        pytest.skip("other tests compare it")
    for case in of.every_input(kernel.config["format"], kernel.config["x"]):
        asked(kernel, case).check(kernel.name)


def test_stacked_experts_with_masked_rows(kernel: KernelRecord) -> None:
    if not is_exact(kernel):
        pytest.skip("other tests compare it")
    for case in of.masked(kernel.config["format"], kernel.config["x"]):
        for tactic in tactics(kernel):
            asked(kernel, case).check(tactic)


def test_a_scale_for_each_row(kernel: KernelRecord) -> None:
    if not is_exact(kernel) or kernel.config["format"] != "nvfp4":
        pytest.skip("it has no global scale, or other tests compare it")
    for shape in ((129, 80), (1023, 1040), (2, 40, 512)):
        value = inputs.randoms(shape, kernel.config["x"], 3)
        per_row = torch.exp2(torch.arange(value[..., 0].numel(), device=inputs.DEVICE) % 60 - 30.0).view(
            shape[:-1]
        )
        for layout in of.layouts_of("nvfp4"):
            asked(kernel, of.Case("nvfp4", value, layout, per_row)).check(kernel.name)


def smooth(shape: tuple[int, ...], x: str, seed: int) -> torch.Tensor:
    generator = torch.Generator(inputs.DEVICE).manual_seed(seed)
    value = torch.randn(shape, generator=generator, device=inputs.DEVICE)
    value *= torch.exp2(
        torch.randint(-3, 4, (*shape[:-1], 1), generator=generator, device=inputs.DEVICE).float()
    )
    return value.to(dtype_of(x))


def test_fast_arithmetic(kernel: KernelRecord) -> None:
    config = kernel.config
    if config["arithmetic"] != "fast" or config["fusion"] != "none":
        pytest.skip("its arithmetic is exact, or it is fused")
    for seed, shape in enumerate([(512, 4096), (129, 80), (4096, 2048)]):
        value = smooth(shape, config["x"], seed)
        scale = reference.nvfp4_global_scale(value)
        for layout in of.layouts_of(config["format"]):
            case = of.Case(config["format"], value, layout, scale, exact=False)
            elements, scales = of.Run(case, kernel.name).check_close()
            assert elements <= FAST_SHARE, f"{case}: {elements:.2e} of the elements differ"
            assert scales <= FAST_SHARE, f"{case}: {scales:.2e} of the scales differ"


def test_fusions(kernel: KernelRecord) -> None:
    config = kernel.config
    if config["fusion"] == "none" or config["direction"] == "dequantize":
        pytest.skip("it is not fused")
    for seed, (m, k) in enumerate(FUSED):
        parts = 2 if config["fusion"] == "silu_mul" else 1
        value = smooth((m, parts * k), config["x"], seed)
        weight = smooth((k,), config["x"], seed + 9) if config["fusion"] == "rmsnorm" else None
        scale = 150.0 if config["format"] == "nvfp4" else None
        for layout in of.layouts_of(config["format"]):
            if layout == "packed" and m * k < 4096:
                continue
            case = of.Case(
                config["format"], value, layout, scale, fusion=config["fusion"], weight=weight,
                exact=config["arithmetic"] == "exact",
            )  # fmt: skip
            blocks = m * -(-k // BLOCK[config["format"]][1])
            elements, scales = of.Run(case, kernel.name).check_close()
            assert elements <= max(FUSED_SHARE, 2 / (m * k)), f"{case}: {elements:.2e} of the elements differ"
            assert scales <= max(FUSED_SHARE, 2 / blocks), f"{case}: {scales:.2e} of the scales differ"


def test_fused_rows_that_do_not_count(kernel: KernelRecord) -> None:
    config = kernel.config
    if config["fusion"] == "none" or config["direction"] == "dequantize":
        pytest.skip("it is not fused")
    parts = 2 if config["fusion"] == "silu_mul" else 1
    m, k = 133, 256
    value = smooth((3, m, parts * k), config["x"], 5)
    weight = smooth((k,), config["x"], 6) if config["fusion"] == "rmsnorm" else None
    valid = torch.tensor([0, 40, m], dtype=torch.int32, device=inputs.DEVICE)
    exact = config["arithmetic"] == "exact"
    options: dict[str, Any] = {"fusion": config["fusion"], "weight": weight, "exact": exact}
    for layout in of.layouts_of(config["format"]):
        whole, whole_scales = of.Case(config["format"], value, layout, **options).quantize(tactic=kernel.name)
        out, border = of.poisoned(whole)
        case = of.Case(config["format"], value, layout, rows_valid=valid, **options)
        scales = of.poisoned_scales(whole_scales, layout)
        case.quantize(out=out, out_scales=scales, tactic=kernel.name)
        rows = reference.valid_rows(valid, m)
        assert torch.equal(of.as_bytes(out)[rows], of.as_bytes(whole)[rows]), str(case)
        assert bool((of.as_bytes(out)[~rows] == of.POISON).all()), str(case)
        assert bool((border == of.POISON).all()), str(case)
        _, expected = of.Case(
            config["format"], torch.zeros(3, m, k, device=inputs.DEVICE), layout, rows_valid=valid
        ).wanted()
        if layout in ("linear", "m_major", "row_major", "packed"):
            plain, nothing = of.as_bytes(scales), of.as_bytes(expected)
            assert torch.equal(plain[~rows], nothing[~rows]), f"{case}: scales of rows that do not count"
            assert torch.equal(plain[rows], of.as_bytes(whole_scales)[rows]), str(case)


def test_reading_back(kernel: KernelRecord) -> None:
    config = kernel.config
    if config["direction"] != "dequantize":
        pytest.skip("it quantises")
    name, dtype = config["format"], dtype_of(config["x"])
    for seed, shape in enumerate([*ODD, (3, 130, 272)]):
        for given in of.cases(name, "f32", shape, seed):
            case = replace(given, global_scale=None) if seed % 2 else given
            data, scales = case.wanted()
            exact = case.read_back(data, scales)
            op = reading_back(case)
            for tactic in tactics(kernel):
                out = torch.full(exact.shape, math.nan, device=inputs.DEVICE).to(dtype)
                actual = op(data, scales, out=out, tactic=tactic)
                assert actual is out
                comparison.check_read_back(
                    actual, exact, str(case), rounded_twice=case.global_scale is not None
                )


def reading_back(case: of.Case) -> Any:
    """The op that reads a case's format back, with what it takes beside data and scales."""
    if case.format.startswith("fp8"):
        return functools.partial(tilewright.dequantize_fp8_blockwise, block=BLOCK[case.format])
    op = functools.partial(
        getattr(tilewright, f"dequantize_{case.format.removesuffix('_e5m2')}"), layout=case.layout
    )
    return functools.partial(op, global_scale=case.global_scale) if case.format == "nvfp4" else op


def test_reading_back_leaves_masked_rows(kernel: KernelRecord) -> None:
    config = kernel.config
    if config["direction"] != "dequantize" or config["format"].startswith("fp8"):
        pytest.skip("it quantises, or its rows are like others'")
    name, dtype = config["format"], dtype_of(config["x"])
    value = smooth((3, 70, 64), "f32", 1)
    valid = torch.tensor([0, 70, 33], dtype=torch.int32, device=inputs.DEVICE)
    data, scales = reference.quantize(value, name)
    out = torch.full((3, 70, 64), 7.0, dtype=dtype, device=inputs.DEVICE)
    op = getattr(tilewright, f"dequantize_{name.removesuffix('_e5m2')}")
    op(data, scales, rows_valid=valid, out=out, tactic=kernel.name)
    rows = reference.valid_rows(valid, 70)
    assert bool((out[~rows] == 7).all())
    assert torch.equal(out[rows], reference.dequantize(data, scales, name).to(dtype)[rows])


def test_waits_for_the_kernel_before(kernel: KernelRecord) -> None:
    """Programmatic launch starts it early: nothing is read, or written, ahead of its time."""
    config = kernel.config
    shape = (2, 260, 1536)
    per_row = torch.exp2(torch.arange(2 * 260, device=inputs.DEVICE) % 7 + 5.0).view(2, 260)
    scales = (
        [torch.full((1,), 150.0, device=inputs.DEVICE), per_row] if config["format"] == "nvfp4" else [None]
    )
    for scale in scales:
        valid = torch.full(shape[:1], shape[1], dtype=torch.int32, device=inputs.DEVICE)
        if config["direction"] == "dequantize":
            reading_back_waits(kernel, smooth(shape, "f32", 7), scale, valid)
        else:
            quantizing_waits(kernel, shape, scale, valid)


def quantizing_waits(
    kernel: KernelRecord, shape: tuple[int, int, int], scale: torch.Tensor | None, valid: torch.Tensor
) -> None:
    config = kernel.config
    parts = 2 if config["fusion"] == "silu_mul" else 1
    value = smooth((*shape[:2], parts * shape[2]), config["x"], 7)
    weight = smooth(shape[2:], config["x"], 8) if config["fusion"] == "rmsnorm" else None
    case = of.Case(
        config["format"], value, of.layouts_of(config["format"])[0], scale, valid, config["fusion"], weight,
        exact=config["arithmetic"] == "exact",
    )  # fmt: skip
    run = of.Run(asked(kernel, case), kernel.name)

    def check(when: str) -> None:
        if is_exact(kernel):
            run.check_bits(when)
        else:
            assert max(run.shares_off()) <= max(FAST_SHARE, FUSED_SHARE), when

    operands = {"x": value, "rows_valid": valid, "weight": weight, "global_scale": scale}
    given = {name: each for name, each in operands.items() if each is not None}
    check_waits(given, {"data": run.data, "scales": run.scales}, run.run, check)


def reading_back_waits(
    kernel: KernelRecord, value: torch.Tensor, scale: torch.Tensor | None, valid: torch.Tensor
) -> None:
    config = kernel.config
    case = of.Case(config["format"], value, of.layouts_of(config["format"])[0], scale)
    data, scales = case.wanted()
    exact = case.read_back(data, scales)
    out = torch.full(exact.shape, math.nan, dtype=dtype_of(config["x"]), device=inputs.DEVICE)
    op = functools.partial(reading_back(case), data, scales, out=out, rows_valid=valid, tactic=kernel.name)

    def check(when: str) -> None:
        comparison.check_read_back(out, exact, f"{case} {when}", rounded_twice=scale is not None)

    operands = {"data": data, "scales": scales, "rows_valid": valid, "global_scale": scale}
    check_waits({name: each for name, each in operands.items() if each is not None}, {"x": out}, op, check)


def test_the_table_says_what_the_kernel_takes(kernel: KernelRecord) -> None:
    """Every problem that fits by the table is one that the kernel does not refuse."""
    config = kernel.config
    library = registry().library(kernel)
    interface = INTERFACE if config["direction"] == "quantize" else READING_BACK
    for layout in of.layouts_of(config["format"]):
        for m, k, groups in ((1, 16, 1), (129, 80, 1), (5, 4112, 3), (131072, 32768, 1)):
            problem = FAMILY.problem(
                m, k, groups, config["direction"], config["format"], config["x"], layout, config["fusion"],
                four_over_six=config.get("four_over_six", "none"), exact=config["arithmetic"] == "exact",
            )  # fmt: skip
            assert FAMILY.misfit(kernel, problem) is None
            for tactic in FAMILY.candidates(kernel, problem, H200):
                arguments = packed(interface, problem, tactic, 132)
                assert library.can_implement(kernel.name, arguments), str(problem)
