"""Defaults that follow from another field: of `gemm` the mainloop says them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from command_line import Command

from tilewright.configurations.shapes import Cluster
from tilewright.families.gemm.config import GemmConfig
from tilewright_generator import families, generation
from tilewright_generator.project import Project

BF16 = "a: bf16, b: bf16, d: bf16"


def configurations(tmp_path: Path, *groups: str) -> list[GemmConfig]:
    """The configurations of the kernels that a spec of these groups makes."""
    spec = tmp_path / "specs" / "x.yaml"
    spec.parent.mkdir()
    lines = "".join(f"  - {{{group}}}\n" for group in groups)
    spec.write_text(f"family: gemm\narch: sm_90a\nconfigs:\n{lines}")
    (expansion,) = generation.read(Project.find(tmp_path), [spec])
    return [kernel.config for kernel in expansion.kernels]


def test_types_and_a_tile_are_a_whole_group(tmp_path: Path) -> None:
    (config,) = configurations(tmp_path, f"{BF16}, tile: 128x128x64")
    assert (config.mainloop, config.cluster, config.bias) == ("lean", "dynamic", True)


def test_every_combination_has_the_defaults_of_its_own_mainloop(tmp_path: Path) -> None:
    lean, cutlass = configurations(tmp_path, f"{BF16}, tile: 128x128x64, mainloop: [lean, cutlass]")
    assert (lean.cluster, lean.bias) == ("dynamic", True)
    assert (cutlass.cluster, cutlass.bias) == (Cluster(1, 1), False)


def test_a_stream_kernel_is_settled_by_its_mainloop(tmp_path: Path) -> None:
    (config,) = configurations(tmp_path, f"{BF16}, tile: 16x8x64, mainloop: stream")
    assert (config.swap_ab, config.bias, config.cluster) == (True, True, Cluster(1, 1))


def test_what_a_group_gives_wins(tmp_path: Path, tilewright: Command) -> None:
    group = f"{BF16}, tile: 128x128x64, mainloop: cutlass, cluster: 2x1, bias: true"
    (config,) = configurations(tmp_path, group)
    assert (config.cluster, config.bias) == (Cluster(2, 1), True)
    spec = tmp_path / "specs" / "x.yaml"
    spec.write_text(f"family: gemm\narch: sm_90a\nconfigs:\n  - {{{BF16}, tile: 128x128x64, bias: false}}\n")
    answer = tilewright("check", "--root", tmp_path)
    assert answer.code == 2
    assert "settled_fields: bias of lean kernels is true, not false" in answer.err


@pytest.mark.parametrize(("excluded", "code"), [("dynamic", 1), ("1x1", 1), ("2x1", 2)])
def test_an_exclude_may_name_a_default_that_follows(
    tmp_path: Path, tilewright: Command, excluded: str, code: int
) -> None:
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "x.yaml").write_text(
        f"family: gemm\narch: sm_90a\nconfigs:\n  - {{{BF16}, tile: 128x128x64, mainloop: [lean, cutlass], "
        f"exclude: {{cluster: {excluded}, reason: slow}}}}\n"
    )
    answer = tilewright("check", "--root", tmp_path)  # 1: the kernel that is left is not generated
    assert answer.code == code, answer.err
    assert ("this group has no cluster 2x1" in answer.err) == (code == 2)


def test_explain_says_that_a_settled_value_is_a_default(tilewright: Command) -> None:
    terms = ("arch=sm_90a", "a=bf16", "b=bf16", "d=bf16", "tile=192x96x64", "swap_ab=true")
    legal = tilewright("explain", "gemm", *terms).out
    fields = [line.split() for line in legal.splitlines() if re.match(r" {2}\S", line)]
    origins = {name: words[:2] for name, *words in fields}
    assert origins["cluster"] == ["dynamic", "default"]
    assert origins["swap_ab"] == ["true", "given"]


def test_the_dataclass_still_says_what_a_row_of_an_older_table_means() -> None:
    family = families.get("gemm")
    config = GemmConfig("sm_90a", "bf16", "bf16", "bf16", (128, 128, 64))  # type: ignore[arg-type]
    assert (config.mainloop, config.cluster, config.bias) == ("cutlass", Cluster(1, 1), False)
    assert family.defaults({})["mainloop"] == "lean"
