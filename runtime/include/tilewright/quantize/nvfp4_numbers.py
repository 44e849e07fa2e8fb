"""NVFP4's arithmetic in CuTe-DSL, for nvfp4_program.py: that of quantize/numbers.hpp, with the same bits.

Sums and products are instructions of PTX that say how they round, which nothing fuses.
"""

import cutlass
from cutlass import Float32, Int16, Int32, Int64, Uint32, cute
from cutlass._mlir import ir
from cutlass._mlir.dialects import llvm
from cutlass.cutlass_dsl import dsl_user_op

INFINITY = 0x7F800000  # as bits of a float; larger magnitudes are NaN
E4M3_NAN = 0x7F
LETTERS = {Int64: "l", Int32: "r", Uint32: "r", Float32: "f", Int16: "h"}


@dsl_user_op
def asm(kinds, text, *operands, effects=False, loc=None, ip=None):
    """Instructions of PTX. `kinds`: the type of the result, a tuple of the results' types, or None."""
    several = isinstance(kinds, tuple)
    results = kinds if several else () if kinds is None else (kinds,)
    letters = [f"={LETTERS[kind]}" for kind in results] + [LETTERS[type(value)] for value in operands]
    types = [kind.mlir_type for kind in results]
    if several:
        types = [ir.Type.parse(f"!llvm.struct<({', '.join(map(str, types))})>")]
    done = llvm.inline_asm(
        types[0] if types else None,
        [value.ir_value(loc=loc, ip=ip) for value in operands],
        text,
        ",".join(letters + ["~{memory}"] * effects),
        has_side_effects=effects,
        asm_dialect=llvm.AsmDialect.AD_ATT,
        loc=loc,
        ip=ip,
    )
    if several:
        parts = (
            llvm.extractvalue(kind, done, [i], loc=loc, ip=ip)
            for i, kind in enumerate([k.mlir_type for k in kinds])
        )
        return [kind(part) for kind, part in zip(kinds, parts, strict=True)]
    return kinds(done) if results else None


def select(condition, x, y):
    return type(x)(cutlass.select_(condition, x, y))


def bits_of(value):
    return asm(Uint32, "mov.b32 $0, $1;", value)


def float_of(bits):
    return asm(Float32, "mov.b32 $0, $1;", Uint32(bits))


def add(x, y):
    return asm(Float32, "add.rn.f32 $0, $1, $2;", x, y)


def multiply(x, y):
    return asm(Float32, "mul.rn.f32 $0, $1, $2;", x, y)


def divide(x, y):
    return asm(Float32, "div.rn.f32 $0, $1, $2;", x, y)


def fma(x, y, z):
    return asm(Float32, "fma.rn.f32 $0, $1, $2, $3;", x, y, z)


def saturating_fma(x, y, z):
    """x * y + z, clamped to [0, 1]; NaN becomes 0."""
    return asm(Float32, "fma.rn.sat.f32 $0, $1, $2, $3;", x, y, z)


def larger(x, y):
    """The larger of two numbers; NaN if either is."""
    return asm(Float32, "max.NaN.f32 $0, $1, $2;", x, y)


def magnitude(x):
    return asm(Float32, "abs.f32 $0, $1;", x)


def permute(x, y, selector):
    """The bytes of x (0 to 3) and y (4 to 7) that the selector's digits name, the lowest first."""
    return asm(Uint32, "prmt.b32 $0, $1, $2, $3;", x, y, selector)


def unpack(kind, pair):
    """The two floats of a pair of BF16 or F16, as a pair has them."""
    if kind == "bf16":
        return float_of(pair << 16), float_of(pair & Uint32(0xFFFF0000))
    halves = (asm(Int16, "cvt.u16.u32 $0, $1;", word) for word in (pair, pair >> 16))
    return tuple(asm(Float32, "cvt.f32.f16 $0, $1;", half) for half in halves)


def widen(word):
    """Four E4M3 as two pairs of F16, exactly."""
    halves = (asm(Int16, "cvt.u16.u32 $0, $1;", half) for half in (word, word >> 16))
    return [asm(Uint32, "cvt.rn.f16x2.e4m3x2 $0, $1;", half) for half in halves]


def amax_of(kind, pairs):
    """The largest magnitude of pairs of BF16 or F16; NaN if one is."""
    while len(pairs) > 1:
        half = len(pairs) // 2
        text = f"max.NaN.xorsign.abs.{kind}x2 $0, $1, $2;"
        pairs = [asm(Uint32, text, x, y) for x, y in zip(pairs[:half], pairs[half:], strict=True)]
    low, high = unpack(kind, pairs[0])
    return larger(magnitude(low), magnitude(high))


@cute.jit
def sixth(amax):
    """amax / 6, rounded to nearest. The product with the reciprocal is rounded; its remainder is exact and
    corrects it. For a subnormal quotient the remainder does not tell ties, so integers are divided."""
    inverse = Float32(1 / 6)
    rough = multiply(amax, inverse)
    quotient = fma(fma(Float32(-6.0), rough, amax), inverse, rough)
    bits, small = bits_of(amax), Uint32(0x01C00000)  # 6 * 2^-126
    if bits - small >= Uint32(INFINITY) - small:  # finds subnormals, infinity and NaN
        quotient = amax
        if bits < small:
            scaled = multiply(multiply(amax, Float32(2.0**100)), Float32(2.0**49))
            units = asm(Uint32, "cvt.rzi.u32.f32 $0, $1;", scaled)
            whole = units // Uint32(6)
            twice = (units - whole * Uint32(6)) * Uint32(2)
            up = twice + (whole & Uint32(1)) > Uint32(6)
            quotient = float_of(whole + select(up, Uint32(1), Uint32(0)))
    return quotient


def scale_of(amax, global_scale):
    """The E4M3 code of a block's scale: rounded to nearest even, saturated."""
    value = multiply(global_scale, sixth(amax))
    pair = asm(Int16, "cvt.rn.satfinite.e4m3x2.f32 $0, $1, $2;", Float32(0.0), value)
    return asm(Uint32, "cvt.u32.u16 $0, $1;", pair)


def factor_of(code, global_scale):
    """1 / (scale / global scale), by which a block's elements are multiplied. 0 becomes the smallest
    subnormal, whose products `repair` recognises."""
    size = code & Uint32(0x7F)
    scale = multiply(float_of(size << 20), Float32(2.0**120))  # exact, of subnormals, too
    signed = float_of(bits_of(scale) | (code & Uint32(0x80)) << 24)
    decoded = select(size == Uint32(E4M3_NAN), float_of(Uint32(0x7FFFFFFF)), signed)
    factor = divide(Float32(1.0), divide(decoded, global_scale))
    return select(bits_of(factor) == Uint32(0), float_of(Uint32(1)), factor)


def code_sum(value):
    """2^23 plus the E2M1 code of a product that is not negative, as `e2m1_sum` of numbers.hpp has it: steps
    of 1/2 below 2, of 1 from 2 to 4, and of 2 from 4 to 6. NaN gives code 0."""
    half = Float32(0.5)
    halves = asm(Float32, "mul.rn.sat.f32 $0, $1, $2;", value, half)
    ones = saturating_fma(value, half, Float32(-1.0))
    twos = saturating_fma(value, half, Float32(-2.0))
    return add(fma(ones, Float32(2.0), fma(halves, Float32(4.0), Float32(2.0**23))), twos)


def word_in_software(values, factor):
    """Eight E2M1 codes of values * factor, the first in the lowest bits. `repair` corrects those of a factor
    that is not regular."""
    word = Uint32(0)
    for value in reversed(values):
        word = asm(Uint32, "shf.l.wrap.b32 $0, $1, $2, 1;", bits_of(value), word)  # its sign
        word = (word << 3) + bits_of(code_sum(multiply(magnitude(value), factor)))
    return word - Uint32(0xFB000000)  # the sum of the eight shifted 2^23


CONVERT = """{
.reg .b8 a, b, c, d;
cvt.rn.satfinite.e2m1x2.f32 a, $2, $1;
cvt.rn.satfinite.e2m1x2.f32 b, $4, $3;
cvt.rn.satfinite.e2m1x2.f32 c, $6, $5;
cvt.rn.satfinite.e2m1x2.f32 d, $8, $7;
mov.b32 $0, {a, b, c, d};
}"""


def word_by_instruction(values, factor):
    """Eight E2M1 codes of values * factor, the first in the lowest bits."""
    return asm(Uint32, CONVERT, *(multiply(value, factor) for value in values))


@cute.jit
def repair(word, factor):
    """Corrects eight codes that `word_in_software` computed for a factor that is not regular. NaN is +6."""
    bits, ones = bits_of(factor), Uint32(0x11111111)
    repaired = word & ~((word & ones) << 3)  # infinities give NaN, all other elements 0 or -0
    if bits == Uint32(INFINITY):  # zeros give NaN, all other elements 6 or -6
        nonzeros = (word | word >> 1 | word >> 2) & ones
        repaired = (word & nonzeros * Uint32(15)) | (nonzeros ^ ones) * Uint32(7)
    if bits > Uint32(INFINITY):
        repaired = Uint32(0x77777777)
    return repaired


@cute.jit
def encode(values, factor, all_zero, converts: cutlass.Constexpr):
    """Two words of E2M1 codes of sixteen values. With `all_zero` the factor may be anything."""
    if cutlass.const_expr(converts):
        used = select(all_zero, Float32(0.0), factor)
        first, second = word_by_instruction(values[:8], used), word_by_instruction(values[8:], used)
    else:
        first, second = word_in_software(values[:8], factor), word_in_software(values[8:], factor)
        irregular = bits_of(factor) - Uint32(2) >= Uint32(INFINITY - 2)
        if irregular:
            if not all_zero:
                first, second = repair(first, factor), repair(second, factor)
    return first, second
