"""E4M3 to NVFP4 by comparing bytes: quantize/thresholds.hpp in CuTe-DSL, with the same bits.

A block's amax is one of 128 codes. A table in shared memory holds, for each code, the scale and the smallest
magnitude that becomes each E2M1 code. Quantising then compares four elements at a time, without conversion or
multiplication.
"""

import cutlass
from cutlass import Float32, Int16, Uint32, cute
from tilewright_programs.quantize.nvfp4_numbers import (
    E4M3_NAN,
    INFINITY,
    asm,
    bits_of,
    divide,
    factor_of,
    float_of,
    multiply,
    permute,
    repair,
    scale_of,
    select,
)

CODES, WORDS = 128, 8  # of the table: rows, and words of a row: the scale, then seven thresholds
ZERO_IS_NAN, ALL_IS_NAN = 0x100, 0x200  # flags beside the scale's code: what `repair` has to do
TOPS = 0x80808080  # bit 7 of each byte
BOUNDS = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)  # halfway between the values of codes j and j + 1


def encode_e4m3(value):
    """The E4M3 code of a number: rounded to nearest even, saturated."""
    pair = asm(Int16, "cvt.rn.satfinite.e4m3x2.f32 $0, $1, $2;", Float32(0.0), value)
    return asm(Uint32, "cvt.u32.u16 $0, $1;", pair)


def decode_e4m3(code):
    """The number of an E4M3 code."""
    size = code & Uint32(0x7F)
    number = multiply(float_of(size << 20), Float32(2.0**120))  # exact, of subnormals, too
    signed = float_of(bits_of(number) | (code & Uint32(0x80)) << 24)
    return select(size == Uint32(E4M3_NAN), float_of(Uint32(0x7FFFFFFF)), signed)


def table_factor(code, global_scale):
    """`factor_of` for a code that is not negative, and a global scale that is not. Divisions of 0 and of NaN
    would take the slow path, for which the whole warp waits."""
    size_of_scale = bits_of(global_scale)
    special = (code == Uint32(0)) | (code == Uint32(E4M3_NAN))
    infinite = (code == Uint32(0)) & (size_of_scale - Uint32(1) < Uint32(INFINITY))
    value = float_of(select(infinite, Uint32(INFINITY), Uint32(0x7FFFFFFF)))
    return select(special, value, factor_of(select(special, Uint32(0x38), code), global_scale))


def choose(mask, x, y):
    """Bits of x where the mask has ones, and of y elsewhere."""
    return asm(Uint32, "lop3.b32 $0, $1, $2, $3, 0xCA;", Uint32(mask), x, y)


def larger_halves(x, y):
    """The larger halves of two pairs of 16-bit numbers."""
    return asm(Uint32, "max.u16x2 $0, $1, $2;", x, y)


def row_of_amax(amax, global_scale):
    """The eight words of the table for the code of an amax, from 0 to 0x7F."""
    scale = scale_of(decode_e4m3(amax), global_scale)
    step = divide(decode_e4m3(scale), global_scale)
    factor = divide(Float32(1.0), step)
    irregular = select(bits_of(factor) == Uint32(INFINITY), Uint32(ZERO_IS_NAN), Uint32(ALL_IS_NAN))
    regular = (bits_of(factor) < Uint32(INFINITY)) | (amax == Uint32(0))
    words = [scale | select(regular, Uint32(0), irregular)]
    for j, bound in enumerate(BOUNDS):
        nearest = encode_e4m3(multiply(Float32(bound), step)) & Uint32(0x7F)
        product = multiply(decode_e4m3(nearest), factor)
        # The bound itself is rounded to the even code.
        reached = product > Float32(bound) if j % 2 == 0 else product >= Float32(bound)
        least = select(reached, nearest, nearest + Uint32(1))
        words.append(select(amax == Uint32(0), Uint32(0x80), least) * Uint32(0x01010101))
    return words


def store_row(table, code, global_scale):
    """Computes the row of a code, and stores it at its place in the table, whose address is given."""
    words = row_of_amax(Uint32(code), global_scale)
    for half in range(2):
        address = table + code * (4 * WORDS) + 16 * half
        text = "st.shared.v4.u32 [$0], {$1, $2, $3, $4};"
        asm(None, text, address, *words[4 * half : 4 * half + 4], effects=True)


def load_row(table, code):
    """The words of a code's row."""
    text = "ld.volatile.shared.v4.u32 {$0, $1, $2, $3}, [$4];"
    address = table + code * (4 * WORDS)
    return [word for half in (0, 16) for word in asm((Uint32,) * 4, text, address + half, effects=True)]


def sorted_words(words):
    """Sixteen elements. A word holds those that become the same nibble of four bytes of data: elements 0, 2,
    4 and 6, then 1, 3, 5 and 7, and in the same order the other eight."""
    selectors = (0x6420, 0x7531)
    return [permute(words[i], words[i + 1], Uint32(digits)) for i in (0, 2) for digits in selectors]


def amax_code(words):
    """The code of the largest magnitude of sorted words. NaN has the largest code."""
    high = [word | Uint32(TOPS) for word in words]  # in each 16 bits, only the upper byte matters
    # Shifts by a multiplication: the multiplier is idle here, and the logic unit is busy.
    low = [asm(Uint32, "mul.lo.u32 $0, $1, 256;", word) for word in high]
    pairs = high + low
    while len(pairs) > 1:
        pairs = [larger_halves(x, y) for x, y in zip(pairs[::2], pairs[1::2], strict=True)]
    return larger_halves(pairs[0], pairs[0] << 16) >> 24 & Uint32(0x7F)


def codes_of(words, least):
    """Eight E2M1 codes of two sorted words, the first in the lowest bits. Bit 7 of a byte is set in the
    difference to a threshold if the element reaches it. An element reaches all thresholds up to some, and
    their number is its code."""
    bits = []  # of each word: bits of the codes, lowest first, then the signs; each in bit 7 of a byte
    for word in words:
        size = word | Uint32(TOPS)
        reached = [size - threshold for threshold in least]
        middle = reached[1] ^ reached[3] ^ reached[5]
        low = (reached[0] ^ reached[2] ^ reached[4]) ^ reached[6] ^ middle
        bits.append((low, middle, reached[3], word))
    data = None
    for first, second in zip(*bits, strict=True):
        bit = choose(TOPS, second, first >> 4)  # bits 7 and 3 of each byte
        data = bit if data is None else choose(0x88888888, bit, data >> 1)
    return data


@cute.jit
def quantize(words, table):
    """The scale's code, and two words of data, of sixteen E4M3."""
    sorted_ = sorted_words(words)
    row = load_row(table, cutlass.Int32(amax_code(sorted_)))
    scale, least = row[0], row[1:]
    first, second = codes_of(sorted_[:2], least), codes_of(sorted_[2:], least)
    if scale >= Uint32(ZERO_IS_NAN):
        factor = float_of(select(scale >= Uint32(ALL_IS_NAN), Uint32(0x7FFFFFFF), Uint32(INFINITY)))
        first, second = repair(first, factor), repair(second, factor)
    return scale & Uint32(0xFF), first, second
