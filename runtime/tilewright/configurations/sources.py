"""Names, texts and numbers of kernels' sources that several families share. No call needs them."""

from __future__ import annotations

from typing import Any, Protocol

from tilewright.configurations.shapes import Tile
from tilewright.configurations.shared import MatrixAlignment
from tilewright.formats.types import bits

# Elements as CUTLASS has them, whatever scales them.
CUTLASS_TYPES = {
    "bf16": "cutlass::bfloat16_t",
    "f16": "cutlass::half_t",
    "f32": "float",
    "tf32": "float",  # the mainloop rounds f32 to tf32 as it loads
    "s8": "int8_t",
    "s32": "int32_t",
    **dict.fromkeys(("e4m3", "mxfp8"), "cutlass::float_e4m3_t"),
    **dict.fromkeys(("e5m2", "mxfp8_e5m2"), "cutlass::float_e5m2_t"),
    **dict.fromkeys(("nvfp4", "mxfp4"), "cutlass::float_e2m1_t"),
}


class Product(Protocol):
    """A configuration of matrix products."""

    @property
    def a(self) -> str: ...
    @property
    def b(self) -> str: ...
    @property
    def swap_ab(self) -> bool: ...


def named(first: str, arch: str, *parts: object) -> str:
    """The name of file, symbol, table row and report: what it is and for which architecture, then the parts
    that are not empty. Every field that may differ has one."""
    return "_".join(map(str, filter(None, (f"{first}_{arch.replace('_', '').removesuffix('a')}", *parts))))


def kernel_operands(config: Product) -> tuple[str, str]:
    """Types of the kernel's own A and B: the caller's, exchanged where the operands are swapped."""
    return (config.b, config.a) if config.swap_ab else (config.a, config.b)


def k_contiguous(config: Any) -> tuple[bool, bool]:
    """Whether k is the contiguous dimension of the kernel's own A and B: of an A that is t and a B that is n,
    as BLAS writes the caller's layout."""
    a, b = config.layout[0] == "t", config.layout[1] == "n"
    return (b, a) if config.swap_ab else (a, b)


def alignment(config: Any) -> MatrixAlignment:
    """Elements at multiples of which matrices begin: TMA's 16 bytes. C is of D's type."""
    a, b, d = (128 // bits(type) for type in (config.a, config.b, config.d))
    return {"a": a, "b": b, "c": d, "d": d}


def swizzle(contiguous_bytes: int) -> int:
    """Bytes of the widest swizzle that divides a row; 16 means no swizzle."""
    return next((width for width in (128, 64, 32, 16) if contiguous_bytes % width == 0), 16)


def camel(name: str) -> str:
    """InTurn of in_turn."""
    return "".join(map(str.capitalize, name.split("_")))


def memory_variables(tile: Tile, memory: tuple[int, int], where: str = "") -> dict[str, Any]:
    """A kernel's stages and shared memory as variables of its template, and in words; `where` follows the
    tile."""
    stages, total = memory
    text = f"{tile}{where}, {stages} stages, {total:,} bytes of shared memory"
    return {"memory": text, "stages": stages, "shared_memory": total}


def with_launch(words: str, config: Any) -> str:
    """A text about a kernel, with how it is launched."""
    return f"{words}, programmatic dependent launch" if config.pdl else words


def spelt(values: dict[str, str | int | bool]) -> dict[str, str]:
    """A template's variables as C++ spells them."""
    return {name: value if type(value) is str else str(value).lower() for name, value in values.items()}
