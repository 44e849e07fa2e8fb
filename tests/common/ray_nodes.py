"""A Ray cluster of two nodes, both of this machine: tasks cross from one to the other as between machines."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from filelock import FileLock

NODES = 2
# Of Ray itself: no load makes a node dead or a process too late, and none ends a task to free memory.
_PATIENCE = {
    "RAY_health_check_failure_threshold": "100",  # checks, of which one is made every 3 s
    "RAY_worker_register_timeout_seconds": "500",
    "RAY_gcs_server_port_wait_time_s": "500",
    "RAY_memory_monitor_refresh_ms": "0",
}


@contextmanager
def two_nodes(folder: Path, *, gpus: int = 0, **environment: str) -> Iterator[str]:
    """The cluster's address. A node has one core, the last one also `gpus` GPUs, as far as Ray knows; its
    processes find the modules of `folder`, and have this process's environment and more."""
    import ray  # noqa: PLC0415 (an optional extra)
    from ray.cluster_utils import Cluster  # noqa: PLC0415

    search = [str(folder), str(Path(__file__).parent), os.environ.get("PYTHONPATH")]
    environment |= {"PYTHONPATH": os.pathsep.join(filter(None, search)), **_PATIENCE}
    # One cluster at a time on this machine: nodes of two would ask for the same ports.
    alone = FileLock(Path(tempfile.gettempdir()) / f"tilewright_ray_nodes_{os.getuid()}.lock")
    with alone, pytest.MonkeyPatch.context() as patch:
        before = signal.getsignal(signal.SIGTERM)
        for name, value in environment.items():
            patch.setenv(name, value)
        cluster = Cluster()
        try:
            for number in range(NODES):
                last = number == NODES - 1
                cluster.add_node(
                    num_cpus=1,
                    num_gpus=gpus if last else 0,
                    include_dashboard=False,
                    include_log_monitor=False,
                )
            yield cluster.address
        finally:
            ray.shutdown()
            cluster.shutdown()
            signal.signal(signal.SIGTERM, before)  # `ray.init` has put its own there
