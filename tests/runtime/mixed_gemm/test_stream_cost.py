"""What the cost model of stream kernels says of clusters that divide k."""

from __future__ import annotations

import pytest

from tilewright.architectures.device import H200
from tilewright.declarations.tactics import Tactic
from tilewright.families.mixed_gemm.cost_stream import STEP_SECONDS, WAVE_SECONDS, Stream
from tilewright.families.mixed_gemm.problem import Problem
from tilewright.libraries.registry import Registry

KERNEL = "mixed_gemm_sm90_bf16_nvfp4_64x8x128_stream_2stages"


@pytest.mark.parametrize(("splits", "tiles", "busiest"), [(3, 39, 1), (3, 40, 2), (3, 89, 3), (2, 66, 1)])
def test_clusters_share_sms_where_none_is_left(splits: int, tiles: int, busiest: int) -> None:
    """An H200 has room for 39 clusters of three on SMs of their own. With 40, some SMs have two thread
    blocks, although there are 120. `busiest`: the thread blocks of the busiest SM."""
    (record,) = (record for record in Registry().route("mixed_gemm", H200) if record.name == KERNEL)
    kernel = Stream(record, Problem(3, 64 * tiles, 128 * splits * 48, weight_format="nvfp4"), H200)
    terms = kernel.terms(Tactic(KERNEL, splits=splits))
    assert terms.blocks == tiles * splits
    assert terms.math == pytest.approx(busiest * 48 * kernel.of_unit)


def test_a_last_wave_of_few_thread_blocks_takes_as_long_as_a_warp() -> None:
    """An H200 holds 528 thread blocks of the kernel. The 16 more of 272 tiles begin when others end, and each
    warp has 28 units. On 3 rows of 17,408 x 28,544 it took 84.6 us, a balanced kernel 66.0."""
    name = "mixed_gemm_sm90_bf16_int4_g128_64x8x128_stream_4warps_2stages"
    (record,) = (record for record in Registry().route("mixed_gemm", H200) if record.name == name)
    tactic = Tactic(name, splits=2)
    full_wave, with_rest = (
        Stream.estimator(record, Problem(3, 64 * tiles, 28544, weight_format="int4_g128"), H200)(tactic)
        for tiles in (264, 272)
    )
    assert (full_wave.waves, with_rest.waves) == (1, 2)
    assert with_rest.seconds - full_wave.seconds == pytest.approx(28 * STEP_SECONDS + WAVE_SECONDS, rel=0.02)
