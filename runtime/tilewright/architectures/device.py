"""What the runtime knows of a GPU: the seam between it and the hardware.

Routing, rules, cost model and messages take a `DeviceProperties`, never a device: tests, and machines
without a GPU, describe one.
"""

import logging
import re
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from tilewright.architectures import table
from tilewright.architectures.table import Capability

log = logging.getLogger("tilewright")


class DeviceProperties(NamedTuple):
    """The properties of a GPU that decide which kernels run on it, and which of them is chosen."""

    name: str
    capability: Capability
    sm_count: int
    clock_hz: float  # of the SMs, the highest
    memory_bandwidth: float  # bytes a second, as the interface is rated
    l2_bytes: int
    shared_memory: int  # bytes that one thread block may have at most
    clusters: tuple[int, ...] = ()
    """Clusters of 1 to 8 thread blocks, each on an SM of its own, that run at once; 0 for those that never
    run. Empty where that is not known."""

    def clusters_at_once(self, size: int) -> int:
        """Clusters of `size` thread blocks (1 to 8), each on an SM of its own, that run at once; 0 where the
        driver says that no such cluster ever runs (a small MIG slice, a share of MPS)."""
        if self.clusters:
            return self.clusters[size - 1]
        return max(1, int(self.sm_count * CLUSTER_SHARES[size - 1]) // size)


# The SMs that whole clusters of 1 to 8 cover where the driver could not be asked: Hopper's parts of 16 and 18
# SMs hold whole pairs, and not whole fours. As an H200 answers.
CLUSTER_SHARES = (1.0, 1.0, 0.89, 0.91, 0.84, 0.78, 0.8, 0.91)


def _described(gpu: table.Gpu, of: table.Architecture) -> DeviceProperties:
    return DeviceProperties(
        gpu.name,
        of.capability,
        gpu.sm_count,
        gpu.clock_hz,
        gpu.memory_bandwidth,
        gpu.l2_bytes,
        of.shared_memory.block,
        gpu.clusters,
    )


# GPUs as their data sheets describe them, by the names that a command line takes.
DESCRIBED = {
    gpu.key: _described(gpu, architecture)
    for architecture in table.ARCHITECTURES
    for gpu in architecture.gpus
}
H200, H100, B200, B300, THOR, RTX_PRO_6000, RTX_5090, GB10 = (
    DESCRIBED[key] for key in ("h200", "h100", "b200", "b300", "thor", "rtx-pro-6000", "rtx-5090", "gb10")
)

CAPABILITY_OF_CLUSTERS = table.ARCHITECTURES[0].capability  # the first with thread block clusters

_DRIVER_FILE = Path("/proc/driver/nvidia/version")


@lru_cache
def driver() -> str | None:
    """The version of NVIDIA's driver, as "580.159.04": of its kernel module, else as nvidia-smi says it.

    None where neither says anything; on a machine without a GPU, too.
    """
    try:
        text = _DRIVER_FILE.read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    match = re.search(r"Kernel Module\b.*?\s(\d+(?:\.\d+)+)\s", text)
    return match[1] if match else _driver_by_tool()


def _driver_by_tool() -> str | None:
    import shutil  # noqa: PLC0415 (only where the driver's own file is missing)
    import subprocess  # noqa: PLC0415

    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    command = [program, "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.partition("\n")[0].strip() or None if done.returncode == 0 else None


@lru_cache
def read(index: int) -> DeviceProperties:
    """The properties of CUDA device `index`: what torch reports, and of clusters what the driver says."""
    import torch  # noqa: PLC0415 (importing tilewright must not import torch)

    device = from_torch(torch.cuda.get_device_properties(index))
    if device.capability < CAPABILITY_OF_CLUSTERS:
        return device
    from tilewright.architectures import occupancy  # noqa: PLC0415 (ctypes: a millisecond of the first lookup)

    return device._replace(clusters=occupancy.clusters_at_once(index, device.shared_memory))


def present() -> DeviceProperties | None:
    """The current CUDA device's properties; None where there is no GPU, or no torch to ask."""
    if driver() is None:  # then torch, which takes seconds to import, finds no GPU
        return None
    try:
        import torch  # noqa: PLC0415
    except ImportError:
        return None
    return read(torch.cuda.current_device()) if torch.cuda.is_available() else None


def from_torch(properties: Any) -> DeviceProperties:
    """What torch's device properties say.

    Some releases of torch report neither clocks nor the bus (CUDA 13 took them out of cudaDeviceProp). An
    SM is then taken to be one of the H200's: its clock, and its share of HBM's bandwidth and of L2. The
    order of tactics depends on these, their results do not; a debug message names what was assumed.
    """
    clock = float(getattr(properties, "clock_rate", 0)) * 1e3  # reported in kHz
    # Two transfers a clock; the bus in bits.
    memory_clock = float(getattr(properties, "memory_clock_rate", 0)) * 1e3
    bandwidth = 2 * memory_clock * float(getattr(properties, "memory_bus_width", 0)) / 8
    l2_bytes = int(getattr(properties, "L2_cache_size", 0))
    shared_memory = int(getattr(properties, "shared_memory_per_block_optin", 0))
    share = properties.multi_processor_count / H200.sm_count
    device = DeviceProperties(
        name=properties.name,
        capability=(properties.major, properties.minor),
        sm_count=properties.multi_processor_count,
        clock_hz=clock or H200.clock_hz,
        memory_bandwidth=bandwidth or H200.memory_bandwidth * share,
        l2_bytes=l2_bytes or int(H200.l2_bytes * share),
        shared_memory=shared_memory or H200.shared_memory,
    )
    reported = {
        "clock_hz": clock,
        "memory_bandwidth": bandwidth,
        "l2_bytes": l2_bytes,
        "shared_memory": shared_memory,
    }
    for name in (name for name, value in reported.items() if not value):
        log.debug("torch does not report %s of %s: taken as %.4g", name, device.name, getattr(device, name))
    return device
