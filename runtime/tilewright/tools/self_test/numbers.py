"""Codes of the element types that tensor cores multiply, and their values, exactly, in plain Python."""

from __future__ import annotations

import functools
import random
import struct
from dataclasses import dataclass


@dataclass(frozen=True)
class Format:
    """A floating-point type in a container of `bits` bits, of which `shift` low bits do not count.

    `finite`: every exponent is a number's, as E2M1 has it. Of E4M3 the largest code alone is NaN
    (`top_is_nan`).
    """

    name: str
    bits: int
    exponent: int
    mantissa: int
    shift: int = 0
    signed: bool = True
    finite: bool = False
    top_is_nan: bool = False

    @property
    def significant(self) -> int:
        """The bits of the container that count."""
        return self.signed + self.exponent + self.mantissa

    def code(self, number: int) -> int:
        """The container's bits of a code."""
        return number << self.shift

    def value(self, number: int) -> float:
        """The value of a finite code, without its shift."""
        bias = (1 << (self.exponent - 1)) - 1
        exponent = number >> self.mantissa & ((1 << self.exponent) - 1)
        fraction = number & ((1 << self.mantissa) - 1)
        implicit = exponent > 0
        scale = 2.0 ** (max(exponent, 1) - bias - self.mantissa)
        magnitude = (fraction + (implicit << self.mantissa)) * scale
        return -magnitude if self.signed and number >> (self.exponent + self.mantissa) else magnitude

    def is_usable(self, number: int) -> bool:
        """Whether a code is a finite number other than 0 whose value F32 holds as a normal number."""
        exponent = number >> self.mantissa & ((1 << self.exponent) - 1)
        fraction = number & ((1 << self.mantissa) - 1)
        if not self.finite and exponent == (1 << self.exponent) - 1:
            return self.top_is_nan and fraction != (1 << self.mantissa) - 1
        return exponent > 0 or (fraction > 0 and self.exponent < 8)

    def one(self) -> int:
        """The code of 1."""
        return ((1 << (self.exponent - 1)) - 1) << self.mantissa


class Signed8(Format):
    """INT8: two's complement."""

    def value(self, number: int) -> float:
        return number - 256 if number > 127 else number

    def is_usable(self, number: int) -> bool:
        return number != 0

    def one(self) -> int:
        return 1


class Exponent8(Format):
    """UE8M0: powers of two. Products with 1 stay well within F32."""

    def value(self, number: int) -> float:
        return 2.0 ** (number - 127)

    def is_usable(self, number: int) -> bool:
        return 32 <= number <= 222

    def one(self) -> int:
        return 127


FORMATS = {
    form.name: form
    for form in (
        Format("bf16", 16, 8, 7),
        Format("f16", 16, 5, 10),
        Format("tf32", 32, 8, 10, shift=13),
        Format("e4m3", 8, 4, 3, top_is_nan=True),
        Format("e5m2", 8, 5, 2),
        Format("e2m1", 4, 2, 1, finite=True),
        Format("e2m1_in_bytes", 8, 2, 1, shift=2, finite=True),
        Format("e2m1_in_halves", 4, 2, 1, finite=True),  # 16 elements in the first 8 of 16 bytes
        Signed8("s8", 8, 0, 7),
        Exponent8("ue8m0", 8, 8, 0, signed=False),
        Format("ue4m3", 8, 4, 3, signed=False, top_is_nan=True),
    )
}


_MOST_CODES = 256  # of a type


@functools.cache
def usable(name: str) -> tuple[int, ...]:
    """The codes of a type that tests use; a sample of types that have many."""
    form, rng = FORMATS[name], random.Random(name)
    count = 1 << form.significant
    if count <= _MOST_CODES:
        return tuple(number for number in range(count) if form.is_usable(number))
    codes: set[int] = set()
    while len(codes) < _MOST_CODES:
        number = rng.randrange(count)
        if form.is_usable(number):
            codes.add(number)
    return tuple(sorted(codes))


@functools.cache
def small(name: str) -> tuple[int, ...]:
    """Codes of 1, 2 and 4, and of their negatives: tensor cores add their products up without rounding."""
    form = FORMATS[name]
    if isinstance(form, Signed8):
        return (1, 2, 4, 0xFF, 0xFE, 0xFC)
    codes = [form.one() + (power << form.mantissa) for power in range(3)]
    sign = 1 << (form.exponent + form.mantissa)
    return (*codes, *(code | sign for code in codes)) if form.signed else tuple(codes)


def float_word(value: float) -> int:
    """The bits of a number in F32."""
    return int(struct.unpack("<I", struct.pack("<f", value))[0])


def word_float(word: int) -> float:
    """The F32 number of these bits."""
    return float(struct.unpack("<f", struct.pack("<I", word))[0])
