"""What the files say that a build writes and reads again, but for library.json (library.py)."""

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
# What a compile found out of a kernel, wherever it is said.
MEASURED: dict[str, Schema] = {
    **fields(
        ("registers", "smem_bytes", "spill_store_bytes", "spill_load_bytes", "stack_bytes", "code_bytes"),
        Integer(),
    ),
    **fields(("tensor_instructions", "grid_dependency"), _COUNTS),
    "seconds": Number(),
    "peak_memory_bytes": Integer(),
}
# Of its machine code (nvcc/disassembly.py); absent from what was written before there were such.
_DIGEST: dict[str, Schema] = {"machine_code": String()}
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
        optional={"data_instructions": _COUNTS, **_DIGEST},
        others=Anything(),
    ),
}

# `tilewright build --report`, as far as `tilewright status --record` asks for it.
_UNIT = Object(
    {
        **fields(("name", "module"), String()),
        "source_key": String(),
        "findings": Array(Object({"kind": String()}, others=Anything())),
    },
    optional={**MEASURED, **_DIGEST},
    others=Anything(),
)
BUILD_REPORT = Object(
    {
        "toolchain": Object({"cutlass": String(r"\d{1,4}(\.\d{1,4})*", "a release")}, others=String()),
        "kernels": Array(_UNIT),
    },
    others=Anything(),
)

# Records: of kernels that were compiled, and of those that were run on a GPU.
_RECORDED: dict[str, Schema] = {"name": String(), "source_key": String()}
COMPILED_RECORD = Object(
    {
        "kernels": Array(
            Object(
                {**_RECORDED, **MEASURED},
                optional={**fields(("cutlass", "host"), String()), "findings": Array(String()), **_DIGEST},
                others=Anything(),
            )
        ),
    },
    optional={"module": String(), "toolchain": Map(String())},
    others=Anything(),
)
# Of a kernel's runs beside another stream, which are compared to the bit (tests/gpu/test_hammer.py).
_HAMMERED = Object(
    {"source_key": String(), "date": String(), **fields(("runs", "wrong"), Integer())}, optional=_DIGEST
)
RUN_RECORD = Object(
    {
        **fields(("gpu", "date"), String()),
        "kernels": Array(
            Object(
                _RECORDED,
                optional={
                    "passed": Boolean(),  # absent where only `hammered` is known
                    "hammered": _HAMMERED,
                    "problems": Integer(),
                    "max_error": Union((Number(), Null())),
                    "date": String(),
                    **_DIGEST,
                },
                others=Anything(),
            )
        ),
    },
    others=Anything(),
)

# What became of a unit, as the process that compiled it says (unit.py).
OUTCOME = Object(
    {"status": String()},
    optional={
        "message": String(), "errors": Array(String()), "log": String(), "out_of_memory": Boolean(),
        "refused": Boolean(),
    },
)  # fmt: skip

# That the compilers refused a kernel (refusals.py).
REFUSAL = Object({"kernel": String(), "key": String(), "reason": String()})
