"""What `import tilewright` offers: names that are looked up when they are asked for."""

from __future__ import annotations

import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import tilewright
from tilewright import context as contexts
from tilewright.declarations import catalog


def test_everything_is_listed() -> None:
    names = {"gemm", "mm_nvfp4", "quantize_mxfp8", "plan", "tune", "errors", "scale_factors", "Registry"}
    assert names <= set(dir(tilewright))
    assert [name for name in dir(tilewright) if not name.startswith("__")] == sorted(tilewright.__all__)
    assert tilewright.errors.ArgumentError.__mro__[1] is tilewright.TilewrightError
    assert all(hasattr(tilewright, name) for name in names)


def test_a_registry_shows_what_it_holds() -> None:
    registry = tilewright.Registry("shipped")
    kernels = sum(len(table) for table in registry.tables.values())
    assert repr(registry) == f"<Registry: {kernels} kernels in {len(registry.tables)} modules of shipped>"


def test_a_name_that_there_is_not() -> None:
    with pytest.raises(AttributeError, match="module 'tilewright' has no attribute 'gem'") as caught:
        tilewright.gem  # noqa: B018 (the lookup is what is tested)
    assert (caught.value.name, caught.value.obj) == ("gem", tilewright)  # what Python suggests another by


def test_all_says_what_there_is() -> None:
    ops = set(tilewright._ops())
    assert list(tilewright.__all__) == sorted({*tilewright._HOMES, *tilewright._MODULES, *ops})
    assert all(hasattr(tilewright, name) for name in tilewright.__all__)


@pytest.mark.parametrize(("family", "op"), [("quantize", "quantize_nvfp4"), ("blockscaled_gemm", "mm_nvfp4")])
def test_a_family_is_no_op_and_its_ops_are_named(family: str, op: str) -> None:
    with pytest.raises(AttributeError, match=rf"the ops of that family are .*tilewright\.{op},"):
        getattr(tilewright, family)


def without_torch(code: str) -> str:
    """What a program prints where torch cannot be imported."""
    code = f"import sys; sys.modules['torch'] = None\nimport tilewright\n{code}"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_without_torch_a_call_of_an_op_says_what_to_install() -> None:
    said = without_torch(
        "tilewright.errors, tilewright.Registry, tilewright.kernels\n"
        "for work in (lambda: tilewright.gemm(1, b=2), lambda: tilewright.reference):\n"
        "    try:\n        work()\n"
        "    except ModuleNotFoundError as error:\n        print(error)\n"
    )
    assert said.splitlines() == [
        f"tilewright.{name} needs torch: pip install 'tilewright[torch]'" for name in ("gemm", "reference")
    ]


OPS = [name for name in tilewright.__all__ if name in tilewright._ops()]


def test_without_torch_help_is_the_same() -> None:
    """The signature and the docstring of every op, as where torch is."""
    said = without_torch(
        "import inspect, json\n"
        f"functions = {{op: getattr(tilewright, op) for op in {[*OPS, 'plan']}}}\n"
        "signatures = {op: inspect.signature(function) for op, function in functions.items()}\n"
        "print(json.dumps({op: [inspect.getdoc(function), [*signatures[op].parameters], str(signatures[op])]"
        " for op, function in functions.items()}))"
    )
    actual = json.loads(said)
    for op, (doc, names, _) in actual.items():
        real = getattr(tilewright, op)
        assert doc == inspect.getdoc(real), op
        assert names == list(inspect.signature(real).parameters), op
    assert "out_dtype: torch.dtype = torch.bfloat16" in actual["mm_nvfp4"][2]
    said = without_torch("help(tilewright.gemm)")
    signature = "".join(said.split())  # Python 3.14 puts each parameter on a line
    assert "gemm(a:torch.Tensor,b:torch.Tensor,*,out:torch.Tensor|None=None" in signature


def test_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    actual = tilewright.kernels("gemm", a="bf16", tile="128x128x*", swap_ab=False, arch="sm90")
    assert actual.names == [record.name for record in actual]
    assert len(actual) > 3
    assert all(record.config["tile"][:2] == [128, 128] and not record.config["swap_ab"] for record in actual)
    said = repr(actual).splitlines()
    assert said[0] == f"{len(actual)} kernels of gemm:"
    assert said[1] == f"  {actual[0].name}"
    assert any(line.startswith("  layout: nn, ") for line in said)
    assert repr(actual[:1]).splitlines() == ["1 kernel of gemm:", f"  {actual[0].name}"]
    assert "  ... and " in repr(tilewright.kernels("quantize"))
    monkeypatch.setenv("COLUMNS", "80")
    shown = repr(tilewright.kernels("gemm", a="bf16")).splitlines()
    tiles = next(line for line in shown if line.startswith("  tile: "))
    assert re.search(r"\dx\d+x\d+, \.\.\.$", tiles), tiles  # whole values, and a sign that there are more
    nothing = tilewright.kernels("gemm", a="bf61", b="bf16")
    assert repr(nothing).startswith("0 kernels of gemm; a is one of: ")
    assert "bf16" in repr(nothing)
    assert repr(nothing).endswith("; did you mean 'bf16'?")
    with pytest.raises(IndexError, match="did you mean 'bf16'"):
        nothing[0]
    assert repr(tilewright.kernels("gemm", a="bf16", b="e4m3")) == "0 kernels of gemm"
    assert "; tile is one of: " in repr(tilewright.kernels("gemm", tile="1x1x1"))
    assert tilewright.kernels("gemm", name="*_pingpong_swap,*_bias", m_tile=64)


@pytest.mark.parametrize(
    ("family", "filters", "said"),
    [
        ("gemn", {}, "family: there are no kernels of gemn; did you mean 'gemm'?"),
        (
            "scaled_gemm",
            {},
            "family: there are no kernels of scaled_gemm; scaled_gemm is an op of grouped_gemm",
        ),
        (
            "x",
            {},
            f"family: there are no kernels of x; there are: {', '.join(catalog.names())}",
        ),
        ("gemm", {"tiel": 1}, "tiel: is no field of gemm's kernels; did you mean 'tile'?"),
    ],
)
def test_kernels_that_there_are_not(family: str, filters: dict[str, int], said: str) -> None:
    with pytest.raises(tilewright.errors.ArgumentError) as caught:
        tilewright.kernels(family, **filters)
    assert str(caught.value) == said


def test_kernels_of_a_folder_without_them(tmp_path: Path) -> None:
    empty = contexts.Context(tilewright.Registry(tmp_path / "none"))
    with contexts.use(empty), pytest.raises(tilewright.errors.TableError, match="none is no folder"):
        tilewright.kernels("gemm")


def test_the_package_of_a_zip_file_says_that_it_has_no_kernels(tmp_path: Path) -> None:
    """zipimport finds the modules, and nothing else of the package can be read as files."""
    package = Path(tilewright.__file__).parent
    with zipfile.ZipFile(tmp_path / "tilewright.zip", "w") as archive:
        for path in package.rglob("*.py"):
            archive.write(path, path.relative_to(package.parent))
    code = f"""
import sys
sys.path.insert(0, {str(tmp_path / "tilewright.zip")!r})
import tilewright
try:
    tilewright.kernels("gemm")
except tilewright.errors.TableError as error:
    print(error)
"""
    settings = {name: value for name, value in os.environ.items() if name != "TILEWRIGHT_GENERATED"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=settings, capture_output=True, text=True, check=True
    )
    assert done.stdout.endswith("imported without its kernels, as from a zip file. Install its wheel.\n")


def test_a_project_may_lack_a_family_whose_op_has_its_name(tmp_path: Path) -> None:
    module = next(
        table.folder for table in contexts.current().registry.tables.values() if table.family == "gemm"
    )
    shutil.copytree(module, tmp_path / module.name)
    own = contexts.Context(tilewright.Registry(tmp_path))
    with contexts.use(own), pytest.raises(tilewright.errors.ArgumentError) as caught:
        tilewright.kernels("hc_prenorm")
    assert str(caught.value) == "family: there are no kernels of hc_prenorm; there are: gemm"


def test_the_context_is_there_after_the_import() -> None:
    """As docs/use.md uses it; no module is imported for it before."""
    program = (
        "import sys, tilewright; assert 'tilewright.context' not in sys.modules\n"
        "context = tilewright.Context()\n"
        "with tilewright.context.use(context): assert tilewright.context.current() is context\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
