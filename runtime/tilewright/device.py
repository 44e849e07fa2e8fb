"""What the runtime knows of a GPU: the seam between it and the hardware.

Routing, rules, cost model and messages take a `DeviceProperties`, never a device: tests, and machines
without a GPU, describe one.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tilewright.routing import Capability

log = logging.getLogger("tilewright")


@dataclass(frozen=True, slots=True)
class DeviceProperties:
    """A GPU, as far as kernels are chosen by it."""

    name: str
    capability: Capability
    sm_count: int
    clock_hz: float  # of the SMs, the highest
    memory_bandwidth: float  # bytes a second, as the interface is rated
    l2_bytes: int


# NVIDIA's data sheet; clock, L2 and SMs as the driver reports them.
H200 = DeviceProperties(
    name="NVIDIA H200",
    capability=(9, 0),
    sm_count=132,
    clock_hz=1.98e9,
    memory_bandwidth=4.8e12,
    l2_bytes=60 * 2**20,
)


@lru_cache
def read(index: int) -> DeviceProperties:
    """The properties of CUDA device `index`, read through torch."""
    import torch  # noqa: PLC0415 (importing tilewright must not import torch)

    return from_torch(torch.cuda.get_device_properties(index))


def from_torch(found: Any) -> DeviceProperties:
    """What torch's device properties say.

    Some releases of torch report neither clocks nor the bus (CUDA 13 took them out of cudaDeviceProp). An
    SM is then taken to be one of the H200's: its clock, and its share of HBM's bandwidth and of L2. The
    order of tactics depends on these, their results do not; a debug message names what was assumed.
    """
    clock = float(getattr(found, "clock_rate", 0)) * 1e3  # reported in kHz
    # Two transfers a clock; the bus in bits.
    memory_clock = float(getattr(found, "memory_clock_rate", 0)) * 1e3
    bandwidth = 2 * memory_clock * float(getattr(found, "memory_bus_width", 0)) / 8
    l2_bytes = int(getattr(found, "L2_cache_size", 0))
    share = found.multi_processor_count / H200.sm_count
    device = DeviceProperties(
        name=found.name,
        capability=(found.major, found.minor),
        sm_count=found.multi_processor_count,
        clock_hz=clock or H200.clock_hz,
        memory_bandwidth=bandwidth or H200.memory_bandwidth * share,
        l2_bytes=l2_bytes or int(H200.l2_bytes * share),
    )
    reported = {"clock_hz": clock, "memory_bandwidth": bandwidth, "l2_bytes": l2_bytes}
    for name in (name for name, value in reported.items() if not value):
        log.debug("torch does not report %s of %s: taken as %.4g", name, device.name, getattr(device, name))
    return device
