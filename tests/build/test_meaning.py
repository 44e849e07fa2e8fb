"""What of a C++ text source keys depend on, and what not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.compile.meaning import host_meaning, meaning
from tilewright.compile.source_keys import SourceHeaders

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


def headers(folder: Path, **texts: str) -> SourceHeaders:
    for name, text in texts.items():
        path = folder / "tilewright" / f"{name.replace('__', '/')}.hpp"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return SourceHeaders(folder)


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


@pytest.mark.parametrize(
    "device",
    [
        "__device__ int twice(int x) { return 2 * x; }",
        "template <int N> static __device__ int twice(int x) { if (x) { return N; } return x; }",
        "__device__ int twice(int x);",
        '__device__ void load() { asm("{ .reg .pred p; }" ::: "memory"); }',
        "__device__ char brace() { return '}'; }",
        "#define DEVICE __device__ __forceinline__",
        '#define KERNEL(NAME) extern "C" __global__ void NAME() { go(); }',
        "__global__ void __launch_bounds__(128, 1) go() {\n#pragma unroll\n  for (;;) { work(); }\n}",
    ],
)
def test_functions_of_the_device_are_no_code_of_the_host(device: str) -> None:
    text = "struct A {\n  int before() { return 1; }\n%s\n  int after() { return 2; }\n};\n"
    left = host_meaning((text % device).encode())
    assert left.replace(b"\n", b"") == host_meaning((text % "").encode()).replace(b"\n", b"")


@pytest.mark.parametrize(
    "host",
    [
        "int size() { return 1; }",
        "__host__ __device__ int size() { return 1; }",
        "__device__ int a(int x); int size() { return 1; }",
        "__device__ A(int x) : a_{x}, size_{1} {}",
        "#define DEVICE __device__\nint size() { return 1; }",
        "#define DEVICE __device__\nstruct B { int size() { return 1; } };",
        "#if X\n__device__ void a() {\n#else\n__device__ void b() {\n#endif\n}\nint size() { return 1; }",
        "#define KERNEL(NAME) __global__ void NAME() { go(); } int size() { return 1; }",
        "__device__ int a(int x = int{}) { return 1; }",
    ],
)
def test_what_may_run_on_the_host_is_kept(host: str) -> None:
    text = f"namespace n {{\n{host}\nint last; }}\n"
    assert host_meaning(text.encode()) != host_meaning(text.replace("1", "2").encode())
    assert b"int last;" in host_meaning(text.encode())
