"""Discovery, with the real compilers of this machine."""

from __future__ import annotations

import importlib.metadata
import platform
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from small_modules import python, toolchain_expected

from tilewright.compile.compiler_cache import default_launcher
from tilewright.compile.nvcc.cutlass import find_cutlass
from tilewright.compile.nvcc.toolchain import NvccToolchain, find_toolchain
from tilewright.compile.system import package_folders
from tilewright.compile.toolchain import find_host_toolchain
from tilewright.errors import ToolchainError

VARIABLES = ("CUDA_HOME", "CUDA_PATH", "CUTLASS_PATH", "CXX", "NVCC_APPEND_FLAGS", "NVCC_PREPEND_FLAGS")


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def only_gcc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A PATH with g++ and what it runs, and no nvcc, cuobjdump or ninja."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("g++", "as", "ld"):
        if actual := shutil.which(name):
            (folder / name).symlink_to(actual)
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.fixture
def wheels() -> Path:
    for folder in package_folders("nvidia"):
        if (folder / "cu13" / "bin" / "nvcc").exists():
            return folder / "cu13"
    assert not toolchain_expected(), "the toolchain's wheels are not where they are looked for"
    pytest.skip("the toolchain's wheels are not installed")


def test_the_wheels_suffice(only_gcc: Path, wheels: Path) -> None:
    actual = find_toolchain()
    assert actual.nvcc_origin == "pip wheels"
    assert actual.nvcc == wheels / "bin" / "nvcc"
    assert (actual.include / "cuda_runtime_api.h").is_file()
    assert (actual.lib / "libcudart_static.a").is_file()
    assert actual.release == "13.0.88"
    assert (actual.cutlass / "cutlass" / "cutlass.h").is_file()
    assert actual.cutlass_version == "4.2.0"
    assert {90, 100, 103, 110, 120, 121} <= actual.gpu_codes
    assert actual.cuobjdump == wheels / "bin" / "cuobjdump"


def test_only_a_machine_that_needs_no_toolchain_may_lack_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", absent)
    monkeypatch.delenv("CI", raising=False)
    assert not toolchain_expected()
    monkeypatch.setenv("CI", "true")
    assert toolchain_expected()


def test_what_nvcc_runs_is_found(only_gcc: Path, wheels: Path) -> None:
    actual = find_toolchain()
    assert [path.name for path in actual.parts] == [
        "cicc",
        "cudafe++",
        "ptxas",
        "fatbinary",
        "libdevice.10.bc",
    ]
    assert all(path.resolve().is_relative_to(wheels.resolve()) for path in actual.parts)
    assert actual.machine == platform.machine()


def test_order_is_flag_then_cuda_home_then_path_then_wheels(
    monkeypatch: pytest.MonkeyPatch, only_gcc: Path, wheels: Path, tmp_path: Path
) -> None:
    (only_gcc / "nvcc").write_text(f'#!/bin/sh\nexec {wheels}/bin/nvcc "$@"\n')
    (only_gcc / "nvcc").chmod(0o755)
    assert find_toolchain().nvcc == only_gcc / "nvcc"  # a wrapper: the toolkit is found through it
    assert find_toolchain().root == wheels.resolve()
    home = tmp_path / "home"
    home.symlink_to(wheels)
    monkeypatch.setenv("CUDA_HOME", str(home))
    assert find_toolchain().nvcc_origin == "CUDA_HOME"
    assert find_toolchain(nvcc=wheels / "bin" / "nvcc").nvcc_origin == "--nvcc"
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "empty"))
    assert find_toolchain().nvcc_origin == "PATH"


def test_nothing_found_names_every_place_and_the_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CUDA_HOME", "/nowhere")
    for module in ("toolchain", "cutlass"):
        monkeypatch.setattr(f"tilewright.compile.nvcc.{module}.package_folders", lambda name: ())
    with pytest.raises(ToolchainError) as caught:
        find_toolchain()
    said = str(caught.value)
    for part in (
        "no usable nvcc and no usable host compiler; tried",
        "nvcc from CUDA_HOME: /nowhere/bin/nvcc is not an executable file",
        "nvcc from PATH: not there",
        "nvcc from pip wheels: not there",
        "host compiler from PATH: no g++",
        "pip install 'tilewright[toolchain]'",
    ):
        assert part in said
    assert caught.value.exit_code == 2


def test_an_explicit_choice_is_never_replaced(toolchain: NvccToolchain, tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match=r"nvcc from --nvcc: .*/nvcc is not an executable"):
        find_toolchain(nvcc=tmp_path / "nvcc")
    with pytest.raises(ToolchainError, match=r"CUTLASS from --cutlass: no include/cutlass/cutlass\.h"):
        find_toolchain(cutlass=tmp_path)
    for place in (toolchain.cutlass, toolchain.cutlass.parent):  # the tree, or its include folder
        assert find_toolchain(cutlass=place).cutlass == toolchain.cutlass


def test_only_what_is_missing_is_told(toolchain: NvccToolchain, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what mends it: nobody installs a compiler because an option names the wrong place."""
    with pytest.raises(ToolchainError) as caught:
        find_toolchain(nvcc="/nope")
    assert str(caught.value).splitlines() == [
        "no usable nvcc; tried",
        "  nvcc from --nvcc: /nope is not an executable file",
        "--nvcc names the one place to look: give it the path of an nvcc, or leave it out.",
    ]
    with pytest.raises(ToolchainError) as caught:
        find_toolchain(cutlass="/nope")
    assert str(caught.value).splitlines() == [
        "no usable CUTLASS; tried",
        "  CUTLASS from --cutlass: no include/cutlass/cutlass.h in /nope",
        "--cutlass names the one place to look: give it the path of its headers, or leave it out.",
    ]
    monkeypatch.setenv("CXX", "/nope/g++")
    with pytest.raises(ToolchainError) as caught:
        find_toolchain()
    assert str(caught.value).splitlines() == [
        "no usable host compiler; tried",
        "  host compiler from CXX: no /nope/g++",
        "Set CXX to a C++17 compiler, or unset it: g++ is taken then.",
    ]


def test_an_option_counts_more_than_a_variable(
    toolchain: NvccToolchain, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The option wins over a variable that names other headers, or a folder without any."""
    for name in ("option", "variable"):
        header = tmp_path / name / "include" / "cutlass" / "cutlass.h"
        header.parent.mkdir(parents=True)
        header.touch()
    monkeypatch.setenv("CUTLASS_PATH", str(tmp_path / "variable"))
    assert find_cutlass(tmp_path / "option", []) == tmp_path / "option" / "include"
    assert find_cutlass(None, []) == tmp_path / "variable" / "include"
    tried: list[str] = []
    assert find_cutlass(tmp_path / "nothing", tried) is None, "it is never replaced"
    assert tried == [f"CUTLASS from --cutlass: no include/cutlass/cutlass.h in {tmp_path / 'nothing'}"]


def test_a_wrong_cutlass_path_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CUTLASS_PATH", str(tmp_path))
    with pytest.raises(ToolchainError, match="CUTLASS from CUTLASS_PATH: no include") as caught:
        find_toolchain()
    assert str(caught.value).endswith(
        "CUTLASS_PATH names the one place to look: give it the path of its headers, or leave it out."
    )


def test_an_old_nvcc_is_passed_over_with_the_reason(tmp_path: Path) -> None:
    old = tmp_path / "nvcc"
    old.write_text('#!/bin/sh\necho "Cuda compilation tools, release 11.5, V11.5.119"\n')
    old.chmod(0o755)
    with pytest.raises(ToolchainError, match=r"is release 11\.5, needs 12\.8 or newer"):
        find_toolchain(nvcc=old)


def test_the_oldest_nvcc_that_is_supported_is_taken(toolchain: NvccToolchain, tmp_path: Path) -> None:
    nvcc = tmp_path / "nvcc"
    for release, enough in (("12.7", False), ("12.8", True)):
        version = f"Cuda compilation tools, release {release}, V{release}.61"
        script = f'[ "$1" = --version ] && echo "{version}" || exec {toolchain.nvcc} "$@"'
        nvcc.write_text(f"#!/bin/sh\n{script}\n")
        nvcc.chmod(0o755)
        if enough:
            assert find_toolchain(nvcc=nvcc).nvcc_version == version
        else:
            with pytest.raises(ToolchainError, match=f"is release {release}, needs 12.8 or newer"):
                find_toolchain(nvcc=nvcc)


def test_objects_of_another_machine_are_others(toolchain: NvccToolchain) -> None:
    assert replace(toolchain, machine="another").identity != toolchain.identity


def test_cxx_chooses_the_host_compiler(monkeypatch: pytest.MonkeyPatch, toolchain: NvccToolchain) -> None:
    monkeypatch.setenv("CXX", "g++ -m64")
    actual = find_toolchain()
    assert actual.host == (shutil.which("g++"), "-m64")
    assert actual.identity != toolchain.identity
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(ToolchainError, match="host compiler from CXX: no no-such-compiler") as caught:
        find_toolchain()
    assert "pip install" not in str(caught.value)
    for launcher in ("ccache", "sccache", "distcc"):
        monkeypatch.setenv("CXX", f"{launcher} g++")
        assert find_toolchain().host == toolchain.host


def test_headers_that_a_link_of_the_system_leads_to_are_the_systems(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    include, target = tmp_path / "include", tmp_path / "uapi/asm"
    (include / "asm").mkdir(parents=True)
    target.mkdir(parents=True)
    (target / "types.h").touch()
    (include / "asm/types.h").symlink_to(target / "types.h")
    monkeypatch.setenv("CXX", f"g++ -isystem {include}")
    assert {include, target} <= {*find_host_toolchain().system_includes}


def test_variables_that_add_flags_are_part_of_the_identity(
    monkeypatch: pytest.MonkeyPatch, toolchain: NvccToolchain
) -> None:
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "-G")
    assert find_toolchain().identity != toolchain.identity


def test_it_imports_neither_cutlass_library_nor_torch(toolchain: NvccToolchain) -> None:
    code = (
        "import sys; from tilewright.compile.nvcc.toolchain import find_toolchain; find_toolchain();"
        "import tilewright.compile.building, tilewright.compile.unit;"
        "bad = {'cutlass_library', 'torch', 'tvm_ffi', 'click', 'jinja2'} & set(sys.modules);"
        "sys.exit(' '.join(bad) or 0)"
    )
    command, environment = python(code)
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    "arch",
    [
        "sm_90a",
        "sm_100a",
        "sm_100f",
        "sm_103a",
        "sm_103f",
        "sm_110a",
        "sm_110f",
        "sm_120a",
        "sm_120f",
        "sm_121a",
    ],
)
def test_nvcc_knows_every_target_that_routing_knows(toolchain: NvccToolchain, arch: str) -> None:
    toolchain.require(arch)


@pytest.mark.parametrize(
    ("arch", "said"),
    [
        ("sm_999a", r"it knows .*sm_121"),
        ("sm_90f", "Unsupported gpu architecture 'compute_90f'"),  # Hopper has no family
        ("sm_100x", "it knows"),
        ("compute_100a", "it knows"),
    ],
)
def test_other_targets_are_refused_before_anything_is_compiled(
    toolchain: NvccToolchain, arch: str, said: str
) -> None:
    with pytest.raises(ToolchainError, match=f"cannot compile for {arch}.*{said}"):
        toolchain.require(arch)


@pytest.mark.parametrize("name", ["CXX", "TILEWRIGHT_LAUNCHER"])
def test_a_quote_that_is_left_open(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "ccache 'g++")
    with pytest.raises(ToolchainError, match=f"{name} is .*, which is no command: No closing quotation"):
        find_toolchain() if name == "CXX" else default_launcher()
