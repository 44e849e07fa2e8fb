"""The corpus: each template is refused with its line, and the faults of each spec are told."""

from __future__ import annotations

import re
import resource
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fuzz_corpus import REFUSED_TEMPLATES, SPECS

from tilewright_generator import generation
from tilewright_generator.errors import SpecError, UsageError
from tilewright_generator.project import Project
from tilewright_generator.render import Renderer

MOST_BYTES = 512 << 20  # beside what the process has


@pytest.fixture
def bounded() -> Iterator[None]:
    """What would take a machine's memory is a MemoryError."""
    before = resource.getrlimit(resource.RLIMIT_DATA)
    status = Path("/proc/self/status").read_text(encoding="ascii")
    data = int(re.search(r"VmData:\s+(\d+)", status)[1]) << 10  # type: ignore[index]
    resource.setrlimit(resource.RLIMIT_DATA, (data + MOST_BYTES, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_DATA, before)


@pytest.mark.usefixtures("bounded")
@pytest.mark.skipif(sys.platform != "linux", reason="memory is bounded as Linux does it")
@pytest.mark.parametrize("number", range(len(REFUSED_TEMPLATES)))
@pytest.mark.parametrize("name", ["kernel.cu.j2", "table.cc.j2"])
def test_a_hostile_template_is_refused_with_its_line(number: int, name: str, tmp_path: Path) -> None:
    path = tmp_path / "templates/tiny" / name
    path.parent.mkdir(parents=True)
    path.write_text(f"// first\n{REFUSED_TEMPLATES[number]}\n", encoding="utf-8")
    renderer = Renderer(Project(tmp_path, tmp_path / "generated"))
    given = {"name": "tiny_bf16_128x128x64_1x1", "spec": "specs/small.yaml", "kernels": ["a", "b"]}
    with pytest.raises(UsageError) as caught:
        renderer.render(f"tiny/{name}", given)
    assert not isinstance(caught.value.__cause__, MemoryError)
    said = caught.value.message
    if "cannot read the template" not in said and "names what it includes" not in said:
        assert re.search(rf"tiny/{re.escape(name)}:[12]: |tiny/kernel\.cu\.j2", said), said


@pytest.mark.usefixtures("bounded")
@pytest.mark.skipif(sys.platform != "linux", reason="memory is bounded as Linux does it")
@pytest.mark.parametrize("name", SPECS)
def test_a_hostile_spec_has_its_faults_told(name: str, tmp_path: Path) -> None:
    project = Project(tmp_path, tmp_path / "generated")
    (tmp_path / "specs").mkdir()
    for number in (3, 300):
        (tmp_path / "specs/small.yaml").write_text(SPECS[name](number), encoding="utf-8")
        if name == "fragments used":
            assert len(generation.read(project, project.specs())[0].kernels) == 1
            continue
        with pytest.raises(SpecError) as caught:
            generation.read(project, project.specs())
        assert caught.value.message.startswith("specs/small.yaml:")
