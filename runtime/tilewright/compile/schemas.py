"""Schemas of the files that a build writes and reads again, except library.json (library.py)."""

from __future__ import annotations

from tilewright.base.schema import (
    Anything,
    Array,
    Boolean,
    Integer,
    Map,
    Null,
    Number,
    Object,
    Schema,
    String,
    Union,
    fields,
)

ANY_FORMAT = Object({"format": Integer()}, others=Anything())

_COUNTS = Map(Integer())  # by opcode
# Measurements of a compiled kernel, in entries, reports and records.
MEASURED: dict[str, Schema] = {
    **fields(
        ("registers", "smem_bytes", "spill_store_bytes", "spill_load_bytes", "stack_bytes", "code_bytes"),
        Integer(),
    ),
    **fields(("tensor_instructions", "grid_dependency"), _COUNTS),
    "seconds": Number(),
    "peak_memory_bytes": Integer(),
}
# A digest of its machine code (nvcc/disassembly.py); older files lack it.
DIGEST: dict[str, Schema] = {"machine_code": String()}
_OBJECT = Object({"sha256": String(), "bytes": Integer()})

# report.json of an entry of the cache, by its kind.
ENTRIES: dict[str, Schema] = {
    "table": Object({"object": _OBJECT}, others=Anything()),
    "kernel": Object(
        {
            "object": _OBJECT,
            **MEASURED,
            "threads": Union((Integer(), Null())),
            "warnings": Array(Object({"code": String(), "text": String()}, others=Anything())),
            "hazards": Array(
                Object(fields(("kind", "function", "opcode", "message"), String()), others=Anything())
            ),
        },
        optional={"data_instructions": _COUNTS, **DIGEST},
        others=Anything(),
    ),
}

# What became of a unit, as the process that compiled it says (unit.py).
OUTCOME = Object(
    {"status": String()},
    optional={
        "message": String(), "errors": Array(String()), "log": String(), "out_of_memory": Boolean(),
        "refused": Boolean(),
    },
)  # fmt: skip

# A note that the compilers refused a kernel (refusals.py).
REFUSAL = Object({"kernel": String(), "key": String(), "reason": String()})
