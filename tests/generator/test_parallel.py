from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tilewright_generator.parallel import ordered_map

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="workers are forked")


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("items", [0, 1, 2, 23])
def test_results_come_in_order_whoever_works_them_out(items: int, workers: int) -> None:
    assert list(ordered_map(lambda n: n * n, range(items), workers)) == [n * n for n in range(items)]


def test_the_work_is_done_by_others() -> None:
    assert os.getpid() not in set(ordered_map(lambda _: os.getpid(), range(4), 2))


def test_results_larger_than_a_pipe() -> None:
    sizes = [len(result) for result in ordered_map(lambda n: bytes(n << 20), range(6), 2)]
    assert sizes == [n << 20 for n in range(6)]


def test_an_exception_arrives_with_its_own_type_after_the_results_before_it() -> None:
    results = ordered_map(lambda n: 1 // (n - 3), range(6), 2)
    assert [next(results) for _ in range(3)] == [-1, -1, -1]
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_the_items_of_a_killed_worker_are_done_here() -> None:
    def work(item: int) -> int:
        if item == 3 and os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)
        return item

    parent = os.getpid()
    assert list(ordered_map(work, range(8), 2)) == list(range(8))


STOPPED_EARLY = """
import os
from tilewright_generator.parallel import ordered_map
results = ordered_map(lambda n: bytes(1 << 22), range(50), 3)
next(results)
results.close()
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    print("no child")
"""


def test_stopping_early_leaves_no_process_behind() -> None:
    # In a process of its own: what other tests started is no child of this map's.
    done = subprocess.run([sys.executable, "-c", STOPPED_EARLY], check=False, capture_output=True, text=True)
    assert done.stdout == "no child\n", done.stderr
