"""What a bundle's plan says of problems and of ranges of values, whatever was chosen."""

from __future__ import annotations

from dataclasses import replace

from small_bundle import WORDS

from tilewright.architectures.device import H200
from tilewright.base import paths
from tilewright.libraries.registry import Registry
from tilewright.models.product import Listing, Product
from tilewright.tools.bundling.closure import Chosen, Setting
from tilewright.tools.bundling.planning import Plan, Planned, distinct, sketch

WIDE = "gemm_sm90_bf16_bf16_f32_bf16_tn_128x128x64_lean_coop"
NARROW = "gemm_sm90_bf16_bf16_f32_bf16_tn_64x40x128_lean_coop"
UP = Product.of_words("up", "tilewright.gemm", "gemm", WORDS, range(1, 13), count=2)


def test_a_range_ends_where_the_tactic_changes() -> None:
    """Whatever the source of a choice is."""
    choices = (
        Chosen(1, f"{NARROW}@swizzle=4", "tuned"), Chosen(3, f"{NARROW}@swizzle=4", "neighbour"),
        Chosen(5, WIDE, "model"), Chosen(8, NARROW, "model"), Chosen(9, f"{NARROW}@swizzle=4", "tuned"),
    )  # fmt: skip
    plan = Plan("a model", Setting((), H200, batch_invariant=False), (Planned((UP,), choices),), ())
    manifest = plan.manifest(Registry())
    assert manifest.tactics == (WIDE, NARROW, f"{NARROW}@swizzle=4")
    assert [*manifest.kernels] == [WIDE, NARROW]
    (entry,) = manifest.entries
    assert entry.choices == ((1, 2), (5, 0), (8, 1), (9, 2))
    tactics = [manifest.tactics[entry.number(value)] for value in (1, 4, 5, 7, 8, 9, 12)]
    assert tactics == [choices[index].tactic for index in (0, 0, 2, 2, 3, 4, 4)]


def test_products_are_one_problem_only_if_all_their_values_are_equal() -> None:
    gate = replace(UP, layer="gate", count=1)
    others = [replace(UP, layer=str(values), values=values) for values in (range(1, 14), range(4, 13))]
    groups = distinct([UP, *others, gate])
    layers = [[product.layer for product in group] for group in groups]
    assert layers == [["up", "gate"], ["range(1, 14)"], ["range(4, 13)"]]
    assert Planned(groups[0], ()).count == 3
    assert Planned(groups[0], ()).layers == ("up", "gate")


def test_a_sketch_asks_about_the_largest_value_too() -> None:
    words = WORDS | {"n": 4096, "k": 4096}  # one row and 4,096 rows run different kernels
    many = Product.of_words("up", "tilewright.gemm", "gemm", words, range(1, 4097))
    setting = Setting((paths.shipped_generated_dir(),), H200, batch_invariant=False)
    (planned,) = sketch(Listing("a model", [many]), setting, {1, 5000}).problems
    assert [chosen.first for chosen in planned.choices] == [1, 4096]
