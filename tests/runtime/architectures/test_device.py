from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from tilewright.architectures.device import DESCRIBED, H200, from_torch
from tilewright.architectures.routing import families

# As torch 2.8 reports an H200; the clocks are in kHz, the bus in bits.
RATES = {"clock_rate": 1_980_000, "memory_clock_rate": 3_201_000, "memory_bus_width": 6144}
PLAIN = {"name": "NVIDIA H200", "major": 9, "minor": 0, "L2_cache_size": 60 * 2**20}
PLAIN["shared_memory_per_block_optin"] = 227 * 1024


def properties(**fields: Any) -> SimpleNamespace:
    return SimpleNamespace(**{**PLAIN, "multi_processor_count": 132, **fields})


def test_what_torch_reports_is_taken(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "tilewright")
    actual = from_torch(properties(**RATES))
    assert actual.memory_bandwidth == pytest.approx(H200.memory_bandwidth, rel=0.03)
    assert (actual.clock_hz, actual.l2_bytes, actual.capability) == (1.98e9, 60 * 2**20, (9, 0))
    assert actual.shared_memory == H200.shared_memory
    assert caplog.text == ""


def test_what_torch_does_not_report_is_scaled_and_said(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "tilewright")
    small = from_torch(properties(name="a third of it", multi_processor_count=44))
    assert small.clock_hz == H200.clock_hz
    assert small.memory_bandwidth == pytest.approx(H200.memory_bandwidth / 3)
    assert small.l2_bytes == 60 * 2**20
    assert "does not report clock_hz of a third of it" in caplog.text
    assert "does not report memory_bandwidth of a third of it: taken as 1.6e+12" in caplog.text
    assert "l2_bytes" not in caplog.text


def test_clusters_that_are_not_known_cover_a_share() -> None:
    asked = H200._replace(clusters=(132, 66, 42, 32, 24, 18, 16, 16))
    unknown = H200._replace(clusters=())
    assert [asked.clusters_at_once(size) for size in (1, 2, 3, 4, 6, 8)] == [132, 66, 42, 32, 18, 16]
    assert [unknown.clusters_at_once(size) for size in (1, 2, 4, 8)] == [132, 66, 30, 15]
    assert unknown._replace(sm_count=4).clusters_at_once(8) == 1


def test_described_devices_are_of_known_families() -> None:
    assert {device.capability for device in DESCRIBED.values()} == {
        (9, 0), (10, 0), (10, 3), (10, 7), (11, 0), (12, 0), (12, 1),
    }  # fmt: skip
    for device in DESCRIBED.values():
        assert device.capability[0] in families()
        # 12.x has 100 KiB an SM, 10.7 has 328, the others 228; a block gets all but one.
        own = {(12, 0): 99, (12, 1): 99, (10, 7): 327}.get(device.capability, 227)
        assert device.shared_memory == own * 1024
        assert 1e9 < device.clock_hz < 3e9
        assert 1e9 < device.memory_bandwidth / device.sm_count < 100e9
