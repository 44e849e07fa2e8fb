"""Templates: what they may do, whose fault is whose, and that all they are given reaches the source."""

from __future__ import annotations

from pathlib import Path

import pytest
import tiny_family
from command_line import ROOT, Command

from tilewright.configurations.family import Family
from tilewright_generator import generation
from tilewright_generator.expand import Kernel
from tilewright_generator.project import Project
from tilewright_generator.render import Renderer

FLAGS = ("true", "false")
# What a template is given and does not write: some choose a text; all kernels of sm_90 swap; k is
# contiguous in both operands of kernels with packed scales; a stage of 64 bytes is one box; CUTLASS and the
# stream mainloop find out for themselves how many stages fit.
UNWRITTEN = {
    ("blockscaled_gemm/blackwell.cu.j2", "rubin"),
    ("blockscaled_gemm/blackwell.cu.j2", "stages"),
    ("blockscaled_gemm/blackwell.cu.j2", "two_sm"),
    ("blockscaled_gemm/hopper.cu.j2", "swap_ab"),
    ("blockscaled_grouped_gemm/kernel.cu.j2", "stages"),
    ("blockscaled_grouped_gemm/kernel.cu.j2", "two_sm"),
    ("gemm/stream.cu.j2", "stages"),
    ("grouped_gemm/narrow.cu.j2", "boxes"),
    ("grouped_gemm/narrow.cu.j2", "mn_major_a"),
    ("grouped_gemm/narrow.cu.j2", "mn_major_b"),
    ("grouped_gemm/packed.cu.j2", "mn_major_a"),
    ("grouped_gemm/packed.cu.j2", "mn_major_b"),
    ("grouped_gemm/tcgen05.cu.j2", "stages"),
    ("grouped_gemm/tcgen05.cu.j2", "two_sm"),
    ("grouped_gemm/tcgen05_plain.cu.j2", "stages"),
    ("grouped_gemm/tcgen05_plain.cu.j2", "two_sm"),
    ("grouped_gemm/tcgen05_plain.cu.j2", "scaled"),
    ("quantize/kernel.cu.j2", "wide_loads"),
}


def write(project: Path, text: str, name: str = "kernel.cu.j2") -> None:
    (project / "templates/tiny" / name).write_text(text)


@pytest.mark.parametrize(
    "expression",
    [
        "name.__class__.__mro__[1].__subclasses__()",
        "(name|attr('__class__')).__mro__",
        "name.__init__.__globals__",
        "'{0.__class__.__mro__}'.format(name)",
        "name.format.__self__.__class__.__base__",
        "self.__init__.__globals__",
        "cycler.__init__.__globals__.os.system('touch ran')",
        "kernels.append(1)",
    ],
)
@pytest.mark.parametrize("template", ["kernel.cu.j2", "table.cc.j2"])
def test_a_template_cannot_reach_python(
    project: Path, tilewright: Command, template: str, expression: str
) -> None:
    tilewright("generate")
    write(project, "{{ " + expression + " }}\n", template)
    for command in ("check", "generate"):
        result = tilewright(command)
        assert (result.code, result.out) == (2, "")
        assert f"tiny/{template}:1: " in result.err
    assert not (project / "ran").exists()


def test_a_template_that_uses_what_subclasses_reach_runs_nothing(project: Path, tilewright: Command) -> None:
    """The known way from any value to os.system, which without a sandbox leaves the file."""
    tilewright("generate")
    way = "name.__class__.__mro__[1].__subclasses__()"
    write(
        project,
        "{% for each in " + way + " %}{% if each.__name__ == '_wrap_close' %}"
        "{{ each.__init__.__globals__['system']('touch ran') }}{% endif %}{% endfor %}",
    )
    result = tilewright("check")
    assert result.code == 2
    assert "access to attribute '__class__' of 'str' object is unsafe" in result.err
    assert not (project / "ran").exists()


@pytest.mark.parametrize("expression", ["'a' * 1000", "1 + 1", "2 ** 100", "name % 3", "1 // 0"])
def test_templates_do_not_calculate(project: Path, tilewright: Command, expression: str) -> None:
    write(project, "{{ " + expression + " }}\n")
    result = tilewright("generate")
    assert result.code == 2
    assert "templates do not calculate" in result.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a\n{% if %}\n", "templates/tiny/kernel.cu.j2:2: "),
        (
            "{{ tail }}\n",
            "/templates/tiny/kernel.cu.j2:1: 'tail' is undefined (for tiny_bf16_128x128x64_1x1)",
        ),
        ("{% include name %}", "kernel.cu.j2: a template names what it includes in quotes"),
        ("{% include 'tiny/none.j2' %}", "tiny/none.j2"),
        (
            "{% include 'tiny/kernel.cu.j2' %}",
            "tiny/kernel.cu.j2:1: it runs for too long: its loops or includes are too many",
        ),
        ("\n<<<<<<< ours\na\n=======\nb\n>>>>>>> theirs\n", "kernel.cu.j2:2: the conflict of a merge"),
        (f"{{% if {'(' * 3000}1{')' * 3000} %}}{{% endif %}}", "kernel.cu.j2:1: it is nested too deep"),
        ("{{ name.foo() }}", "tiny/kernel.cu.j2:1: 'str object' has no attribute 'foo'"),
        (
            "{{ name.encode('none') }}",
            "tiny/kernel.cu.j2:1: access to attribute 'encode' of 'str' object is unsafe",
        ),
    ],
)
def test_a_fault_of_a_projects_template_is_the_projects(
    project: Path, tilewright: Command, text: str, said: str
) -> None:
    write(project, text)
    result = tilewright("generate")
    assert (result.code, said in result.err) == (2, True), result.err
    assert not (project / "generated").exists()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ kernels|join(', ') }}", "a, b"),
        ("{{ kernels|length }}{{ kernels|first }}{{ kernels|last }}{{ kernels[1] }}", "2abb"),
        ("{% for x in kernels %}{{ x ~ loop.index }}{{ '' if loop.last else '+' }}{% endfor %}", "a1+b2"),
        ("{% for x in kernels if x != 'a' %}{{ x }}{% else %}none{% endfor %}", "b"),
        ("{% set x = name|upper|replace('I', 'y') %}{{ x|lower|capitalize }}{{ ' z '|trim }}", "Tynyz"),
        ("{% with x = tail|default('none') %}{{ x }}{% endwith %}{{ 1 if name is defined else 2 }}", "none1"),
        ("{% if name in ['tiny', 'x'] and not name == 'x' %}yes{% endif %}{{ -1 }}{{ 1.5 }}", "yes-11.5"),
        ("{% include 'tiny/other.j2' %}{% include 'tiny/none.j2' ignore missing %}", "other of tiny"),
    ],
)
def test_what_templates_may_use(project: Path, text: str, expected: str) -> None:
    write(project, text)
    write(project, "other of {{ name }}", "other.j2")
    renderer = Renderer(Project.find(project))
    assert renderer.render("tiny/kernel.cu.j2", {"name": "tiny", "kernels": ["a", "b"]}) == expected


def test_a_template_renders_alike_whatever_ends_its_lines(project: Path) -> None:
    written = []
    for end in ("\n", "\r\n", "\r"):
        (project / "templates/tiny/kernel.cu.j2").write_bytes(
            f"a{end}{{{{ name }}}}{end}{end}b{end}".encode()
        )
        renderer = Renderer(Project.find(project))
        written.append(
            (renderer.render("tiny/kernel.cu.j2", {"name": "x"}), renderer.prepare("tiny/kernel.cu.j2"))
        )
    assert written[0][0] == "a\nx\n\nb\n"
    assert written[0] == written[1] == written[2]


def test_a_fault_of_an_included_template_is_named_where_it_stands(project: Path, tilewright: Command) -> None:
    write(project, "\n{% include 'tiny/other.j2' %}\n")
    write(project, "a\nb\n{{ tail }}\n", "other.j2")
    result = tilewright("check")
    assert (result.code, "tiny/other.j2:3: 'tail' is undefined" in result.err) == (2, True), result.err


def test_what_replace_adds_is_counted_though_nothing_writes_it(project: Path, tilewright: Command) -> None:
    write(project, "{% set a = '" + "a" * 1000 + "' %}{% if a|replace('a', a) == 'b' %}c{% endif %}\n")
    result = tilewright("check")
    assert (result.code, "it makes too much text for a source" in result.err) == (2, True), result.err


def test_a_list_is_not_written_as_it_stands(project: Path, tilewright: Command) -> None:
    write(project, "first\n{{ kernels }}\n", "table.cc.j2")
    result = tilewright("check")
    assert (result.code, "tiny/table.cc.j2:2: templates write a list by `for` or join" in result.err) == (
        2,
        True,
    )


def test_a_template_that_is_no_text_is_named(project: Path, tilewright: Command) -> None:
    (project / "templates/tiny/kernel.cu.j2").write_bytes(b"\xff\xfe")
    result = tilewright("generate")
    assert result.code == 2
    assert "cannot read the template tiny/kernel.cu.j2: " in result.err


def test_a_fault_of_our_own_template_is_an_internal_error(
    project: Path, tilewright: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = project / "ours"
    (project / "templates").rename(ours)
    monkeypatch.setattr("tilewright_generator.project._OUR_TEMPLATES", (ours,))
    assert tilewright("generate").code == 0
    (ours / "tiny/kernel.cu.j2").write_text("{{ tail }}\n")
    assert tilewright("generate").code == 3
    (ours / "tiny/kernel.cu.j2").unlink()
    result = tilewright("generate")
    assert (result.code, "no template tiny/kernel.cu.j2 in any of" in result.err) == (3, True)


def test_check_says_that_a_template_has_changed_since(project: Path, tilewright: Command) -> None:
    tilewright("generate")
    write(project, tiny_family.TEMPLATE + "// another\n")
    result = tilewright("check")
    assert result.code == 1
    said = "small: templates/tiny/kernel.cu.j2 has changed since the files were made from it\n"
    assert said in result.err
    assert "table.cc.j2" not in result.err
    tilewright("generate", "--filter", "fast=true")
    assert said in tilewright("check").err, "the sources that the filter left are as they were"
    tilewright("generate")
    assert tilewright("check") == (0, "4 kernels of 1 module are as the specs say\n", "")


def test_check_says_that_another_tilewright_made_the_files(
    project: Path, tilewright: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = project / "ours"
    (project / "templates").rename(ours)
    monkeypatch.setattr("tilewright_generator.project._OUR_TEMPLATES", (ours,))
    monkeypatch.setattr("tilewright_generator.cli.check.__version__", "7.8.9")
    tilewright("generate")
    (ours / "tiny/kernel.cu.j2").write_text(tiny_family.TEMPLATE + "// another\n")
    result = tilewright("check")
    said = (
        "small: another version of tilewright made the files; this is 7.8.9, whose template tiny/kernel.cu.j2"
    )
    assert said in result.err
    assert '"small": [\n   "tiny/kernel.cu.j2"\n  ]' in tilewright("check", "--json").out
    (project / "specs/small.yaml").write_text(tiny_family.SPEC.replace("128x128x64", "128x64x64"))
    (ours / "tiny/kernel.cu.j2").write_text(tiny_family.TEMPLATE)
    result = tilewright("check")
    assert (result.code, "another version" in result.err) == (1, False)


def test_what_a_template_includes_is_one_of_its_templates(project: Path, tilewright: Command) -> None:
    write(project, tiny_family.TEMPLATE + "{% include 'tiny/some more.j2' %}\n")
    write(project, "// more\n", "some more.j2")
    tilewright("generate")
    manifest = (project / "generated/small/manifest.txt").read_text()
    assert "  templates/tiny/some more.j2\n" in manifest
    assert tilewright("check").code == 0
    write(project, "// even more\n", "some more.j2")
    assert "templates/tiny/some more.j2 has changed since" in tilewright("check").err


def ours() -> dict[str, list[tuple[Family, Kernel]]]:
    """For each of our templates a kernel of each form: of each set of values of what is true or false."""
    project = Project.find(ROOT)
    forms: dict[str, dict[tuple[str, ...], tuple[Family, Kernel]]] = {}
    for expansion in generation.read(project, project.specs()):
        family = expansion.spec.family
        for kernel in expansion.kernels:
            form = tuple(value for value in family.variables(kernel.config).values() if value in FLAGS)
            forms.setdefault(family.template(kernel.config), {})[form] = (family, kernel)
    return {template: [*kernels.values()] for template, kernels in forms.items()}


OURS = ours()


def variables(family: Family, kernel: Kernel) -> dict[str, str]:
    return family.variables(kernel.config) | {"name": kernel.name, "spec": "specs/x.yaml"}


@pytest.mark.parametrize("template", OURS)
def test_every_variable_of_a_family_reaches_the_source(template: str) -> None:
    """A template then says nothing by itself that the family has to say."""
    renderer = Renderer(Project.find(ROOT))
    given = [variables(family, kernel) for family, kernel in OURS[template]]
    for name in {name for each in given for name in each}:
        texts = [renderer.render(template, each | {name: "@another@"}) for each in given]
        reaches = any("@another@" in text for text in texts)
        assert reaches != ((template, name) in UNWRITTEN), f"{template}: {name}"


@pytest.mark.parametrize(
    ("template", "swap"),
    [("gemm/kernel.cu.j2", swap) for swap in (False, True)]
    + [("blockscaled_gemm/blackwell.cu.j2", swap) for swap in (False, True)],
)
def test_a_source_swaps_its_operands_where_its_configuration_does(template: str, swap: bool) -> None:
    renderer = Renderer(Project.find(ROOT))
    kernels = [each for each in OURS[template] if each[1].config.swap_ab == swap]
    assert kernels
    for family, kernel in kernels:
        text = renderer.render(template, variables(family, kernel))
        assert f"static constexpr bool kSwapAB = {str(swap).lower()};" in text
