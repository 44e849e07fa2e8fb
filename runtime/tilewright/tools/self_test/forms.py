"""The instruction forms that the self-test runs, by target."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import ClassVar

# Where an instruction takes scale factors from: byte of A, byte of B, thread of A, thread of B.
Selection = tuple[int, int, int, int]

_FP8 = ("e4m3", "e5m2")
_CXX = {"bf16": "Bf16", "f16": "F16", "e4m3": "E4m3", "e5m2": "E5m2", "e2m1_in_bytes": "E2m1"}


@dataclass(frozen=True)
class Instruction:
    """An instruction form on a target."""

    name: str  # as PTX writes it, for messages
    arch: str
    header: str
    probe: str  # the C++ type that runs it
    opcode: str  # a regular expression: how the instruction begins in machine code

    @property
    def kernel(self) -> str:
        """A name for its kernel."""
        words = "".join(letter if letter.isalnum() else "_" for letter in self.name)
        return f"self_test_{self.arch}_{words}"


@dataclass(frozen=True)
class Form(Instruction):
    """A product: d[m, n] += a[m, k] b[n, k]^T."""

    a: str
    b: str
    m: int
    n: int
    k: int
    places: str  # where operands lie: a key of layouts.PRODUCTS
    blocks: int = 0  # scale factors along k
    scales: str = ""  # their type
    selections: tuple[Selection, ...] = ()  # of scale factors; the test tries each

    @property
    def operand_words(self) -> int:
        """The words of a probe that the kernel reads."""
        return {
            "registers": 32 * 13,
            "wgmma_shared": (self.m + self.n) * 32 + self.m * self.n,
            "wgmma_registers": self.m * 8 + self.n * 32 + self.m * self.n,
            "tcgen05": (self.m + self.n) * 32 + self.m * self.n + (2 * 128 + 2 if self.blocks else 0),
        }[self.places]

    @property
    def result_words(self) -> int:
        """The words that the kernel writes."""
        return self.m * self.n


@dataclass(frozen=True)
class Load(Instruction):
    """A load of matrices from shared memory to registers."""

    places: str  # a key of layouts.LOADS

    operand_words: ClassVar[int] = 128
    result_words: ClassVar[int] = 128


def _mma(arch: str, a: str, b: str, k: int, *, form: str, opcode: str) -> Form:
    name, probe = f"mma.sync m16n8k{k} {a} x {b}", f"MmaSync<sm120::{form}>"
    return Form(name, arch, "mma_sync.hpp", probe, opcode, a, b, 16, 8, k, "registers")


def _plain(arch: str, fp8: str) -> list[Form]:
    """mma.sync without scale factors. `fp8` is the opcode of FP8."""
    forms = [
        _mma(arch, "bf16", "bf16", 16, form="MmaBf16", opcode=r"HMMA\.16816\.F32\.BF16"),
        _mma(arch, "f16", "f16", 16, form="MmaF16", opcode=r"HMMA\.16816\.F32$"),
        _mma(arch, "s8", "s8", 32, form="MmaInt8", opcode=r"IMMA\.16832\.S8\.S8"),
    ]
    for a, b in itertools.product(_FP8, _FP8):
        form, opcode = f"MmaFp8<{_CXX[a]}, {_CXX[b]}>", fp8.format(a.upper(), b.upper())
        forms.append(_mma(arch, a, b, 32, form=form, opcode=opcode))
    return forms


# Every byte and every thread that may hold scale factors, by the number of factors.
_SELECTIONS: dict[int, tuple[Selection, ...]] = {
    1: ((0, 0, 0, 0), (1, 3, 1, 1), (2, 1, 0, 2), (3, 2, 1, 3)),
    2: ((0, 0, 0, 0), (2, 0, 1, 1), (0, 2, 0, 2), (2, 2, 1, 3)),
    4: ((0, 0, 0, 0), (0, 0, 1, 1), (0, 0, 0, 2), (0, 0, 1, 3)),
}


def _scaled(types: tuple[str, str], k: int, blocks: int, scales: str, *, form: str, opcode: str) -> Form:
    a, b = types
    selections = _SELECTIONS[blocks]
    words = ", ".join(f"Selection<{', '.join(map(str, selection))}>" for selection in selections)
    return Form(
        f"mma.sync m16n8k{k} {a} x {b}, {blocks}X {scales}", "sm_120f", "mma_sync.hpp",
        f"MmaSync<sm120::{form}, {words}>", opcode, a, b, 16, 8, k, "registers", blocks, scales, selections,
    )  # fmt: skip


def _block_scaled() -> list[Form]:
    types = (*_FP8, "e2m1_in_bytes")
    forms = []
    for a, b in itertools.product(types, types):
        names = [name.partition("_")[0].upper() for name in (a, b)]
        form, opcode = f"MmaMxf8<{_CXX[a]}, {_CXX[b]}>", r"QMMA\.SF\.16832\.F32\.{}\.{}\.E8".format(*names)
        forms.append(_scaled((a, b), 32, 1, "ue8m0", form=form, opcode=opcode))
    fp4, opcode = ("e2m1", "e2m1"), r"OMMA\.SF\.16864\.F32\.E2M1\.E2M1\."
    return [
        *forms,
        _scaled(fp4, 64, 2, "ue8m0", form="MmaMxf4", opcode=opcode + "E8"),
        _scaled(fp4, 64, 4, "ue4m3", form="MmaNvf4", opcode=opcode + r"UE4M3\.4X"),
    ]


def _wgmma(a: str, b: str, k: int, places: str, *, probe: str, opcode: str) -> Form:
    suffix = ", A in registers" if places == "wgmma_registers" else ""
    name = f"wgmma m64n16k{k} {a} x {b}{suffix}"
    return Form(name, "sm_90a", "wgmma.hpp", probe, opcode, a, b, 64, 16, k, places)


def _wgmmas() -> list[Form]:
    bf16, f16 = r"HGMMA\.64x16x16\.F32\.BF16", r"HGMMA\.64x16x16\.F32$"
    shared, registers, forms = "wgmma_shared", "wgmma_registers", []
    for name, opcode in (("bf16", bf16), ("f16", f16)):
        cxx = _CXX[name]
        forms += [
            _wgmma(name, name, 16, shared, probe=f"WgmmaShared<{cxx}, {cxx}>", opcode=opcode),
            _wgmma(name, name, 16, registers, probe=f"WgmmaRegisters<Half<{cxx}>>", opcode=opcode),
        ]
    for a, b in itertools.product(_FP8, _FP8):
        opcode = rf"QGMMA\.64x16x32\.F32\.{a.upper()}\.{b.upper()}"
        forms.append(_wgmma(a, b, 32, shared, probe=f"WgmmaShared<{_CXX[a]}, {_CXX[b]}>", opcode=opcode))
    tf32 = r"HGMMA\.64x16x8\.F32\.TF32"
    return [*forms, _wgmma("tf32", "tf32", 8, registers, probe="WgmmaRegisters<Tf32>", opcode=tf32)]


# The first bytes of the words that hold scale factors of A and of B, by the number of factors.
_FIRST_BYTES: dict[int, tuple[Selection, ...]] = {
    1: ((0, 0, 0, 0), (1, 3, 0, 0), (2, 1, 0, 0), (3, 2, 0, 0)),
    2: ((0, 0, 0, 0), (2, 0, 0, 0), (0, 2, 0, 0), (2, 2, 0, 0)),
    4: ((0, 0, 0, 0),),
}


# PTX ISA, "Instruction descriptor": the code of each type, by kind.
_NARROW = {"e4m3": 0, "e5m2": 1, "e2m1_in_halves": 5}
_CODES = {
    "f16": {"f16": 0, "bf16": 1},
    "tf32": {"tf32": 2},
    "f8f6f4": _NARROW,
    "mxf8f6f4": _NARROW,
    "mxf4": {"e2m1": 1},
    "nvf4": {"e2m1": 1},  # mxf4nvf4 with factors of 16 of k
}


def _tcgen05(kind: str, a: str, b: str, k: int, opcode: str) -> Form:
    """A form of the tensor core; its target is left open."""
    blocks = {"mxf8f6f4": 1, "mxf4": 2, "nvf4": 4}.get(kind, 0)
    scales = "ue4m3" if blocks == 4 else "ue8m0"
    name = f"tcgen05.mma m128n16k{k} {kind} {a} x {b}"
    probe = f"TensorMma<Kind{kind.capitalize()}, kTypes<{_CODES[kind][a]}, {_CODES[kind][b]}>>"
    plain = Form(name, "", "tcgen05.hpp", probe, opcode, a, b, 128, 16, k, "tcgen05")
    if not blocks:
        return plain
    name = f"{name}, {blocks}X {scales}"
    return replace(plain, name=name, blocks=blocks, scales=scales, selections=_FIRST_BYTES[blocks])


def _tensor_cores(arch: str) -> list[Form]:
    pairs = itertools.product(_NARROW, _NARROW)
    forms = [
        _tcgen05("f16", "f16", "f16", 16, "UTCHMMA$"),
        _tcgen05("f16", "bf16", "bf16", 16, "UTCHMMA$"),
        _tcgen05("tf32", "tf32", "tf32", 8, "UTCHMMA$"),
        *[_tcgen05(kind, a, b, 32, "UTCQMMA$") for a, b in pairs for kind in ("f8f6f4", "mxf8f6f4")],
        _tcgen05("mxf4", "e2m1", "e2m1", 64, "UTCOMMA$"),
        _tcgen05("nvf4", "e2m1", "e2m1", 64, r"UTCOMMA\.4X"),
    ]
    return [replace(form, arch=arch) for form in forms]


def _load(arch: str, name: str, places: str, *, probe: str, opcode: str) -> Load:
    return Load(f"ldmatrix {name}", arch, "mma_sync.hpp", f"LoadMatrices<{probe}>", opcode, places)


def _loads(arch: str) -> list[Load]:
    return [
        _load(arch, "m8n8.x4 b16", "rows", probe="LoadRows<false>", opcode=r"LDSM\.16\.M88\.4"),
        _load(arch, "m8n8.x4.trans b16", "transposed", probe="LoadRows<true>", opcode=r"LDSM\.16\.MT88\.4"),
    ]


FORMS: tuple[Form | Load, ...] = (
    *_plain("sm_90a", "HMMA"),  # FP8 is converted to F16 there
    *_wgmmas(),
    *_loads("sm_90a"),
    *_tensor_cores("sm_100f"),
    *_tensor_cores("sm_110f"),
    *_plain("sm_120f", r"QMMA\.16832\.F32\.{}\.{}"),
    *_block_scaled(),
    *_loads("sm_120f"),
    _load("sm_120f", "m8n16.x4 b8x16.b4x16_p64", "e2m1_rows", probe="LoadE2m1Rows", opcode=r"LDSM"),
)
ARCHITECTURES = tuple(dict.fromkeys(form.arch for form in FORMS))


def of_arch(arch: str) -> list[Form | Load]:
    """The forms of a target."""
    return [form for form in FORMS if form.arch == arch]
