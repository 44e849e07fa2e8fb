"""What is asked of the driver about clusters, with `driver.cc` as the driver, which reads the structures of
cuda.h."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import pytest

from tilewright.architectures import occupancy
from tilewright.compile.nvcc.toolchain import find_toolchain

pytestmark = pytest.mark.compile

MOST = 232448  # bytes of shared memory that a thread block of sm_90 may have


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> str:
    toolchain = find_toolchain()
    library = tmp_path_factory.mktemp("driver") / "libcuda.so.1"
    source = Path(__file__).with_name("driver.cc")
    command = [*toolchain.host, "-std=c++17", "-shared", "-fPIC", f"-isystem{toolchain.include}", str(source)]
    subprocess.run([*command, "-o", str(library)], check=True)
    return str(library)


def left_over(driver: str) -> int:
    return int(ctypes.CDLL(driver).left_over())


def test_clusters_are_counted_as_the_driver_does(driver: str) -> None:
    assert occupancy.clusters_at_once(0, MOST, driver) == (132, 66, 42, 32, 24, 18, 16, 16)
    # Its parts are others.
    assert occupancy.clusters_at_once(1, MOST, driver) == (130, 65, 41, 31, 23, 18, 16, 15)
    assert left_over(driver) == 0


def test_nothing_is_known_where_the_driver_does_not_say(
    driver: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert occupancy.clusters_at_once(0, MOST, str(tmp_path / "libcuda.so.1")) == ()  # there is none
    assert occupancy.clusters_at_once(2, MOST, driver) == ()  # no such GPU
    assert occupancy.clusters_at_once(0, MOST, "libc.so.6") == ()  # it lacks the functions
    monkeypatch.setenv("FAKE_DRIVER", "old")
    assert occupancy.clusters_at_once(0, MOST, driver) == ()
    assert left_over(driver) == 0
