"""Bundles that are spoilt, foreign or made elsewhere: loading refuses them, and says why."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import tilewright
from tilewright import bundle
from tilewright.errors import BundleError, UnreadableFileError


def _no_manifest(folder: Path) -> None:
    (folder / "bundle.json").unlink()


def _other_format(folder: Path) -> None:
    _edit(folder, '"format": 1', '"format": 99')


def _other_release(folder: Path) -> None:
    _edit(folder, f'"tilewright": "{tilewright.__version__}"', '"tilewright": "0.0.1"')


def _other_source(folder: Path) -> None:
    _edit(folder, '"made_of": "', '"made_of": "0')


def _unknown_kernel(folder: Path) -> None:
    _edit(folder, '"host_bf16_tn', '"host_gone')


def _no_library(folder: Path) -> None:
    shutil.rmtree(folder / "libraries")


def _other_headers(folder: Path) -> None:
    (description,) = folder.glob("libraries/*/*/library.json")
    content = json.loads(description.read_text())
    content["headers"]["tilewright/abi.h"] = "0"
    description.write_text(json.dumps(content))


def _damaged_library(folder: Path) -> None:
    (library,) = folder.glob("libraries/*/*/*.so")
    data = bytearray(library.read_bytes())
    data[len(data) // 2] ^= 1
    library.write_bytes(data)


def _edit(folder: Path, old: str, new: str) -> None:
    text = (folder / "bundle.json").read_text()
    assert old in text
    (folder / "bundle.json").write_text(text.replace(old, new))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_no_manifest, "is no bundle: there is no bundle.json in it"),
        (_other_format, "has format 99, this tilewright reads 1"),
        (_other_release, "was made by tilewright 0.0.1, this is"),
        (_other_source, "has another source, or other flags, than when the bundle was made"),
        (_unknown_kernel, "no table lists a kernel named host_gone"),
        (_no_library, "no library of host_gemm holds host_bf16_tn"),
        (_damaged_library, "is damaged"),
        (_other_headers, "it was built with another version of the header tilewright/abi.h"),
    ],
)
def test_a_spoilt_or_foreign_bundle_is_refused(
    spoil: Callable[[Path], None], message: str, made: Path, without_compiler: None, tmp_path: Path
) -> None:
    shutil.copytree(made, tmp_path / "copy")
    spoil(tmp_path / "copy")
    with pytest.raises(BundleError) as refused:
        bundle.load(tmp_path / "copy")
    assert message in refused.value.message
    assert str(tmp_path / "copy") in refused.value.message


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("values", [9, 8, 1], "values: expected the first, the last and a step of at least 1, got [9, 8, 1]"),
        ("values", [1, 8, 0], "values: expected the first, the last and a step of at least 1, got [1, 8, 0]"),
        ("choices", [], "choices: expected values that begin with 1 and grow, got []"),
        ("choices", [[2, 0]], "choices: expected values that begin with 1 and grow, got [2]"),
        ("choices", [[1, 0], [9, 0], [3, 0]], "choices: expected values that begin with 1 and grow, got"),
        ("choices", [[1, 99]], "choices: expected a number below"),
        ("family", "gem", "family: there is no family named 'gem'"),
        ("extent", "layout", "extent: expected one of m, n, k, batch, got 'layout'"),
        ("fields", {"n": 8, "q": 1}, "fields: 'q' is no field of a problem of gemm"),
        ("fields", {"n": [1]}, "fields.n: expected text or true or false or a number"),
    ],
)
def test_a_damaged_list_is_refused(
    field: str, value: list[object], message: str, made: Path, tmp_path: Path
) -> None:
    """A tactic that the list does not have, or none for some value, would end a later call, or choose another
    tactic."""
    shutil.copytree(made, tmp_path / "copy")
    path = tmp_path / "copy" / "bundle.json"
    content = json.loads(path.read_text())
    content["problems"][0][field] = value
    path.write_text(json.dumps(content))
    with pytest.raises(UnreadableFileError) as refused:
        bundle.load(tmp_path / "copy")
    assert refused.value.message.startswith(f"{path}: problems[0]")
    assert message in refused.value.message
