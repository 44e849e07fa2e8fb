"""What of a C++ text source keys depend on, and what not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.compile.keys import HeaderSet
from tilewright.compile.meaning import meaning

SOURCE = b"""// A comment.
#define F(x) (x)
/* another, of
   two lines */
inline int add(int a, int b) { return a + b; }  // sum
char const* const kText = "// no  comment";
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"// A comment.", b'// Another comment, with a " in it.'),
        (b"two lines", b"2 lines"),
        (b"// sum", b""),
        (b"(int a, int b) {", b"(int a,\n    int b)\n{"),
        (b"#define F(x) (x)", b"#  define F(x)   (x)".replace(b"#  ", b"#")),
        (b"#define F(x) (x)", b"#define F(x) \\\n (x)"),
        (b"\n", b"\r\n"),
    ],
)
def test_comments_and_layout_mean_nothing(old: bytes, new: bytes) -> None:
    assert old in SOURCE
    assert meaning(SOURCE.replace(old, new)) == meaning(SOURCE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"a + b", b"a - b"),
        (b"a + b", b"a ++ b"),
        (b"int a", b"inta"),
        (b"F(x) (x)", b"F (x) (x)"),
        (b"no  comment", b"no comment"),
        (b"// no", b"/ no"),
        (b"return a", b"//return a"),
        (b"#define", b"//#define"),
    ],
)
def test_tokens_literals_and_directives_mean_something(old: bytes, new: bytes) -> None:
    assert old in SOURCE
    assert meaning(SOURCE.replace(old, new)) != meaning(SOURCE)


def test_raw_strings_keep_their_lines() -> None:
    assert meaning(b'auto x = R"a(1\n  2 // 3)a";') != meaning(b'auto x = R"a(1 2)a";')
    assert b"// 3" in meaning(b'auto x = R"a(1\n  2 // 3)a";')


def headers(folder: Path, **texts: str) -> HeaderSet:
    for name, text in texts.items():
        path = folder / "tilewright" / f"{name.replace('__', '/')}.hpp"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return HeaderSet(folder)


def test_a_key_does_not_depend_on_where_a_header_lies(tmp_path: Path) -> None:
    here = headers(tmp_path / "1", a='#include "tilewright/b.hpp"\nint a;\n', b="int b;\n")
    there = headers(tmp_path / "2", x__a='#include "tilewright/y/b.hpp"\nint a;\n', y__b="int b; // moved\n")
    source = b'#include "tilewright/%s.hpp"\n'
    assert here.meaning(source % b"a") == there.meaning(source % b"x/a")
    changed = headers(tmp_path / "3", a='#include "tilewright/b.hpp"\nint a;\n', b="int c;\n")
    assert here.meaning(source % b"a") != changed.meaning(source % b"a")


def test_the_order_of_headers_means_something(tmp_path: Path) -> None:
    both = headers(tmp_path, a="int a;\n", b="int b;\n")
    lines = [b'#include "tilewright/%s.hpp"\n' % name for name in (b"a", b"b")]
    assert both.meaning(b"".join(lines)) != both.meaning(b"".join(reversed(lines)))


def test_headers_that_include_each_other_have_a_key(tmp_path: Path) -> None:
    text = '#pragma once\n#include "tilewright/{}.hpp"\n'
    assert (
        len(headers(tmp_path, a=text.format("b"), b=text.format("a")).meaning(b'#include "tilewright/a.hpp"'))
        == 64
    )
