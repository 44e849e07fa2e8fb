"""From a spec's text to kernels: what is read, what multiplies out, and what each fault says."""

from __future__ import annotations

import pytest
import tiny_family
from hypothesis import given
from hypothesis import strategies as st
from tiny_specs import AREA, HEAD, NEAR, ROWS, faults, kernels, read

from tilewright.configurations.rule import OURS, rule
from tilewright.configurations.shapes import Cluster, Tile
from tilewright_generator import load, spec
from tilewright_generator.errors import Faults, InternalError
from tilewright_generator.expand import expand


def test_lists_multiply_out_in_the_order_of_the_fields() -> None:
    made = kernels(HEAD + "configs:\n  - fast: [true, false]\n    tile: [64x64x64, 128x64x64]\n")
    assert [(str(kernel.config.tile), kernel.config.fast) for kernel in made] == [
        ("64x64x64", True),
        ("64x64x64", False),
        ("128x64x64", True),
        ("128x64x64", False),
    ]
    assert made[0].config.cluster == Cluster(1, 1)
    assert str(made[0].group.position) == "specs/s.yaml:5:5"


def test_use_applies_defaults_in_order_under_the_group_and_over_the_spec() -> None:
    text = HEAD + (
        "stages: 2\n"
        "defaults:\n"
        "  a: {stages: 3, fast: true, tile: 64x64x64}\n"
        "  b: {stages: 4}\n"
        "configs:\n"
        "  - use: [a, b]\n"
        "    tile: 128x64x64\n"
    )
    (kernel,) = kernels(text)
    assert (kernel.config.stages, kernel.config.fast, kernel.config.tile) == (4, True, Tile(128, 64, 64))


def test_anchors_and_merge_keys_share_groups() -> None:
    text = HEAD + "configs:\n  - &one {tile: 64x64x64, stages: 3}\n  - {<<: *one, tile: 32x64x64}\n"
    assert [(str(k.config.tile), k.config.stages) for k in kernels(text)] == [
        ("64x64x64", 3),
        ("32x64x64", 3),
    ]


def test_a_product_leaves_out_what_rules_reject_and_counts_it() -> None:
    expansion, faults = read(
        HEAD + "configs:\n  - tile: [64x64x64, 256x64x64, 256x512x64]\n"
        "    dtype: [bf16, e4m3]\n    fast: [true, false]\n"
    )
    assert faults == []
    assert expansion is not None
    assert len(expansion.kernels) == 8
    assert expansion.rejections() == {"rows": 4}
    assert expansion.rejected[0].verdict.reason == "256 rows > 128"


def test_the_rule_that_rejects_most_is_named_first() -> None:
    expansion, _ = read(
        HEAD + "configs:\n  - tile: [128x512x64, 256x64x64, 256x32x64]\n    dtype: [bf16, e4m3]\n"
    )
    assert expansion is not None
    assert list(expansion.rejections().items()) == [("rows", 2), ("area", 1)]


def test_excludes_take_combinations_out_with_a_reason() -> None:
    text = HEAD + (
        "configs:\n"
        "  - tile: [64x64x64, 128x64x64]\n"
        "    fast: [true, false]\n"
        "    exclude:\n"
        "      - {tile: 64x64x64, fast: true, reason: too slow}\n"
        "      - {tile: [128x64x64], fast: [true], reason: too fast}\n"
    )
    expansion, faults = read(text)
    assert faults == []
    assert expansion is not None
    assert [kernel.config.fast for kernel in expansion.kernels] == [False, False]
    assert [each.exclude.reason for each in expansion.excluded] == ["too slow", "too fast"]


def test_defaults_that_no_group_uses_are_a_fault() -> None:
    text = HEAD + "defaults:\n  one: {fast: true}\n  two: {fast: false}\nconfigs:\n"
    assert faults(text + "  - {use: one, tile: 64x64x64}\n") == [
        "6:3: defaults: no group uses 'two'; remove it"
    ]
    wrong = faults(text + "  - {use: oen, tile: 64x64x64}\n")
    assert wrong == ["8:11: use: no defaults called 'oen' (there are: one, two); did you mean 'one'?"]
    only = HEAD + "defaults: {one: {fast: true}}\nconfigs:\n  - {use: oen, tile: 64x64x64}\n"
    assert faults(only) == ["6:11: use: no defaults called 'oen' (there are: one)"]


def test_a_stale_exclude_is_a_fault() -> None:
    text = HEAD + (
        "configs:\n"
        "  - tile: [64x64x64, 128x64x64]\n"
        "    fast: [true, false]\n"
        "    exclude:\n"
        "      - {fast: true, reason: one}\n"
        "      - {fast: true, tile: 64x64x64, reason: two}\n"
    )
    assert faults(text) == ["9:9: exclude: it matches nothing that is not excluded before; remove it"]


def test_a_name_made_twice_names_both_places() -> None:
    text = HEAD + "configs:\n  - tile: [64x64x64, 32x64x64]\n  - tile: [64x64x64, 128x64x64]\n"
    assert faults(text) == [
        "6:5: makes tiny_bf16_64x64x64_1x1 again; the group at specs/s.yaml:5:5 makes it already"
    ]


def test_a_name_made_by_many_is_told_once_with_their_number() -> None:
    (fault,) = faults(HEAD + "configs:\n  - {tile: 64x64x64, note: [one, two, three, four]}\n")
    assert "makes tiny_bf16_64x64x64_1x1 and 2 more again; this group makes it already" in fault


def test_different_configurations_of_one_name_say_in_what_they_differ() -> None:
    (fault,) = faults(HEAD + "configs:\n  - {tile: 64x64x64, note: [one, two]}\n")
    assert fault.endswith("this group makes it already, with note one / two, which the name does not show")


def test_a_rule_that_fails_is_our_fault_not_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    @rule(OURS, "tile dtype")
    def broken(config: object) -> str | None:
        raise ZeroDivisionError

    parsed = spec.parse(
        load.loads((HEAD + "configs:\n  - tile: 64x64x64\n").encode(), "s.yaml", Faults()),
        "s.yaml",
        Faults(),
    )
    assert parsed is not None
    family = tiny_family.FAMILY.__class__(
        **{name: getattr(parsed.family, name) for name in parsed.family.__slots__} | {"rules": (broken,)}
    )
    spoilt = spec.Spec(parsed.path, parsed.module, family, "", parsed.shared, parsed.groups)
    with pytest.raises(InternalError, match="the rule broken of tiny fails"):
        expand(spoilt, Faults())


def test_a_rule_states_itself_in_its_first_paragraph() -> None:
    assert tiny_family.rows.statement == "A tile has at most 128 rows, of e4m3 256."


sizes = st.lists(st.integers(1, 40).map(lambda n: n * 8), min_size=1, max_size=4, unique=True)


@given(sizes, sizes, st.lists(st.booleans(), min_size=1, max_size=2, unique=True))
def test_nothing_is_lost_in_a_product(rows: list[int], columns: list[int], fast: list[bool]) -> None:
    """Every combination is a kernel or is accounted for."""
    tiles = ", ".join(f"{m}x{n}x64" for m in rows for n in columns)
    flags = ", ".join(str(flag).lower() for flag in fast)
    expansion, faults = read(HEAD + f"configs:\n  - tile: [{tiles}]\n    fast: [{flags}]\n")
    assert expansion is not None
    total = len(rows) * len(columns) * len(fast)
    assert len(expansion.kernels) + len(expansion.rejected) == total
    alive = {tile for tile in tiles.split(", ") if tile in {str(k.config.tile) for k in expansion.kernels}}
    assert bool(faults) == (len(alive) < len(rows) * len(columns))
    assert all(
        tiny_family.rows(k.config) is None and tiny_family.area(k.config) is None for k in expansion.kernels
    )


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        (
            "  - tile: [64x64x64, 256x64x64, 256x512x64]\n",
            [
                f"5:22: tile: 256x64x64 makes no kernel: rows: {ROWS}{NEAR} 128x64x64",
                f"5:33: tile: 256x512x64 makes no kernel: rows: {ROWS}{NEAR} 64x512x64",
            ],
        ),
        (
            "  - {tile: [64x64x64, 64x1024x64], dtype: [bf16, f16], fast: [true, false]}\n",
            [
                f"5:23: tile: 64x1024x64 makes no kernel: area rejects 4; for example {AREA}{NEAR} "
                "32x1024x64 or 64x512x64"
            ],
        ),
        ("  - {tile: [64x64x64, 256x64x64], dtype: [bf16, e4m3]}\n", []),  # each value makes one
        # A value that several groups share need make a kernel in one of them.
        (
            "  - &a {tile: 64x64x64, dtype: [bf16, e4m3]}\n  - {<<: *a, tile: 256x64x64}\n",
            [],
        ),
        (
            "  - &a {tile: [64x64x64, 256x64x64], dtype: bf16}\n  - {<<: *a, fast: true, dtype: f16}\n",
            [f"5:26: tile: 256x64x64 makes no kernel: rows rejects 2; for example {ROWS}{NEAR} 128x64x64"],
        ),
        # Also one that stands alone there, by an alias of the list's item.
        ("  - tile: [64x64x64, &t 256x64x64]\n  - {tile: *t, dtype: e4m3}\n", []),
        # What excludes take is said by them, with a reason.
        ("  - {tile: [64x64x64, 32x64x64], exclude: {tile: 32x64x64, reason: slow}}\n", []),
        # Of a group of which nothing is left, that is said.
        (
            "  - {tile: [256x64x64, 512x64x64]}\n",
            [f"5:5: nothing is left of this group's 2 combinations: rows rejects 2; for example {ROWS}"],
        ),
    ],
)
def test_a_value_of_a_list_that_makes_no_kernel_is_a_fault_where_it_stands(
    groups: str, expected: list[str]
) -> None:
    assert faults(f"{HEAD}configs:\n{groups}") == expected


def test_a_value_of_the_top_or_of_defaults_is_a_fault_there() -> None:
    text = "family: tiny\narch: sm_90a\ndtype: [bf16, f16]\ndefaults: {tall: {tile: [64x64x64, 256x64x64]}}\n"
    assert faults(text + "configs:\n  - use: tall\n  - {use: tall, fast: true}\n") == [
        f"4:36: tile: 256x64x64 makes no kernel: rows rejects 4; for example {ROWS}{NEAR} 128x64x64"
    ]
    assert faults(text + "configs:\n  - use: tall\n  - {use: tall, fast: true, dtype: e4m3}\n") == []


WIDE = (
    HEAD + "configs:\n  - tile: [64x64x64, 128x64x64]\n"
    "    stages: [2, 3, 4, 5, 6, 7, 8]\n    fast: [true, false]\n"
)


def test_a_group_that_multiplies_out_beyond_the_limit_is_a_fault_with_its_number() -> None:
    limited = WIDE.replace("configs:", "max_combinations: 27\nconfigs:")
    assert faults(limited) == [
        "6:5: this group multiplies out to 28 combinations (2 of tile x 2 of fast x 7 of stages), more than "
        "the 27 that this spec allows; split it, or say `max_combinations: 28` at the top of the spec"
    ]
    assert len(kernels(limited.replace("27", "28"))) == 28


def test_ten_thousand_combinations_are_the_limit_unless_the_spec_says_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And what is beyond it is not multiplied out: the rules are not asked once."""
    notes = [f"n{number}" for number in range(5_000)]
    body = f"configs:\n  - tile: 64x64x64\n    fast: [true, false]\n    note: [{', '.join(notes)}]\n"
    monkeypatch.setattr("tilewright_generator.expand.verdicts", lambda *_, **__: [])
    expansion, _ = read(HEAD + body)
    assert expansion is not None
    assert len(expansion.kernels) == 10_000
    monkeypatch.setattr("tilewright_generator.expand.verdicts", lambda *_, **__: 1 // 0)
    beyond = body.replace("n0,", "n0, other,")
    (fault,) = faults(HEAD + beyond)
    assert "10,002 combinations (2 of fast x 5001 of note), more than 10,000; split it" in fault


@pytest.mark.parametrize("given", ["0", "-1", "true", "many", "'5'", "[5]", ""])
def test_the_limit_is_a_whole_number(given: str) -> None:
    (fault,) = faults(f"{HEAD}max_combinations: {given}\nconfigs:\n  - tile: 64x64x64\n")
    assert fault.split(": ", 1)[1].startswith("max_combinations: write a whole number above 0, not ")


def test_a_fragment_that_uses_others_is_the_only_fault() -> None:
    text = HEAD + (
        "defaults:\n  b: {use: [a, c], stages: 3}\n  a: {fast: true}\n  c: {tile: 64x64x64}\n"
        "configs:\n  - use: b\n"
        "    tile: 64x64x64\n"
    )
    assert faults(text) == ["5:7: defaults: b: a fragment cannot use others; a group can: `use: [a, c, b]`"]
