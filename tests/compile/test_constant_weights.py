"""What a kernel loads before the previous one has ended, in machine code."""

from __future__ import annotations

import re

import pytest
from compiled_kernels import TABLES, built, rows_of

SMALL = "grouped_gemm_sm90_e4m3_e4m3_bf16_1x128_128x128_64x8x256_swap_5stages_constantb"


@pytest.mark.compile
def test_dense_forms_alone_load_one_operand_early() -> None:
    """As many bulk loads as a stage of one operand has boxes; in clusters, as many that are shared, too."""
    (table,) = [table for table in TABLES if SMALL in table]
    row = rows_of(built(table, [SMALL]))[SMALL]
    loads = {}
    for exception in row["exceptions"]:
        assert (exception["kind"], exception["reason"]) == ("early_access", table[SMALL].early_loads)
        message = r"in (\w+), (\S+) at \w+(?:, and (\d+) more,)? can run before ACQBULK"
        function, opcode, more = re.fullmatch(message, exception["message"]).groups()  # type: ignore[union-attr]
        (form,) = re.findall(r"_constantb4GemmELNS0_4FormE(\d)", function)
        loads[form, "run_form_in_clusters" in function, opcode] = 1 + int(more or 0)
    boxes = table[SMALL].config["tile"][2] // 128
    dense = "1"  # grouped_gemm/form.hpp
    assert loads == {
        (dense, False, "UTMALDG.3D"): boxes,
        (dense, True, "UTMALDG.3D"): boxes,
        (dense, True, "UTMALDG.3D.MULTICAST"): boxes,
    }
