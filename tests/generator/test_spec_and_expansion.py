"""From a spec's text to kernels: what is read, what multiplies out, and what each fault says."""

from __future__ import annotations

import pytest
import tiny_family
from hypothesis import given
from hypothesis import strategies as st

from tilewright.configurations.rule import OURS, rule
from tilewright.configurations.shapes import Cluster, Tile
from tilewright.declarations import catalog
from tilewright_generator import load, names, spec
from tilewright_generator.errors import Fault, Faults, InternalError, SpecError
from tilewright_generator.expand import Expansion, Kernel, expand

ROWS = "256 rows > 128 (limit: the hardware's)"
NEAR = "; legal nearby: tile"
AREA = "65536 elements > 32768 (limit: ours)"
HEAD = "family: tiny\narch: sm_90a\ndtype: bf16\n"


def read(text: str) -> tuple[Expansion | None, list[Fault]]:
    faults = Faults()
    parsed = spec.parse(load.loads(text.encode(), "specs/s.yaml", faults), "specs/s.yaml", faults)
    expansion = expand(parsed, faults) if parsed else None
    if expansion:
        names.check([expansion], faults)
    try:
        faults.raise_if_any()
    except SpecError as error:
        return expansion, error.faults
    return expansion, []


def kernels(text: str) -> tuple[Kernel, ...]:
    expansion, faults = read(text)
    assert faults == []
    assert expansion is not None
    return expansion.kernels


def faults(text: str) -> list[str]:
    """Positions without the file, and messages."""
    return [str(problem).removeprefix("specs/s.yaml:") for problem in read(text)[1]]


def test_where_yaml_is_broken_nothing_is_missing() -> None:
    whole = "  - {tile: 64x64x64}\n"
    indented = "  - fast: true\n   tile: 64x64x64\n    stages: 2\n"
    told = "6:4: this line is indented as no line above it is"
    assert faults(HEAD + "configs:\n" + indented + whole) == [told]
    assert faults(HEAD + "configs:\n" + indented) == [told]
    missing = "5:5: the field tile (e.g. 128x256x64) is missing"
    assert faults(HEAD + "configs:\n  - {fast: true}\n" + indented) == [missing, told.replace("6:", "7:")]
    assert faults(HEAD + "configs:\n  - fast: true\n    note: x\n  - fast: [true\n") == [
        missing,
        "7:11: YAML: while parsing a flow sequence, expected ',' or ']', but got the end of the file",
    ]


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


def test_an_explicit_configuration_that_rules_reject_is_a_fault_for_each_rule() -> None:
    assert faults(HEAD + "configs:\n  - tile: 256x512x64\n") == [
        "5:11: this configuration is not legal: area: 131072 elements > 32768 (limit: ours)",
        f"5:11: this configuration is not legal: rows: {ROWS}{NEAR} 64x512x64, or dtype e4m3",
    ]


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


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("  - tile: 64x64\n", "5:11: tile: '64x64' is not a tile; write MxNxK"),
        ("  - tile: [64x64x64, 64x64x64]\n", "5:22: tile: 64x64x64 stands here twice; it is on line 5 too"),
        ("  - tile: []\n", "5:11: tile: the list is empty"),
        ("  - tile:\n", "5:10: tile: write a value, not nothing"),
        ("  - tile: [[64x64x64]]\n", "5:12: tile: write a value, not a list"),
        ("  - tile: {m: 1}\n", "5:11: tile: write a value, not a mapping"),
        ("  - {tile: 64x64x64, fast: 1}\n", "5:28: fast: 1 should be one of true, false"),
        (
            "  - {tile: 64x64x64, fast: 'true'}\n",
            "5:28: fast: 'true' is text: write true without quotes",
        ),
        (
            "  - {tile: 64x64x64, dtype: bf61}\n",
            "5:29: dtype: 'bf61' should be one of bf16, f16, e4m3; did you mean 'bf16'?",
        ),
        ("  - {tile: 64x64x64, dtype: 16}\n", "5:29: dtype: 16 should be one of bf16, f16, e4m3"),
        ("  - {tile: 64x64x64, stages: 1}\n", "5:30: stages: 1 should be auto or greater than or equal to 2"),
        (
            "  - {tile: 64x64x64, stages: auot}\n",
            "5:30: stages: 'auot' should be auto or a valid integer",
        ),
        ("  - {tile: 64x64x64, note: 1.0}\n", '5:28: note: 1.0 is not text: quote it, "1.0"'),
        ("  - {fast: true}\n", "5:5: the field tile (e.g. 128x256x64) is missing"),
        ("  - {tiel: 64x64x64}\n", "5:6: tiny has no field 'tiel'; did you mean 'tile'?"),
        ("  - {tile: 64x64x64, use: wyde}\n", "5:27: use: no defaults called 'wyde' (there are: none)"),
        (
            "  - {tile: 64x64x64, dtype: E4M3}\n",
            "5:29: dtype: 'E4M3' should be one of bf16, f16, e4m3; did you mean 'e4m3'?",
        ),
        (
            "  - tile:64x64x64\n",
            "5:5: a group of configs: write a mapping, not 'tile:64x64x64'; a space",
        ),
        ("  - {tile:64x64x64}\n", "5:6: tiny has no field 'tile:64x64x64'; a space is missing after 'tile:'"),
        ("  - {tile: 64x64x64, use: 3}\n", "5:27: use: write text, not 3"),
        ("  - 64x64x64\n", "5:5: a group of configs: write a mapping, not '64x64x64'"),
        ("  - {tile: 64x64x64, exclude: {tile: 64x64x64}}\n", "5:31: exclude: the 'reason' is missing"),
        ("  - {tile: 64x64x64, exclude: {reason: x}}\n", "5:31: exclude: say which values of which fields"),
        (
            "  - {tile: [64x64x64, 32x32x32], exclude: {tile: 64x64x65, reason: x}}\n",
            "5:50: exclude: this group has no tile 64x64x65; did you mean '64x64x64'?",
        ),
        (
            "  - {tile: 64x64x64, exclude: {tile: 64x64x64, reason: x}}\n",
            "5:5: nothing is left of this group's 1 combination: its excludes take 1",
        ),
        (
            "  - {tile: [256x64x64, 256x512x64]}\n",
            "5:5: nothing is left of this group's 2 combinations: rows rejects 2; for example 256 rows > 128",
        ),
    ],
)
def test_a_fault_in_a_group_says_where_and_what_is_wanted(body: str, expected: str) -> None:
    assert any(fault.startswith(expected) for fault in faults(f"{HEAD}configs:\n{body}"))


@pytest.mark.parametrize(
    ("tile", "meant"),
    [
        ("[128, 160, 128]", "128x160x128"),
        ("[[128, 160, 128]]", "128x160x128"),
        ("[[128, 160, 128], [64, 64, 64]]", "[128x160x128, 64x64x64]"),
    ],
)
def test_a_shape_written_as_a_list_is_one_fault(tile: str, meant: str) -> None:
    assert faults(f"{HEAD}configs:\n  - tile: {tile}\n") == [
        f"5:11: tile: a list means alternatives; write {meant}"
    ]
    (fault,) = faults(HEAD + "configs:\n  - tile: [128, 160]\n")
    assert fault.startswith("5:11: tile: '128x160' is not a tile; write MxNxK")
    assert fault.endswith("; and a list means alternatives")


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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[1]\n", "1:1: a spec is a mapping: family, defaults and configs"),
        ("arch: sm_90a\nconfigs: []\n", "1:1: 'family' is missing"),
        ("familly: tiny\nconfigs: []\n", "1:1: a spec has no field 'familly'; did you mean 'family'?"),
        ("family: tinny\n", "1:9: no family 'tinny'"),
        ("family: [tiny]\n", "1:9: family: write text, not a list"),
        (HEAD, "1:1: 'configs' is missing"),
        (HEAD + "configs: []\n", "4:10: configs: the list is empty"),
        (HEAD + "configs: 3\n", "4:10: configs: write a list of groups"),
        (HEAD + "configs:\n", "4:9: configs: write a list of groups ('- tile: ...'), not nothing"),
        (HEAD + "defaults: [a]\nconfigs: []\n", "4:11: defaults: write a mapping, not a list"),
        (HEAD + "defaults: {a: 1}\nconfigs: []\n", "4:15: defaults: a: write a mapping, not 1"),
        (HEAD + "defaults: {a: {b: 1}}\nconfigs: []\n", "4:16: tiny has no field 'b'"),
        (HEAD + "description: 3\nconfigs: []\n", "4:14: description: write text, not 3"),
        (
            HEAD + "lanes: 4\nconfigs: []\n",
            "4:1: tiny has no field 'lanes'; there are: arch, dtype, tile, cluster, fast, stages, note, fam",
        ),
        (HEAD + "config: []\n", "4:1: tiny has no field 'config'; did you mean 'configs'?"),
    ],
)
def test_a_fault_in_the_spec_itself(text: str, expected: str) -> None:
    assert any(fault.startswith(expected) for fault in faults(text))


def test_a_fault_in_a_shared_value_is_told_once_and_spares_groups_that_override_it() -> None:
    head = HEAD.replace("sm_90a", "sm_90")
    text = head + "configs:\n  - tile: 64x64x64\n  - {tile: 512x512x64, arch: sm_90a}\n"
    assert [fault.split(":")[0] for fault in faults(text)] == ["2", "6", "6"]


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


def test_a_module_is_named_like_an_identifier() -> None:
    faults = Faults()
    spec.parse(load.loads(b"family: tiny\n", "specs/My-Spec.yaml", faults), "specs/My-Spec.yaml", faults)
    with pytest.raises(SpecError, match="makes the module 'My-Spec'; use a-z, 0-9 and _ only"):
        faults.raise_if_any()


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


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        # One slip is one fault.
        ("  - {tiles: 64x64x64}\n", ["5:6: tiny has no field 'tiles'; did you mean 'tile'?"]),
        (
            "  - {tile:64x64x64}\n",
            ["5:6: tiny has no field 'tile:64x64x64'; a space is missing after 'tile:'"],
        ),
        (
            "  - {tiles: 64x64x64, tile: 64x64x64}\n",
            ["5:6: tiny has no field 'tiles'; did you mean 'tile'?"],
        ),
        # Quotes that are too many, or missing.
        ("  - {tile: 64x64x64, stages: '4'}\n", ["5:30: stages: '4' is text: write 4 without quotes"]),
        (
            "  - {tile: 64x64x64, fast: 'false'}\n",
            ["5:28: fast: 'false' is text: write false without quotes"],
        ),
        ("  - {tile: 64x64x64, note: 4}\n", ['5:28: note: 4 is not text: quote it, "4"']),
        ("  - {tile: 64x64x64, note: true}\n", ['5:28: note: true is not text: quote it, "true"']),
        ("  - {tile: 64x64x64, stages: '1'}\n", ["5:30: stages: '1' should be auto or a valid integer"]),
        # A shape as people write it.
        (
            "  - tile: 128X128X64\n",
            ["5:11: tile: '128X128X64' is misspelt; did you mean '128x128x64'?"],
        ),
        (
            "  - tile: 128 x 128 x 64\n",
            ["5:11: tile: '128 x 128 x 64' is misspelt; did you mean '128x128x64'?"],
        ),
        (
            "  - tile: 128*128*64\n",
            ["5:11: tile: '128*128*64' is misspelt; did you mean '128x128x64'?"],
        ),
    ],
)
def test_a_slip_is_one_fault_that_says_what_to_write(body: str, expected: list[str]) -> None:
    assert faults(f"{HEAD}configs:\n{body}") == expected


def test_a_value_of_other_families_is_a_fault_that_names_them() -> None:
    (fault,) = faults(f"{HEAD}configs:\n  - {{tile: 64x64x64, arch: sm_120f}}\n")
    others = [name for name in catalog.names() if "sm_120f" in catalog.targets_of(name)]
    assert {"blockscaled_gemm", "quantize"} < {*others}
    assert fault == (
        "5:28: arch: 'sm_120f' should be one of sm_90a, sm_100a; did you mean 'sm_100a'?; "
        f"of other families {', '.join(others)} have it"
    )


def test_what_is_not_legal_is_a_fault_at_the_value_that_its_group_gives() -> None:
    """Not at the group; and where a fragment or an anchor gives it, the group and the line of the value."""
    assert faults(HEAD + "configs:\n  - fast: true\n    tile: 256x64x64\n")[0].startswith("6:11: ")
    anchored = HEAD + "configs:\n  - &one {tile: 256x64x64, dtype: e4m3}\n  - {<<: *one, dtype: bf16}\n"
    assert faults(anchored) == [
        f"6:23: this configuration is not legal: rows: {ROWS}{NEAR} 128x64x64, or dtype e4m3"
    ]
    inherited = HEAD.replace("bf16", "e4m3") + "defaults: {a: {tile: 512x64x64}}\nconfigs:\n  - use: a\n"
    assert faults(inherited) == [
        "6:5: this configuration is not legal: rows: 512 rows > 256 (limit: the hardware's); tile is given "
        "on line 4; legal nearby: tile 256x64x64"
    ]


def test_a_missing_field_says_what_it_may_be() -> None:
    (fault,) = faults("family: tiny\nconfigs:\n  - fast: true\n")
    assert fault == (
        "3:5: the fields arch (sm_90a|sm_100a), dtype (bf16|f16|e4m3), tile (e.g. 128x256x64) are missing"
    )


LONG = "9" * 5_000


@pytest.mark.parametrize(
    "text",
    [
        f"{HEAD}configs:\n  - tile: {LONG}\n",
        f"{HEAD}configs:\n  - {{tile: 64x64x64, stages: {LONG}}}\n",
        f"{HEAD}configs:\n  - {{tile: 64x64x64, stages: 0{LONG}}}\n",
        f"{HEAD}configs:\n  - {{tile: 64x64x64, dtype: {LONG}}}\n",
        f"{HEAD}configs:\n  - {{tile: 64x64x64, use: x{LONG}}}\n",
        f"{HEAD}configs:\n  - tile: 64x64x64\n    ? {LONG}\n    : 1\n",
        f"{HEAD}configs:\n  - tile: 64x64x64\n    ? x{LONG}\n    : 1\n    ? x{LONG}\n    : 1\n",
        f"{HEAD}configs:\n  - {{tile: 64x64x64, exclude: {{tile: 64x64x64, reason: x, note: x{LONG}}}}}\n",
        f"{HEAD}configs: {LONG}\n",
        f"{HEAD}configs:\n  - {LONG}\n",
        f"{HEAD}max_combinations: {LONG}\nconfigs:\n  - tile: 64x64x64\n",
        f"family: x{LONG}\n",
    ],
    ids=lambda text: text.replace(LONG, "9")[-40:],
)
def test_a_value_of_thousands_of_digits_is_cut(text: str) -> None:
    actual = faults(text)
    assert any("9... (5,00" in fault or "9'... (5,00" in fault for fault in actual), actual
    assert all(len(fault) < 500 for fault in actual)


def test_a_field_that_another_family_has() -> None:
    told = "6:5: tiny has no field 'scales'; of other families grouped_gemm has it"
    assert faults(HEAD + "configs:\n  - tile: 64x64x64\n    scales: 128x128\n") == [told]


def test_a_fragment_that_uses_others_is_the_only_fault() -> None:
    text = HEAD + (
        "defaults:\n  b: {use: [a, c], stages: 3}\n  a: {fast: true}\n  c: {tile: 64x64x64}\n"
        "configs:\n  - use: b\n"
        "    tile: 64x64x64\n"
    )
    assert faults(text) == ["5:7: defaults: b: a fragment cannot use others; a group can: `use: [a, c, b]`"]
