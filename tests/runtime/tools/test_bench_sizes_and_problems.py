"""What `tilewright bench compare` compares on: sizes and problems, from words and files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tilewright.errors import ArgumentError
from tilewright.tools.benchmarking import problems, sizes
from tilewright.tools.benchmarking.sizes import Size


def numbers(size_list: Iterable[Size]) -> list[tuple[int, ...]]:
    return [size.numbers for size in size_list]


def test_the_lists_are_those_of_pull_request_2888() -> None:
    assert numbers(sizes.LISTS["small"]) == [(m, 4096, 7168) for m in (1, 4, 8, 16, 32, 64)]
    assert numbers(sizes.LISTS["medium"]) == [
        (128, 4096, 7168), (128, 7168, 2048), (256, 4096, 7168), (256, 14336, 4096), (512, 14336, 4096),
    ]  # fmt: skip
    assert numbers(sizes.LISTS["large"]) == [
        (1024, 4096, 7168), (2048, 4096, 7168), (4096, 4096, 7168), (4096, 4096, 4096),
    ]  # fmt: skip
    assert len(sizes.LISTS["all"]) == 15


def test_lists_and_given_sizes_go_together_each_once() -> None:
    assert sizes.chosen(None, []) == list(sizes.LISTS["all"])
    assert numbers(sizes.chosen(None, ["1x2x3", "4x5x6", "1x2x3"])) == [(1, 2, 3), (4, 5, 6)]
    assert sizes.chosen("large", ["1x2"]) == [*sizes.LISTS["large"], Size((1, 2))]
    assert str(Size((32, 5120, 25600))) == "32x5120x25600"
    assert str(Size((32, 5), ("k", "m"))) == "k=32, m=5"
    both = problems.make("gemm", {}, sizes.chosen("large", ["1x2x8", "4096x4096x4096"]))
    assert len(both) == len(sizes.LISTS["large"]) + 1


@pytest.mark.parametrize(
    "text", ["", "1", "1x", "x2", "1x2x3x4x5x6x7x8x9", "0x2x3", "-1x2x3", "1X2x3", "axbxc", "01x2x3"]
)
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ArgumentError, match=": expected MxNxK"):
        sizes.parse(text)


def test_extents_that_kernels_cannot_count() -> None:
    with pytest.raises(ArgumentError, match="1073741824 at most"):
        sizes.parse(f"1x1x{2**30 + 1}")


def test_a_yaml_file(tmp_path: Path) -> None:
    path = tmp_path / "sizes.yaml"
    path.write_text(
        "- 1x2x3\n- {m: [4, 5], n: 6, k: [7, 8]}\n- {m: 1, n: 2, k: 3}\n- {k: 2, m: [1, 3]}\n- 5x6\n"
    )
    actual = sizes.chosen(str(path), ["9x9x9"])
    assert numbers(actual) == [
        (1, 2, 3), (4, 6, 7), (4, 6, 8), (5, 6, 7), (5, 6, 8), (1, 2, 3), (2, 1), (2, 3), (5, 6), (9, 9, 9),
    ]  # fmt: skip
    assert [size.names for size in actual[3:]] == [("m", "n", "k")] * 3 + [("k", "m")] * 2 + [()] * 2


def test_the_shapes_of_the_benchmarks(tmp_path: Path) -> None:
    """Every layer at every m, then the squares; the odd ones are no part of it."""
    path = tmp_path / "sizes.yaml"
    layers = "m: [1, 2]\nlayers:\n  - {name: x, n: 3, k: 4}\n"
    path.write_text(f"{layers}squares: [5]\nodd:\n  - {{m: 6, n: 7, k: 8}}\n")
    assert numbers(sizes.read(path)) == [(1, 3, 4), (2, 3, 4), (5, 5, 5)]
    shapes = Path(__file__).parents[3] / "benchmarks" / "shapes" / "gemm.yaml"
    actual = sizes.read(shapes)
    assert len(actual) == 12 * 12 + 6
    assert len(sizes.chosen(str(shapes), [])) == len(actual) - 1, "a layer at an m is one of the squares"
    assert {(1, 6144, 4096), (8192, 7168, 2048), (16384, 16384, 16384)} <= set(numbers(actual))
    quantised = sizes.read(shapes.with_name("quantize.yaml"))
    assert len(quantised) == 11 * 9
    assert {Size((128, 512), ("m", "k")), Size((131072, 32768), ("m", "k"))} <= set(quantised)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("m: 1", "is not a list of MxNxK"),
        ("{}", "is not a list of MxNxK"),
        ("{m: [1], layers: [{n: 2}]}", "is not a list of MxNxK"),
        ("{m: [0], layers: [{n: 2, k: 3}]}", "something else than positive numbers"),
        ("[]", "is not a list of MxNxK"),
        ("- [1, 2, 3]", "is no size"),
        ("- {m: true, n: 2, k: 3}", "something else than positive numbers"),
        ("- {m: 1, n: 0, k: 3}", "something else than positive numbers"),
        ("- {m: 1, n: 2.5, k: 3}", "something else than positive numbers"),
        ("- 1x", ": expected MxNxK"),
        ("{m: [1], k: [0]}", "something else than positive numbers"),
        ("- {m: [1", "not YAML"),
    ],
)
def test_files_that_hold_no_sizes(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "sizes.yaml"
    path.write_text(text)
    with pytest.raises(ArgumentError, match=message):
        sizes.read(path)


def test_a_list_that_there_is_not() -> None:
    with pytest.raises(ArgumentError, match="tiny: expected one of small, medium, large, all, or a file"):
        sizes.chosen("tiny", [])


@pytest.mark.parametrize("text", ["{m: [1]}", "- {m: 1, n: 2}", "- {m: 1, n: 2, k: 3, kk: 4}", "- 1x2x3x4"])
@pytest.mark.parametrize("family", ["gemm", "quantize"])
def test_sizes_with_extents_that_a_family_lacks_or_misses(tmp_path: Path, text: str, family: str) -> None:
    path = tmp_path / "sizes.yaml"
    path.write_text(text)
    size_text = {"gemm": "MxNxK", "quantize": "MxK"}[family]
    with pytest.raises(ArgumentError, match=f"--size: .*: expected {size_text} for {family}"):
        problems.make(family, {}, sizes.read(path))


def test_sizes_of_a_file_may_name_extents_that_have_a_default(tmp_path: Path) -> None:
    path = tmp_path / "sizes.yaml"
    path.write_text("- {batch: [2, 3], m: 1, n: 2, k: 3}")
    assert [problem.batch for problem in problems.make("gemm", {}, sizes.read(path))] == [2, 3]
    (problem,) = problems.make("gemm", {"batch": 4}, [sizes.parse("1x2x3")])
    assert problem.batch == 4


def make(family: str, size: str = "32x64x128", **words: Any) -> Any:
    (problem,) = problems.make(family, words, [sizes.parse(size)])
    return problem


def words(types: str, out: str | None) -> dict[str, str]:
    return {name: word for name, word in (("types", types), ("out_dtype", out)) if word}


@pytest.mark.parametrize(
    ("given", "out", "types"),
    [
        ("", None, ("bf16", "bf16", "bf16")),
        ("fp8", None, ("e4m3", "e4m3", "bf16")),
        ("e5m2", "f16", ("e5m2", "e4m3", "f16")),
        ("s8", None, ("s8", "s8", "s32")),
        ("bf16", "f32", ("bf16", "bf16", "f32")),
    ],
)
def test_types_of_gemm(given: str, out: str | None, types: tuple[str, str, str]) -> None:
    problem = make("gemm", **words(given, out))
    assert (problem.a, problem.b, problem.d) == types
    assert (problem.m, problem.n, problem.k, problem.layout) == (32, 64, 128, "tn")


@pytest.mark.parametrize(
    ("given", "out", "types"),
    [
        ("", None, ("nvfp4", "nvfp4", "bf16")),
        ("mxfp8xmxfp4", "f16", ("mxfp8", "mxfp4", "f16")),
        ("mxfp4xmxfp8_e5m2", None, ("mxfp4", "mxfp8_e5m2", "bf16")),
        ("mxfp8_e5m2xmxfp8", None, ("mxfp8_e5m2", "mxfp8", "bf16")),
        ("mxfp8_e5m2", "nvfp4", ("mxfp8_e5m2", "mxfp8_e5m2", "nvfp4")),
    ],
)
def test_formats_of_block_scaled_problems(given: str, out: str | None, types: tuple[str, str, str]) -> None:
    problem = make("blockscaled_gemm", **words(given, out))
    assert (problem.a, problem.b, problem.d) == types


@pytest.mark.parametrize(
    ("family", "size", "fields", "message"),
    [
        ("gemm", "1x8x16", {"types": "nvfp4"}, "--dtype: nvfp4: expected one of bf16"),
        ("gemm", "1x8x16", {"out_dtype": "s32"}, "--out-dtype: s32: expected one of bf16, f32 for bf16"),
        (
            "gemm",
            "1x8x16",
            {"fast_accum": True},
            "--fast-accum: not supported for bf16: only FP8 products have fast accumulation",
        ),
        ("blockscaled_gemm", "1x8x16", {"types": "bf16"}, "--formats: bf16: expected one or two of nvfp4"),
        ("blockscaled_gemm", "1x8x16", {"types": "nvfp4xmxfp4"}, "nvfp4 has blocks of 16 and mxfp4 of 32"),
        ("blockscaled_gemm", "1x8x16", {"out_dtype": "s32"}, "one of bf16, f16, f32, nvfp4, mxfp8"),
        ("blockscaled_gemm", "1x8x16", {"layout": "nt"}, "--layout: nt: expected tn"),
        (
            "blockscaled_gemm",
            "1x8x16",
            {"fast_accum": True},
            "--fast-accum: blockscaled_gemm has none",
        ),
        (
            "blockscaled_gemm",
            "1x8x15",
            {"types": "mxfp8xmxfp4"},
            "--size: 1x8x15: k 15: expected a multiple of 2",
        ),
        ("blockscaled_gemm", "1x16", {}, "1x16: expected MxNxK"),
        ("gemm", "1x16", {}, "1x16: expected MxNxK"),
        ("gemm", "1x8x16", {"x": "bf16"}, "--x: gemm has none; it has --dtype, --out-dtype"),
        ("gemm", "1x8x16", {"layout": "128x4"}, "--layout: 128x4: expected one of tn"),
        ("quantize", "1x16", {"types": "nvfp5"}, "--formats: nvfp5: expected one of nvfp4, mxfp4"),
        ("quantize", "1x16", {"x": "e5m2"}, "--x: e5m2: expected one of bf16"),
        (
            "quantize",
            "1x32",
            {"types": "mxfp4", "x": "e4m3"},
            "--x: e4m3: expected .*f32 for mxfp4",
        ),
        (
            "quantize",
            "1x16",
            {"layout": "m_major"},
            "--layout: m_major: expected one of 128x4, 8x4, linear",
        ),
        ("quantize", "1x16", {"out_dtype": "bf16"}, "--out-dtype: quantize has none"),
        ("quantize", "1x24", {}, "--size: 1x24: k 24: expected a multiple of 16"),
    ],
)
def test_words_that_a_family_has_not(family: str, size: str, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        make(family, size, **fields)


def test_mxfp8_shares_no_bytes() -> None:
    assert make("blockscaled_gemm", "1x8x15", types="mxfp8").k == 15


def test_what_is_quantised() -> None:
    """A[m,k] of a product, each once; with a global scale where the format has one."""
    actual = problems.make("quantize", {"x": "e4m3"}, list(map(sizes.parse, ("32x64", "32x8x64", "1x64"))))
    assert [
        (problem.m, problem.k, problem.format, problem.x, problem.layout, problem.global_scale)
        for problem in actual
    ] == [
        (32, 64, "nvfp4", "e4m3", "128x4", "tensor"),
        (1, 64, "nvfp4", "e4m3", "128x4", "tensor"),
    ]
    blockwise = make("quantize", "32x64", types="fp8_1x128")
    assert (blockwise.layout, blockwise.global_scale) == ("m_major", "none")
