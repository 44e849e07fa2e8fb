"""Every target that a spec may name, through the whole build: nvcc's flags, SASS, what is read of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_modules import Mini

from tilewright.compile.building import build
from tilewright.compile.nvcc.toolchain import NvccToolchain
from tilewright.compile.source_keys import SourceKeys
from tilewright.compile.store import Store
from tilewright_generator import records

pytestmark = pytest.mark.compile

WAIT = 'asm volatile("griddepcontrol.wait;" ::: "memory");'
SIGNAL = 'asm volatile("griddepcontrol.launch_dependents;" ::: "memory");'

# tcgen05.mma with block scales, as a thread of a block issues it.
TCGEN05 = f"""
extern "C" __global__ void {{name}}(uint64_t a, uint64_t b, uint32_t d, uint32_t instruction, uint32_t add,
                                    uint32_t scale_a, uint32_t scale_b) {{{{
  {WAIT}
  if (threadIdx.x == 0) {{{{
    asm volatile("{{{{.reg .pred p;\\n setp.ne.b32 p, %4, 0;\\n"
                 "tcgen05.mma.OPERATION [%0], %1, %2, %3, [%5], [%6], p;}}}}"
                 :: "r"(d), "l"(a), "l"(b), "r"(instruction), "r"(add), "r"(scale_a), "r"(scale_b));
  }}}}
  {SIGNAL}
}}}}
"""
# The warp's instruction of sm_120 and sm_121.
WARP = f"""
extern "C" __global__ void {{name}}(float* d, uint32_t const* in, uint16_t at) {{{{
  {WAIT}
  float sum[4] = {{{{0, 0, 0, 0}}}};
  asm volatile("mma.sync.aligned.OPERATION {{{{%0,%1,%2,%3}}}}, {{{{%4,%5,%6,%7}}}}, {{{{%8,%9}}}}, "
               "{{{{%0,%1,%2,%3}}}}, {{{{%10}}}}, {{{{%12,%12}}}}, {{{{%11}}}}, {{{{%12,%12}}}};"
               : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
               : "r"(in[0]), "r"(in[1]), "r"(in[2]), "r"(in[3]), "r"(in[4]), "r"(in[5]), "r"(in[6]),
                 "r"(in[7]), "h"(at));
  {SIGNAL}
  for (int i = 0; i < 4; i++) d[threadIdx.x * 4 + i] = sum[i];
}}}}
"""
NVFP4, MXFP4, MXFP8 = (
    f"kind::{kind}"
    for kind in ("mxf4nvf4.block_scale.block16", "mxf4.block_scale.block32", "mxf8f6f4.block_scale")
)
NVFP4_WARP, MXFP4_WARP, MXFP8_WARP = (
    f"kind::{kind}"
    for kind in (
        "mxf4nvf4.block_scale.scale_vec::4X.m16n8k64.row.col.f32.e2m1.e2m1.f32.ue4m3",
        "mxf4nvf4.block_scale.scale_vec::2X.m16n8k64.row.col.f32.e2m1.e2m1.f32.ue8m0",
        "mxf8f6f4.block_scale.scale_vec::1X.m16n8k32.row.col.f32.e4m3.e2m1.f32.ue8m0",
    )
)

# What PTX becomes: target, operation, opcode, the pattern that a row should ask it by.
CASES = [
    ("sm_100a", f"cta_group::1.{NVFP4}", "UTCOMMA.4X", r"UTCOMMA\.4X"),
    ("sm_100a", f"cta_group::2.{MXFP4}", "UTCOMMA.2CTA", r"UTCOMMA\.2CTA$"),
    ("sm_100f", f"cta_group::2.{NVFP4}", "UTCOMMA.2CTA.4X", r"UTCOMMA\.2CTA\.4X"),
    ("sm_100f", f"cta_group::1.{MXFP8}", "UTCQMMA", "UTCQMMA$"),
    ("sm_103a", f"cta_group::1.{NVFP4}", "UTCOMMA.BLOCK16", r"UTCOMMA\.BLOCK16"),
    ("sm_103a", f"cta_group::2.{NVFP4}", "UTCOMMA.2CTA.BLOCK16", r"UTCOMMA\.2CTA\.BLOCK16"),
    ("sm_110a", f"cta_group::2.{NVFP4}", "UTCOMMA.2CTA.4X", r"UTCOMMA\.2CTA\.4X"),
    ("sm_110a", f"cta_group::2.{MXFP8}", "UTCQMMA.2CTA", r"UTCQMMA\.2CTA"),
    ("sm_120a", MXFP4_WARP, "OMMA.SF.16864.F32.E2M1.E2M1.E8", r"OMMA\.SF.*\.E8"),
    ("sm_120f", NVFP4_WARP, "OMMA.SF.16864.F32.E2M1.E2M1.UE4M3.4X", r"OMMA\.SF.*\.UE4M3\.4X"),
    ("sm_121a", MXFP8_WARP, "QMMA.SF.16832.F32.E4M3.E2M1.E8", r"QMMA\.SF"),
]


def kernel(operation: str) -> str:
    template = TCGEN05 if operation.startswith("cta_group") else WARP
    return template.replace("OPERATION", operation)


@pytest.fixture(scope="module")
def built(
    tmp_path_factory: pytest.TempPathFactory, toolchain: NvccToolchain
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """For each case, what the cache says of its object, and the row of the record."""
    root: Path = tmp_path_factory.mktemp("targets")
    mini = Mini(root / "generated")
    for index, (arch, operation, _, pattern) in enumerate(CASES):
        mini.add(f"k{index:02}", kernel(operation), arch=arch, instructions=[pattern])
    table = mini.table()
    report = build([table], store=Store(root / "cache"), toolchain=toolchain, strict=True)
    assert report.ok, report.explain_failures()
    assert len(report.libraries[0].kernels) == len(CASES)
    data = report.to_json()
    keys = SourceKeys(Path(__file__).parents[2] / "runtime" / "include", toolchain.cutlass_version)
    return [dict(unit.data) for unit in report.units], records.compile_rows(data, table, keys)


@pytest.mark.parametrize("case", range(len(CASES)), ids=[f"{arch}-{opcode}" for arch, _, opcode, _ in CASES])
class TestTarget:
    def test_its_machine_code_is_read(self, built: Any, case: int) -> None:
        arch, _, opcode, _ = CASES[case]
        row = built[0][case]
        assert row["arch"] == arch
        assert f"-gencode=arch={arch.replace('sm', 'compute')},code={arch}" in row["command"]
        assert row["tensor_instructions"] == {opcode: 1}
        assert row["registers"] > 0
        assert row["code_bytes"] > 0

    def test_launch_dependencies_are_the_same_two_opcodes(self, built: Any, case: int) -> None:
        assert built[0][case]["grid_dependency"] == {"ACQBULK": 1, "PREEXIT": 1}

    def test_the_record_keeps_the_suffixes(self, built: Any, case: int) -> None:
        assert built[1][case]["tensor_instructions"] == {CASES[case][2]: 1}


def test_a_kernel_on_another_path_fails(mini: Mini, store: Store, toolchain: NvccToolchain) -> None:
    source = kernel(f"cta_group::1.{NVFP4}")
    mini.add("one", source, arch="sm_100a", instructions=[r"UTCOMMA\.2CTA\.4X"])
    mini.add("unscaled", source, arch="sm_100a", instructions=["UTCOMMA$"])
    report = build([mini.table()], store=store, toolchain=toolchain)
    assert {unit.name for unit in report.failures} == {"one", "unscaled"}
    assert r"its SASS has no UTCOMMA\.2CTA\.4X; it holds UTCOMMA.4X" in report.explain_failures()
