"""What the runtime knows of a GPU: the seam between it and the hardware.

Routing, rules, cost model and messages take a `DeviceProperties`, never a device: tests, and machines
without a GPU, describe one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tilewright.routing import Capability


@dataclass(frozen=True, slots=True)
class DeviceProperties:
    """A GPU, as far as kernels are chosen by it."""

    name: str
    capability: Capability
    sm_count: int
    clock_hz: float  # of the SMs, the highest
    memory_bandwidth: float  # bytes a second, as the interface is rated
    memory_bytes: int
    l2_bytes: int
    smem_bytes: int  # that one thread block may use


# NVIDIA's data sheet; clock, L2 and SMs as the driver reports them.
H200 = DeviceProperties(
    name="NVIDIA H200",
    capability=(9, 0),
    sm_count=132,
    clock_hz=1.98e9,
    memory_bandwidth=4.8e12,
    memory_bytes=141 * 10**9,
    l2_bytes=60 * 2**20,
    smem_bytes=232_448,
)


@lru_cache
def read(index: int) -> DeviceProperties:
    """The properties of CUDA device `index`, read through torch.

    Properties that an older torch does not report are taken from the H200's.
    """
    import torch  # noqa: PLC0415 (importing tilewright must not import torch)

    found: Any = torch.cuda.get_device_properties(index)
    clock = float(getattr(found, "clock_rate", 0)) * 1e3  # reported in kHz
    # Two transfers a clock; the bus in bits.
    memory_clock = float(getattr(found, "memory_clock_rate", 0)) * 1e3
    bandwidth = 2 * memory_clock * float(getattr(found, "memory_bus_width", 0)) / 8
    return DeviceProperties(
        name=found.name,
        capability=(found.major, found.minor),
        sm_count=found.multi_processor_count,
        clock_hz=clock or H200.clock_hz,
        memory_bandwidth=bandwidth or H200.memory_bandwidth,
        memory_bytes=found.total_memory,
        l2_bytes=int(getattr(found, "L2_cache_size", 0)) or H200.l2_bytes,
        smem_bytes=int(getattr(found, "shared_memory_per_block_optin", 0)) or H200.smem_bytes,
    )
