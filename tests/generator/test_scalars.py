from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tilewright_generator.scalars import Trap, resolve


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("false", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("0", 0),
        ("-12", -12),
        ("1.5", 1.5),
        ("2e3", 2000.0),
        ("128x256x64", "128x256x64"),
        ("1x1", "1x1"),
        ("e4m3", "e4m3"),
        ("sm_90a", "sm_90a"),
        ("none", "none"),
        ("9" * 5000, "9" * 5000),
    ],
)
def test_words_mean_what_they_say(text: str, value: object) -> None:
    assert resolve(text) == value
    assert type(resolve(text)) is type(value)


@pytest.mark.parametrize(
    "text",
    [
        *("no", "No", "NO", "yes", "Yes", "on", "ON", "off", "Off", "True", "TRUE", "False", "FALSE"),
        *("1:30", "1:30:00", "-1:30.5", "010", "0o10", "00", "+012", "0x1F", "0b101", "1_000", "1_000.5"),
        *("2024-01-02", "2024-01-02 10:00:00", ".inf", "-.INF", ".nan", ".NaN"),
    ],
)
def test_what_readers_disagree_on_is_a_trap(text: str) -> None:
    answer = resolve(text)
    assert isinstance(answer, Trap)
    assert f"quote it ('{text}')" in answer.message


@given(st.text(st.sampled_from("0123456789.+-_:eExobTtnNfFyYsSlL~ uaiI"), max_size=8))
def test_a_word_that_yaml_1_1_reads_as_no_text_is_read_alike_or_is_a_trap(text: str) -> None:
    """PyYAML is a YAML 1.1 reader: wherever it sees more than text we agree with it, or refuse."""
    text = text.strip()
    if text.startswith(("-", "?", ":")) and (len(text) == 1 or text[1] == " "):
        return
    try:
        theirs = yaml.safe_load(f"[{text}]")[0] if text else None
    except (yaml.YAMLError, ValueError, IndexError):
        return
    ours = resolve(text)
    if isinstance(ours, Trap) or isinstance(theirs, (str, dict)):
        return
    if text == "=":
        return
    assert ours == theirs
