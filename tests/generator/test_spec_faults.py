"""Faults of a spec: where each one stands, and what it says."""

from __future__ import annotations

import pytest
from tiny_specs import HEAD, NEAR, ROWS, faults

from tilewright.declarations import catalog
from tilewright_generator import load, spec
from tilewright_generator.errors import Faults, SpecError


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


def test_an_explicit_configuration_that_rules_reject_is_a_fault_for_each_rule() -> None:
    assert faults(HEAD + "configs:\n  - tile: 256x512x64\n") == [
        "5:11: this configuration is not legal: area: 131072 elements > 32768 (limit: ours)",
        f"5:11: this configuration is not legal: rows: {ROWS}{NEAR} 64x512x64, or dtype e4m3",
    ]


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
            HEAD + 'description: "a\\nb\\e]0;c\\a"\nconfigs: []\n',
            "4:14: description: write plain text, without '\\x1b'",
        ),
        (
            HEAD + "description: 'a\u202eb'\nconfigs: []\n",
            "4:14: description: write plain text, without '\\u202e'",
        ),
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


def test_a_module_is_named_like_an_identifier() -> None:
    faults = Faults()
    spec.parse(load.loads(b"family: tiny\n", "specs/My-Spec.yaml", faults), "specs/My-Spec.yaml", faults)
    with pytest.raises(SpecError, match="makes the module 'My-Spec'; use a-z, 0-9 and _ only"):
        faults.raise_if_any()


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
