from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from tilewright_generator import load, nodes
from tilewright_generator.errors import Fault, Faults, SpecError, UsageError
from tilewright_generator.scalars import resolve


def read(text: str | bytes) -> tuple[nodes.Node, list[Fault]]:
    faults = Faults()
    node = load.loads(text.encode() if isinstance(text, str) else text, "s.yaml", faults)
    try:
        faults.raise_if_any()
    except SpecError as error:
        return node, error.faults
    return node, []


def faults(text: str | bytes) -> list[str]:
    return [str(problem) for problem in read(text)[1]]


def plain(node: nodes.Node) -> Any:
    """The node without its positions."""
    if isinstance(node, nodes.Mapping):
        return {key: plain(entry.value) for key, entry in node.entries.items()}
    if isinstance(node, nodes.Sequence):
        return [plain(item) for item in node.items]
    assert isinstance(node, nodes.Scalar)
    return node.value


# PyYAML leaves some numbers of other readers without quotes: 08, 0E0. We need them.
texts = st.text(max_size=20).filter(lambda text: resolve(text) == text or yaml.safe_dump(text)[0] in "'\"")
words = st.one_of(st.booleans(), st.none(), st.integers(-(10**15), 10**15), texts)
documents = st.dictionaries(
    st.text(min_size=1, max_size=8),
    st.recursive(
        words,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    ),
    min_size=1,
)


@given(documents, st.booleans())
def test_what_yaml_writes_is_read_back(document: dict[str, Any], flow: bool) -> None:
    text = yaml.safe_dump(document, allow_unicode=True, default_flow_style=flow, sort_keys=False)
    assume(yaml.safe_load(text) == document)  # PyYAML does not read all that it writes: U+0085
    node, faults = read(text)
    assert faults == []
    assert plain(node) == document


def test_positions_are_lines_and_columns_from_one() -> None:
    node, _ = read("a: 1\nb:\n  - x\n  - {c: y}\n")
    assert isinstance(node, nodes.Mapping)
    items = node.entries["b"].value
    assert isinstance(items, nodes.Sequence)
    inner = items.items[1]
    assert isinstance(inner, nodes.Mapping)
    assert str(node.entries["b"].position) == "s.yaml:2:1"
    assert str(items.items[0].position) == "s.yaml:3:5"
    assert str(inner.entries["c"].value.position) == "s.yaml:4:9"


def test_quoted_words_are_text() -> None:
    assert plain(read("a: 'no'\nb: \"010\"\nc: |\n  1:30\n")[0]) == {"a": "no", "b": "010", "c": "1:30\n"}


def test_anchors_and_merge_keys() -> None:
    node, faults = read("a: &x {p: 1, q: 2}\nb: {<<: *x, q: 3}\nc: {q: 4, <<: [{q: 5, r: 6}, *x]}\n")
    assert faults == []
    assert plain(node) == {"a": {"p": 1, "q": 2}, "b": {"q": 3, "p": 1}, "c": {"q": 4, "r": 6, "p": 1}}


def test_a_quoted_merge_key_is_a_key_like_any_other() -> None:
    node, faults = read("a: &x {p: 1}\nb: {'<<': *x}\n")
    assert faults == []
    assert plain(node) == {"a": {"p": 1}, "b": {"<<": {"p": 1}}}


def test_the_first_of_several_merged_mappings_counts() -> None:
    node, faults = read("a: {<<: [{p: 1}, {p: 2, q: 3}]}\n")
    assert faults == []
    assert plain(node) == {"a": {"p": 1, "q": 3}}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a: [1, 2\nb: 3\n", "s.yaml:1:4: YAML: while parsing a flow sequence"),
        ("a: 'x\nb: 1\n", "s.yaml:1:4: YAML: while scanning a quoted scalar"),
        ("a: b: c\n", "s.yaml:1:5: YAML: mapping values are not allowed here"),
        ("a: @x\n", "s.yaml:1:4: YAML: while scanning for the next token, found character '@'"),
        ("a: *q\n", "s.yaml:1:4: YAML: found undefined alias 'q'; there are: none"),
        ("a: &bf16 1\nb: *bf61\n", "s.yaml:2:4: YAML: found undefined alias 'bf61'; did you mean 'bf16'?"),
        (
            "a: *q\nb: {c: &q 1}\n",
            "s.yaml:1:4: YAML: found undefined alias 'q'; its anchor stands below, on line 2",
        ),
        ("a:\n\tb: 1\n", "s.yaml:2:1: a tab"),
        ("a:\n  \tb: 1\n", "s.yaml:2:3: a tab"),
        ("a:\n  - b: 1\n\tc: 2\n    d: 3\n", "s.yaml:3:1: a tab"),
        ("a:\n    b: 1\n\t- c\n", "s.yaml:3:1: a tab"),
        ("a:\n  - b: 1\n    tile:128x160\n    c: 2\n", "s.yaml:3:5: a space is missing after 'tile:'"),
        ("arch:sm_90a\nb: 2\nc: 3\n", "s.yaml:1:1: a space is missing after 'arch:'"),
        ("a: 1\na: 2\n", "s.yaml:2:1: duplicate key 'a'; it stands on line 1 too"),
        ("a: no\n", "s.yaml:1:4: 'no' unquoted is a trap"),
        ("a: [1:30]\n", "s.yaml:1:5: '1:30' unquoted is a trap"),
        ("a: !!python/name:os.system x\n", "s.yaml:1:4: a YAML tag"),
        ("a: !mine x\n", "s.yaml:1:4: a YAML tag"),
        ("a: &p [*p]\n", "s.yaml:1:4: an alias stands inside what it names"),
        ("a: {<<: 5}\n", "s.yaml:1:9: '<<' merges mappings"),
        ("? [a]\n: b\n", "s.yaml:1:3: a key is a single word"),
        ("a: 1\n---\nb: 2\n", "s.yaml:2:1: a second document"),
        ("a: \x07\n", "s.yaml:1:4: the character '\\x07' may not stand in YAML"),
        ("a: 1 # \u2028\n", "s.yaml:1:8: the character '\\u2028' may not stand in YAML"),
        ("", "s.yaml:1:1: the spec is empty"),
        ("# nothing\n", "s.yaml:1:1: the spec is empty"),
    ],
)
def test_faults_have_a_line_and_a_column(text: str, fault: str) -> None:
    actual = faults(text)
    assert len(actual) == 1
    assert actual[0].startswith(fault)


def test_a_tab_does_not_move_what_it_indents() -> None:
    text = "a:\n  - b:\n\t- c\n\t- d\n    e: 1\n\tf: 2\n"
    node, faults = read(text)
    assert [problem.position.line for problem in faults] == [3, 4, 6]
    assert plain(node) == {"a": [{"b": ["c", "d"], "e": 1, "f": 2}]}


def test_a_text_is_not_taken_for_a_broken_line() -> None:
    """Broken lines are replaced with a private-use character, which may also stand in a spec."""
    node, faults = read("a: \ue000\nb: \ue000x\nc: d: e\n")
    assert [problem.position.line for problem in faults] == [3]
    assert isinstance(node, nodes.Mapping)
    assert plain(node.entries["a"].value) == "\ue000"
    assert isinstance(node.entries["c"].value, nodes.Unreadable)


def test_bytes_that_are_not_utf_8() -> None:
    assert faults(b"a: 1\nb: \xff\n") == ["s.yaml:2:4: this is not UTF-8"]


def test_a_byte_order_mark_is_no_fault() -> None:
    assert plain(read(b"\xef\xbb\xbfa: 1\r\nb: 2\r\n")[0]) == {"a": 1, "b": 2}


@pytest.mark.parametrize("text", ["\ta: 1\n", "<<<<<<< ours\na: 1\n", "\x07a: 1\n"])
def test_faults_behind_a_byte_order_mark_are_those_without_it(text: str) -> None:
    assert faults(b"\xef\xbb\xbf" + text.encode()) == faults(text) != []


def test_every_fault_is_reported_and_the_rest_still_read() -> None:
    text = "a: [1, 2\nb: yes\nc: {x: 1\nd: 5\nd: 6\ne: b: c\nf: good\n"
    node, faults = read(text)
    assert [(problem.position.line, problem.position.column) for problem in faults] == [
        (1, 4),
        (2, 4),
        (3, 4),
        (5, 1),
        (6, 5),
    ]
    assert isinstance(node, nodes.Mapping)
    assert list(node.entries) == ["a", "b", "c", "d", "e", "f"]
    assert isinstance(node.entries["a"].value, nodes.Unreadable)


def test_a_broken_line_in_a_list_leaves_its_neighbours() -> None:
    text = "configs:\n  - tile: [1x2x3, 4x5\n    use: big\n  - tile: 9x9x9\n"
    node, faults = read(text)
    assert [str(problem.position) for problem in faults] == ["s.yaml:2:11"]
    assert isinstance(node, nodes.Mapping)
    groups = node.entries["configs"].value
    assert isinstance(groups, nodes.Sequence)
    assert plain(groups.items[1]) == {"tile": "9x9x9"}


def test_a_broken_item_keeps_its_place_in_the_list() -> None:
    node, faults = read("a:\n  - 'x' y\n  - z\n")
    assert [problem.position.line for problem in faults] == [2]
    assert isinstance(node, nodes.Mapping)
    items = node.entries["a"].value
    assert isinstance(items, nodes.Sequence)
    first, second = items.items
    assert isinstance(first, nodes.Unreadable)
    assert plain(second) == "z"


@given(st.text(max_size=60))
def test_no_text_breaks_the_reader(text: str) -> None:
    """Whatever stands in a spec is read or reported; it never ends in another exception."""
    read(text.encode("utf-8", "surrogatepass"))


@given(st.text(st.sampled_from("ab:-[]{},'\"&*!|>%@#?\n \t<~01"), max_size=60))
def test_no_punctuation_breaks_the_reader(text: str) -> None:
    read(text)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[" * 100_000, "s.yaml:1:33"),  # libyaml's composer ends the process at this depth
        ("a:\n  " + "- " * 100_000, "s.yaml:2:65"),
        ("a: " + "{b: " * 100_000, "s.yaml:1:128"),
    ],
)
def test_deep_nesting_is_a_fault(text: str, place: str) -> None:
    assert faults(text) == [f"{place}: nested more than 32 deep; no spec needs that"]


def test_deep_nesting_behind_another_fault() -> None:
    actual = faults("a: b: c\nd: " + "[" * 100_000)
    assert actual[0].startswith("s.yaml:1:")


def test_a_spec_that_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "link.yaml").symlink_to("nowhere")
    for name, said in (
        ("pipe", "a pipe, no file"),
        ("folder", "a folder, no file"),
        ("link", "no such file"),
    ):
        with pytest.raises(UsageError, match=rf"cannot read the spec .*{name}\.yaml: {said}"):
            load.load(tmp_path / f"{name}.yaml", "s.yaml", Faults())
