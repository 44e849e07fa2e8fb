"""The family that `tilewright new-family` writes, on a GPU: built, run, and compared with float64."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from family_project import NAME, FamilyProject

from tilewright.compile.nvcc.toolchain import find_toolchain
from tilewright.errors import ToolchainError


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> FamilyProject:
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("kernels of sm_90a")
    try:
        find_toolchain()
    except ToolchainError as error:
        pytest.skip(f"no toolchain: {error}")
    family = FamilyProject(tmp_path_factory.mktemp("new_family"))
    for command in ("generate", "build"):
        answer = family.tilewright(command)
        assert answer.code == 0, answer.err
    return family


@pytest.mark.parametrize("shape", ["4x32", "1x128", "1x512"])
@pytest.mark.parametrize(("m", "n"), [(1, 1), (301, 1000), (4096, 4096)])
@pytest.mark.parametrize("dtype", ["bf16", "f32"])
def test_it_runs(family: FamilyProject, dtype: str, m: int, n: int, shape: str) -> None:
    kernel = f"{NAME}_sm90_{dtype}_{shape}"
    sizes = ("-m", str(m), "-n", str(n), "--dtype", dtype)
    answer = family.tilewright("run", NAME, *sizes, "--kernel", kernel, "--json")
    assert answer.code == 0, answer.out + answer.err
    assert kernel in json.dumps(json.loads(answer.out))


def test_an_op_of_the_family_in_a_program(family: FamilyProject, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(f"""\
import tilewright, torch
from tilewright_families.{NAME}.reference import reference
wide = torch.randn(64, 1100, device="cuda")
x, out = wide[:, :1000], torch.full_like(wide, 7.0)
assert tilewright.{NAME}(x, eps=0.25, out=out[:, :1000]).data_ptr() == out.data_ptr()
torch.testing.assert_close(out[:, :1000].double(), reference(x, eps=0.25), rtol=1e-5, atol=0)
assert (out[:, 1000:] == 7).all()
""")
    answer = family.run(str(program), TILEWRIGHT_GENERATED=str(family.root / "generated"))
    assert answer.code == 0, answer.err
