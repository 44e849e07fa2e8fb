"""Schemas of a build's report and of the records that are kept of it."""

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
from tilewright.compile.schemas import DIGEST, MEASURED

# `tilewright build --report`, as far as `tilewright status --record` asks for it.
_UNIT = Object(
    {
        **fields(("name", "module"), String()),
        "source_key": String(),
        "findings": Array(Object({"kind": String()}, others=Anything())),
    },
    optional={**MEASURED, **DIGEST},
    others=Anything(),
)
BUILD_REPORT = Object(
    {
        "toolchain": Object(
            {"cutlass": String(r"(\d{1,4}(\.\d{1,4})*)?", "a release, or nothing")}, others=String()
        ),
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
                optional={**fields(("cutlass", "host"), String()), "findings": Array(String()), **DIGEST},
                others=Anything(),
            )
        ),
    },
    optional={"module": String(), "toolchain": Map(String())},
    others=Anything(),
)
# Of a kernel's runs beside another stream, which are compared to the bit (tests/gpu/test_hammer.py).
_HAMMERED = Object(
    {"source_key": String(), "date": String(), **fields(("runs", "wrong"), Integer())}, optional=DIGEST
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
                    **fields(("date", "host_key"), String()),
                    **DIGEST,
                },
                others=Anything(),
            )
        ),
    },
    others=Anything(),
)
