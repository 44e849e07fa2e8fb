"""Stacks of layers: their models, their record, and what is multiplied with what."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from benchmarks.compare import packed_stacks  # noqa: E402
from benchmarks.compare import stacks as benchmark  # noqa: E402
from benchmarks.lib import stack_layers, stacks  # noqa: E402
from benchmarks.lib.stack_layers import Layer, Product  # noqa: E402

LAYER = Layer(Product(96, 64), Product(64, 32), Product(256, 64), Product(64, 128))
HEAD = {"command": "python -m benchmarks.compare.stacks", "gpu": "NVIDIA H200", "driver": "1", "torch": "2"}


@pytest.mark.parametrize("dtype", stack_layers.DTYPES)
def test_four_models_of_each_type_have_layers_that_follow_one_another(dtype: str) -> None:
    models = stack_layers.models(dtype)
    assert len(models) >= 4
    for layer in models.values():
        assert all(extent % 64 == 0 for product in layer for extent in product)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"out": Product(128, 32)}, "expected the same of out.n"),
        ({"out": Product(64, 128)}, "out reads 128 columns, qkv writes 96"),
        ({"gate_up": Product(128, 64)}, "expected twice the 128"),
    ],
)
def test_a_layer_that_does_not_fit_is_refused(
    tmp_path: Path, changed: dict[str, Product], reason: str
) -> None:
    layer = LAYER._replace(**changed)
    assert reason in layer.fault()
    products = ", ".join(f"{role}: [{p.n}, {p.k}]" for role, p in layer._asdict().items())
    path = tmp_path / "stacks.yaml"
    path.write_text(f"bf16:\n  tiny: {{{products}}}\n")
    with pytest.raises(ValueError, match="bf16, tiny"):
        stack_layers.models("bf16", path)


def test_random_rows_are_different_and_no_powers_of_two() -> None:
    rows = stack_layers.random_rows(10, seed=1)
    assert rows == stack_layers.random_rows(10, seed=1) != stack_layers.random_rows(10, seed=2)
    assert len(set(rows)) == 10
    assert all(1 < m <= 4096 and m & (m - 1) for m in rows)


def test_cases_are_all_models_with_all_rows() -> None:
    cases = list(stack_layers.cases(["fp8", "bf16"], [], [1, 7]))
    assert len(cases) == 2 * sum(len(stack_layers.models(dtype)) for dtype in ("fp8", "bf16"))
    assert {model for _, model, _, _ in stack_layers.cases(["fp8"], ["qwen3-8b"], [1])} == {"qwen3-8b"}


@pytest.fixture
def stack(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A maker of BF16 stacks on the CPU."""

    def on_cpu(generator: torch.Generator, *shape: int) -> torch.Tensor:
        return torch.randn(shape).bfloat16()

    def make(variant: str, count: int = 2) -> stacks.Stack:
        weights = stacks.random_weights(stacks.READS["bf16"], LAYER, count)
        return stacks.Stack("bf16", LAYER, 5, weights, variant)

    monkeypatch.setattr(stacks, "random", on_cpu)
    monkeypatch.setattr(stacks.torch, "Generator", lambda device: torch.random.default_generator)
    ones = torch.ones
    monkeypatch.setattr(stacks.torch, "ones", lambda *shape, dtype, device: ones(*shape, dtype=dtype))
    return make


@pytest.mark.parametrize("variant", stacks.VARIANTS)
def test_each_product_of_a_layer_has_weights_of_its_own(stack: Any, variant: str) -> None:
    multiplied = []

    def multiply(a: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        multiplied.append((tuple(weight.shape), weight.data_ptr(), a.shape[1]))
        return torch.mm(a, weight.mT)

    result = stack(variant).run(multiply)
    assert [Product(*shape) for shape, _, _ in multiplied] == [*LAYER, *LAYER]
    assert len({address for _, address, _ in multiplied}) == 8
    assert [columns for _, _, columns in multiplied] == [product.k for product in LAYER] * 2
    assert result.shape == (5, LAYER.width)
    assert torch.isfinite(result).all()


def test_a_product_reads_what_the_one_before_wrote(stack: Any) -> None:
    inputs = []

    def multiply(a: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        inputs.append(a.clone())
        return torch.full((5, weight.shape[0]), float(len(inputs)))

    stack("products").run(multiply)
    assert [float(a[0, 0]) for a in inputs[1:]] == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]


def plain(a: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.mm(a, weight.mT)


def fused(a: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    gate, up = plain(a, weight).chunk(2, dim=-1)
    return torch.nn.functional.silu(gate) * up


def test_a_fused_product_takes_the_place_of_a_product_and_an_activation(stack: Any) -> None:
    layers, gated = stack("model"), []

    def noted(a: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        gated.append(tuple(weight.shape))
        return fused(a, weight)

    assert torch.equal(layers.run(plain, noted), layers.run(plain))
    assert gated == [LAYER.gate_up] * 2


def test_as_engines_run_them(stack: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each norm adds first, and `out` multiplies a contiguous tensor that nothing copied."""

    def add_rms_norm(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor) -> Any:
        return x + residual, torch.nn.functional.rms_norm(x + residual, weight.shape, weight)

    triton = SimpleNamespace(add_rms_norm=add_rms_norm)
    monkeypatch.setitem(sys.modules, "benchmarks.lib.fused_norm", triton)
    layers, read = stack("model", count=1), []

    def multiply(a: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        read.append((a.shape[1], a.is_contiguous()))
        return plain(a, weight)

    result = layers.run_as_engines_do(multiply)
    assert read == [(product.k, True) for product in LAYER]
    (weights,) = layers._layers
    middle, normed = add_rms_norm(plain(layers._attended, weights.out), layers._x, weights.norms[1])
    expected = middle + plain(fused(normed, weights.gate_up), weights.down)
    torch.testing.assert_close(result, expected)
    torch.testing.assert_close(layers.run_as_engines_do(plain, fused), expected)


def test_a_page_of_packed_stacks_says_both_of_our_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_stacks.machine, "describe", lambda name: {name: "1"})
    row = packed_stacks.row_of("mxfp4", "a", 1, {"ours": 10.0, "unfused": 10.4, "humming": 13.0})
    text = packed_stacks.page(HEAD | {"date": "2026-11-30"}, [row], as_engines=True)
    assert "| mxfp4 | a | 1 | 10.000 | 13.000 | 1.300 | 10.400 | 1.250 |" in text
    assert "as serving engines run them" in text.splitlines()[0]
    assert packed_stacks.AS_ENGINES in text


def test_each_product_of_packed_weights_has_a_weight_for_each_side(
    stack: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    layers, multiplied = iter([*LAYER, *LAYER]), []
    monkeypatch.setattr(packed_stacks, "humming_layer", lambda n, k, name, wide: (n, k, name, wide.shape))

    def multiply(a: torch.Tensor, weight: packed_stacks.Packed) -> torch.Tensor:
        product = next(layers)
        assert weight.humming == (product.n, product.k, "int4_g32", torch.Size(product))
        multiplied.append(weight.ours)
        return torch.full((len(a), product.n), 1.0, dtype=torch.bfloat16)

    assert packed_stacks.stack("int4_g32", LAYER, 5, 2).run(multiply).shape == (5, LAYER.width)
    assert len(set(multiplied)) == 8


def test_a_product_that_differs_is_found(stack: Any) -> None:
    sides = {"peer": lambda a, b: torch.mm(a, b.mT), "ours": lambda a, b: torch.mm(a, b.mT)}
    stack("model").run(stacks.compared(sides))
    sides["ours"] = lambda a, b: (
        torch.mm(a, b.mT) * (1.02 if len(b) == LAYER.down.n and a.shape[1] == 128 else 1)
    )
    with pytest.raises(ValueError, match=r"\[5, 64\] differs by 2"):
        stack("model").run(stacks.compared(sides))
    sides["ours"] = lambda a, b: torch.full((5, len(b)), float("nan"))
    with pytest.raises(ValueError, match="differs by nan"):
        stack("model").run(stacks.compared(sides))


def test_of_several_sides_of_ours_each_is_compared(stack: Any) -> None:
    right = lambda a, b: torch.mm(a, b.mT)  # noqa: E731
    sides = {"peer": right, "ours": right, "constant": right}
    stack("model").run(stacks.compared(sides))
    sides["constant"] = lambda a, b: torch.mm(a, b.mT) * 1.02
    with pytest.raises(ValueError, match="differs by 2"):
        stack("model").run(stacks.compared(sides))


def test_a_record_says_what_constant_weights_gain() -> None:
    times = {"peer": 12.0, "ours": 10.0, "constant": 8.0}
    row = benchmark.row_of("fp8", "a", 1, "model", times)
    assert (row["us"], row["constant_us"], row["gain"]) == (10.0, 8.0, 1.25)
    other = benchmark.row_of("bf16", "a", 1, "model", {"peer": 12.0, "ours": 10.0})
    assert "gain" not in other
    text = benchmark.page(HEAD, [row, other], [])
    assert "| fp8 | model | a | 1 | 10.000 | 12.000 | 1.200 | 8.000 | 1.250 |" in text
    assert "| bf16 | model | a | 1 | 10.000 | 12.000 | 1.200 |  |  |" in text


def test_a_record_says_its_measure_and_its_ratios() -> None:
    rows = [
        benchmark.row_of("fp8", "a", m, "model", {"peer": peer, "ours": 10.0})
        for m, peer in ((1, 12.0), (7, 9.0))
    ]
    assert [row["ratio"] for row in rows] == [1.2, 0.9]
    assert {row["measure"] for row in rows} == {"stack"}
    assert {row["peer"] for row in rows} == {"DeepGEMM"}
    page = benchmark.page(HEAD, rows, ["b: not built"])
    assert "| a | 1.200 | 0.900 |" in page
    assert "| fp8 | model | 2 | 1.039 | 0.900 | 0.500 | 0.500 |" in page
    assert "- b: not built" in page


def test_arguments() -> None:
    given = benchmark.parsed(["--dtype", "fp8", "--m", "1", "--random-m", "3", "--part", "2/4"])
    assert (given.dtype, given.m, given.random_m, given.part) == (["fp8"], [1], 3, (2, 4))
    assert benchmark.parsed([]).m == [1, 7, 48, 128, 500, 1900]
