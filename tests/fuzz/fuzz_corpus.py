"""Specs and templates that were written to take a machine's time or memory, or to reach what is outside."""

from __future__ import annotations

from collections.abc import Callable

BIG = "3000000000"

# Each is the text of a template that is to be refused, with exit code 2 and its line.
REFUSED_TEMPLATES = (
    # Memory through filters, methods and formats.
    *(
        "{{ " + expression + " }}"
        for expression in (
            f'"x"|center({BIG})', f'"%{BIG}d"|format(1)', f'"{{:>{BIG}}}".format(1)', f"name.ljust({BIG})",
            f"name.zfill({BIG})", f'"\\t".expandtabs({BIG})', f"name|indent({BIG})",
            f"name|indent(width={BIG})",
            f"name|slice({BIG})|list", f"name|batch({BIG}, 'x')|list", f"name.center({BIG})",
            f"name.rjust({BIG})",
            f"name|truncate({BIG})", f"name|wordwrap({BIG})", f"range({BIG})|list", f"lipsum({BIG})",
            f'"{{0:{BIG}}}".format(name)', f'"{{a:{BIG}}}".format_map({{"a": name}})',
            f'"%*d"|format({BIG}, 1)',
            f"'a' * {BIG}", f"name * {BIG}", f"10 ** {BIG}", f"1.0 ** {BIG}", "name|pprint", "name|tojson",
            "name|xmlattr", "name|urlize", "name|map('upper')|list", "name|groupby(0)", "name|sum(start='')",
            "name|attr('upper')", "name|random", "name|filesizeformat", "[name, [name]]", "{'a': name}",
            "('a', ('b', name))", "name[:]", "kernels[::2]",
        )
    ),
    # Exponential growth.
    "{% set a = name %}" + "{% set a = a ~ a %}" * 40 + "{{ a }}",
    "{% set a = [name] %}" + "{% set a = [a, a, a, a, a, a, a, a, a, a] %}" * 12 + "{{ a }}",
    "{% set a = name %}" + "{% set a = a|replace('_', a) %}" * 40 + "{{ a }}",
    "{% set a = name %}" + "{% set a = a|join(a) %}" * 20 + "{{ a }}",
    "{% set a %}{{ name }}{{ name }}{% endset %}" + "{% set a %}{{ a }}{{ a }}{% endset %}" * 40 + "{{ a }}",
    "{% macro a() %}{{ a() }}{{ a() }}{% endmacro %}{{ a() }}",
    "{% macro a(x) %}{{ x }}{{ x }}{% endmacro %}{{ a(a(a(a(name)))) }}",
    "{% include 'tiny/kernel.cu.j2' %}{% include 'tiny/kernel.cu.j2' %}",
    "{% extends 'tiny/kernel.cu.j2' %}",
    "{% import 'tiny/kernel.cu.j2' as other %}",
    "{% block a %}{{ self.a() }}{% endblock %}",
    "{% filter upper %}{{ name }}{% endfilter %}",
    "{% call(x) name() %}{% endcall %}",
    # Time.
    "{% for a in name %}{% for b in name %}{% for c in name %}{% for d in name %}{% endfor %}{% endfor %}"
    "{% endfor %}{% endfor %}",
    "{% for a in [1, 2] recursive %}{{ loop([1, 2]) }}{% endfor %}",
    "{% for a in name %}{% for b in name %}" + "{{ name }}" * 500 + "{% endfor %}{% endfor %}",
    "{{ name }}" * 100_000,
    "x" * 300_000,
    # What Python's compiler refuses, or takes long for.
    "{% for a in name %}" * 25 + "{% endfor %}" * 25,
    "{% if name %}" * 200 + "{% endif %}" * 200,
    "{{ name" + ".x" * 300 + " }}",
    "{{ name" + "|upper" * 300 + " }}",
    "{{ name" + "|upper" * 2000 + " }}",
    "{{ " + "not " * 2000 + "name }}",
    "{{ " + "-" * 3000 + "1 }}",
    "{{ " + "(" * 3000 + "name" + ")" * 3000 + " }}",
    "{{ " + "name ~ " * 3000 + "name }}",
    "{{ " + "1" * 5000 + " }}",
    "{{ 0x" + "f" * 5_000_00 + " }}",
    "{{ 1e" + "9" * 5000 + " }}" + "{{ tail }}",
    "{{ " + "name if name else " * 3000 + "name }}",
    '{{ "\\ud800" }}',
    '{{ name ~ "\\udfff" }}',
    "{% set namespace.x = 1 %}",
    "{{ nested }}",
    # Ways out.
    "{{ name.__class__.__mro__[1].__subclasses__() }}",
    "{{ self._TemplateReference__context }}",
    "{{ loop }}",
    "{{ name['__class__'] }}",
    "{{ name|map(attribute='__class__')|list }}",
    "{% for a in name %}{{ loop.__class__ }}{% endfor %}",
    "{% for a in name %}{{ loop.cycle('a') }}{% endfor %}",
    "{% for a in name %}{{ loop._iterator }}{% endfor %}",
    "{{ cycler }}", "{{ joiner() }}", "{{ namespace() }}", "{{ dict(a=1) }}", "{{ caller() }}",
    "{{ varargs }}",
    "{% include '/etc/passwd' %}", "{% include '../../specs/small.yaml' %}", "{% include name %}",
    "{% raw %}", "{% endif %}", "{{", "{% for %}", "{#",
)  # fmt: skip

# Parts of templates that a spoilt one may get.
SNIPPETS = (
    *REFUSED_TEMPLATES,
    "{% if name %}", "{% else %}", "{% endif %}", "{% for x in name %}", "{% endfor %}", "{{ name }}",
    "{{ name|upper }}", "{{ name ~ spec }}", "{% include 'table.cc.j2' %}", "{{ loop.last }}",
    "{%- set x = 1 %}",
    "{% with a = name %}{{ a }}{% endwith %}", "\udcff", "{{ 'a'|replace('', name) }}",
    "{{ name|join(name) }}",
)  # fmt: skip

_HEAD = "family: gemm\n"
_GROUP = "{a: bf16, b: bf16, d: bf16, tile: 128x128x64, arch: sm_90a}"


def _laughs(levels: int) -> str:
    lines = ["x0: &x0 [1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"x{n + 1}: &x{n + 1} [" + ", ".join([f"*x{n}"] * 9) + "]" for n in range(levels)]
    return "\n".join(lines) + "\n"


def _keys(number: int) -> str:
    return ", ".join(f"k{n}: 1" for n in range(number))


def _tiles(number: int) -> str:
    return ", ".join(f"{64 + n % 500}x{8 + n // 500}x64" for n in range(number))


# Specs with a fault, by what is many in them: how many there are follows.
SPECS: dict[str, Callable[[int], str]] = {
    "broken lines": lambda n: _HEAD + "configs:\n" + "".join(f"  - a{i}: b: c\n" for i in range(n)),
    "undefined aliases": lambda n: _HEAD + "configs:\n" + "".join(f"  - *a{i}\n" for i in range(n)),
    "undefined aliases beside anchors": lambda n: (
        _HEAD + "configs:\n" + "".join(f"  - {{a: &b{i} bf16, b: *a{i}}}\n" for i in range(n))
    ),
    "tabbed lines": lambda n: _HEAD + "configs:\n" + "\t- {a: bf16}\n" * n,
    "groups before a fault": lambda n: _HEAD + "configs:\n" + f"  - {_GROUP}\n" * n + "  - [\n",
    "groups among faults": lambda n: (
        _HEAD + "configs:\n" + (f"  - {_GROUP}\n" * 20 + "  - a: b: c\n") * (n // 20 + 1)
    ),
    "merges of a mapping": lambda n: (
        f"{_HEAD}x: &a {{{_keys(500)}}}\nconfigs:\n  - {{<<: [" + ", ".join(["*a"] * n) + "]}\n"
    ),
    "keys of a merge": lambda n: (
        f"{_HEAD}x: &a {{{_keys(n)}}}\nconfigs:\n  - {{<<: [" + ", ".join(["*a"] * n) + "]}\n"
    ),
    "merges in a chain": lambda n: (
        f"{_HEAD}x: &a0 {{{_keys(300)}}}\n" + "".join(f"y{i}: &a{i + 1} {{<<: *a{i}}}\n" for i in range(n))
    ),
    "unknown keys": lambda n: _HEAD + "".join(f"k{i}: 1\n" for i in range(n)) + "configs: []\n",
    "unknown keys of groups": lambda n: (
        _HEAD + "configs:\n" + "".join(f"  - {{k{i}: 1}}\n" for i in range(n))
    ),
    "long unknown keys": lambda n: _HEAD + "".join(f"k{i}{'x' * 1000}: 1\n" for i in range(n // 10)),
    "long unknown words": lambda n: (
        _HEAD + "configs:\n" + "".join(f"  - {{a: w{i}{'x' * 1000}}}\n" for i in range(n // 10))
    ),
    "unknown words": lambda n: _HEAD + "configs:\n" + "".join(f"  - {{a: bf1{i}}}\n" for i in range(n)),
    "equal groups": lambda n: _HEAD + "configs:\n" + f"  - {_GROUP}\n" * n,
    "aliases of a group": lambda n: f"{_HEAD}configs:\n  - &a {_GROUP}\n" + "  - *a\n" * n,
    "aliases of a wrong group": lambda n: (
        f"{_HEAD}configs:\n  - &a {{a: bf17, tile: 1, k: 2}}\n" + "  - *a\n" * n
    ),
    "fragments used": lambda n: (
        f"{_HEAD}defaults:\n  f: {_GROUP}\nconfigs:\n  - {{use: [" + ", ".join(["f"] * n) + "]}\n"
    ),
    "fragments": lambda n: (
        f"{_HEAD}configs:\n  - {{use: g}}\ndefaults:\n"
        + "".join(f"  f{i}: {{a: bf16}}\n" for i in range(n))
    ),
    "aliases of aliases": lambda n: f"{_HEAD}{_laughs(9)}configs:\n" + "  - {tile: *x9}\n" * (n // 1000 + 1),
    "empty lists": lambda n: "[" + "[], " * n + "]\n",
    "words": lambda n: "{" + ", ".join(f"a{i}" for i in range(n)) + "}\n",
    "underscores": lambda n: f"{_HEAD}stages: 1{'_' * min(n, 100_000)}x\nconfigs: []\n",
    "digits": lambda n: f"{_HEAD}stages: {'1' * n}.5\nconfigs: []\n",
    "combinations": lambda n: (
        f"{_HEAD}max_combinations: 1000000000000\nconfigs:\n  - {{a: [bf16, f16, e4m3, e5m2], "
        f"b: [bf16, f16, e4m3, e5m2], d: [bf16, f16], arch: sm_90a, tile: [{_tiles(n)}]}}\n"
    ),
    "excludes": lambda n: (
        f"{_HEAD}configs:\n  - {{a: bf16, b: bf16, d: bf16, arch: sm_90a, tile: [{_tiles(min(n, 9000))}], "
        f"exclude: [" + ", ".join(f"{{tile: 64x{i}x64, reason: a}}" for i in range(n)) + "]}\n"
    ),
    "anchors": lambda n: (
        _HEAD + "".join(f"y{i}: &a{i} 1\n" for i in range(n)) + "configs: [*a]\n"
    ),
    "characters that do not print": lambda n: _HEAD + "a: " + "\x07" * n + "\n",
    "equal keys": lambda n: _HEAD + "a: 1\n" * n,
    "mappings on a broken line": lambda n: _HEAD + "configs: [" + "{a: b: c}, " * n,
    "open quotes": lambda n: _HEAD + "\n".join(f"a{i}: 'x" for i in range(n)),
    "returns": lambda n: "\r" * n,
    "brackets": lambda n: "[" * n,
    "dashes": lambda n: "- " * n,
    "tags": lambda n: _HEAD + "configs:\n" + "  - !!python/object:os.system {}\n" * n,
    "documents": lambda n: "---\na: 1\n" * n,
    "conflicts": lambda n: _HEAD + "<<<<<<< a\n=======\n>>>>>>> b\n" * n,
    "comments": lambda n: "# x\n" * n,
    "anchors of one name": lambda n: _HEAD + "".join(f"y{i}: &a 1\n" for i in range(n)),
    "aliases inside what they name": lambda n: _HEAD + "".join(f"y{i}: &a{i} [*a{i}]\n" for i in range(n)),
    "merges of no mapping": lambda n: _HEAD + "configs:\n" + "  - {<<: 5}\n" * n,
    "keys that are lists": lambda n: _HEAD + "? [a]\n: b\n" * n,
    "traps": lambda n: _HEAD + "configs:\n" + "  - {a: no, b: 1:30}\n" * n,
    "releases": lambda n: _HEAD + 'requires: "' + ">=0," * min(n, 100_000) + '>=0"\nconfigs: []\n',
}  # fmt: skip
