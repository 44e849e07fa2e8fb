"""What `tilewright bench compare --build` builds."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_modules import Mini

from tilewright.compile.nvcc.toolchain import NvccToolchain
from tilewright.errors import BuildError
from tilewright.libraries.registry import Registry
from tilewright.tools.benchmarking import groups


@pytest.mark.compile
def test_exactly_the_kernels_that_are_missing(
    tmp_path: Path, toolchain: NvccToolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))
    generated = tmp_path / "generated"
    Mini(generated, "alpha").add("one").add("two").table()
    Mini(generated, "beta").add("three").add("broken", "this is no CUDA {name}").table()
    registry = Registry(generated)
    assert not registry.is_built(registry.record("one"))
    groups.build([registry.record("one"), registry.record("three")], registry)
    built = {name: registry.is_built(registry.record(name)) for name in ("one", "two", "three", "broken")}
    assert built == {"one": True, "two": False, "three": True, "broken": False}
    with pytest.raises(BuildError, match="broken"):
        groups.build([registry.record("two"), registry.record("broken")], registry)
    assert registry.is_built(registry.record("three")), "what was built stays"
