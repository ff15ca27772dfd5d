"""The scalar functions of the kernel IR in OpenCL C, and the helper functions that some of them need."""

from __future__ import annotations

from dataclasses import dataclass, field

from rlxlang.backends.opencl.c_types import (
    float_literal,
    integer_literal,
    register_type,
    suffix,
    unsigned_type,
)
from rlxlang.types import BF16, BOOL, F16, F32, DType

_BUILTINS = {
    "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log1p": "log1p", "log2": "log2", "log10": "log10",
    "sqrt": "sqrt", "sin": "sin", "cos": "cos", "tan": "tan", "asin": "asin", "acos": "acos", "atan": "atan", "sinh": "sinh",
    "cosh": "cosh", "erf": "erf", "erfc": "erfc", "floor": "floor", "ceil": "ceil", "trunc": "trunc",
    "round": "rint", "atan2": "atan2",
}  # fmt: skip
_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_ARITHMETIC = {"add": "+", "sub": "-", "mul": "*"}
_BITWISE = {"and": "&", "or": "|", "xor": "^"}

# Helpers with their bodies. T: the type, U: its unsigned arithmetic type, ONE and ZERO: literals, MIN: the lowest integer.
_FLOAT_HELPERS = {
    # NumPy's floor_divide, which rounds the quotient of an exact remainder.
    "floor_div": """T NAME(T a, T b) {
  if (b == ZERO) return a / b;
  const T r = fmod(a, b);
  T q = (a - r) / b;
  if (r != ZERO && (b < ZERO) != (r < ZERO)) q -= ONE;
  if (q == ZERO) return copysign(ZERO, a / b);
  const T f = floor(q);
  return q - f > ONE / 2 ? f + ONE : f;
}""",
    "mod": """T NAME(T a, T b) {
  const T r = fmod(a, b);
  if (b == ZERO || r != r) return r;
  if (r == ZERO) return copysign(ZERO, b);
  return (b < ZERO) != (r < ZERO) ? r + b : r;
}""",
    "sigmoid": """T NAME(T x) {
  const T e = exp(-fabs(x));
  return (x >= ZERO ? ONE : e) / (ONE + e);
}""",
    "binade": """T NAME(T x) { return x != x ? x : AS_T(AS_U(x) & EXPONENT); }""",
    # PoCL's stays an ulp below 1, and `floor` would show it; beyond LIMIT the nearest number is 1.
    "tanh": """T NAME(T x) { return fabs(x) > LIMIT ? copysign(ONE, x) : tanh(x); }""",
    "softplus": """T NAME(T x) { return fmax(x, ZERO) + log1p(exp(-fabs(x))); }""",
}
# PoCL calls a function for each `exp` and `tanh`, which keeps it from running work-items side by side in vectors. These are plain
# arithmetic. exp: Cody and Waite 1980, "Software Manual for the Elementary Functions" (reduction), Taylor to degree 7 on |r| < 0.35,
# where the rest is below 6e-9, scaled in two steps so that denormals come out. tanh: a polynomial in x² fitted on |x| < 0.64.
_EXP_F32 = """float rlx_exp_f32(float x) {
  const float c = x < -104.0f ? -104.0f : (x > 89.0f ? 89.0f : x);
  const float n = (c * 1.44269504f + 12582912.0f) - 12582912.0f;
  const float r = (c - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.98412698e-4f;
  p = p * r + 1.38888889e-3f;
  p = p * r + 8.33333333e-3f;
  p = p * r + 4.16666667e-2f;
  p = p * r + 1.66666667e-1f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const int k = n == n ? (int)n : 0;
  const int half_k = k >> 1;
  return p * as_float((half_k + 127) << 23) * as_float((k - half_k + 127) << 23);
}"""
_TANH_F32 = """float rlx_tanh_f32(float x) {
  const float a = fabs(x), z = x * x;
  float p = 2.24928079e-3f;
  p = p * z + -8.30506101e-3f;
  p = p * z + 2.17569109e-2f;
  p = p * z + -5.39577730e-2f;
  p = p * z + 1.33332973e-1f;
  p = p * z + -3.33333331e-1f;
  const float small = x * (1.0f + z * p);
  const float large = 1.0f - 2.0f / (rlx_exp_f32(a + a) + 1.0f);
  return a < 0.64f ? small : (x < 0.0f ? -large : large);
}"""
_SIGNED_HELPERS = {
    "floor_div": """T NAME(T a, T b) {
  if (b == 0) return 0;
  if (b == -1) return (T)(ZEROU - (U)a);
  const T q = a / b, r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? q - 1 : q;
}""",
    "mod": """T NAME(T a, T b) {
  if (b == 0 || b == -1) return 0;
  const T r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}""",
    "rem": """T NAME(T a, T b) { return b == 0 || b == -1 ? (T)0 : (T)(a % b); }""",
    "pow": """T NAME(T a, T n) {
  if (n < 0) return a == 1 ? (T)1 : a == -1 ? ((n & 1) ? (T)-1 : (T)1) : (T)0;
  U result = 1, factor = (U)a;
  for (T left = n; left != 0; left >>= 1) { if (left & 1) result *= factor; factor *= factor; }
  return (T)result;
}""",
}
_UNSIGNED_HELPERS = {
    "floor_div": """T NAME(T a, T b) { return b == 0 ? (T)0 : (T)(a / (b == 0 ? (T)1 : b)); }""",
    "mod": """T NAME(T a, T b) { return b == 0 ? (T)0 : (T)(a % (b == 0 ? (T)1 : b)); }""",
    "rem": """T NAME(T a, T b) { return b == 0 ? (T)0 : (T)(a % (b == 0 ? (T)1 : b)); }""",
    "pow": """T NAME(T a, T n) {
  U result = 1, factor = (U)a;
  for (T left = n; left != 0; left >>= 1) { if (left & 1) result *= factor; factor *= factor; }
  return (T)result;
}""",
}
_BF16_BITS = """ushort rlx_bf16_bits(float x) {
  const uint bits = as_uint(x);
  if (x != x) return (ushort)((bits >> 16) | 64);
  return (ushort)((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}"""
_ROUND_BF16 = "float rlx_round_bf16(float x) { return as_float((uint)rlx_bf16_bits(x) << 16); }"
_ROUND_F16 = """float NAME(T x) {
  ushort bits;
  vstore_half_rte(x, 0, (half*)&bits);
  return vload_half(0, (const half*)&bits);
}"""


@dataclass(slots=True)
class Functions:
    """Text of scalar functions; remembers which helpers the text calls.

    Attributes:
        fused: Whether `fma` is one fast instruction and `exp` is inlined. PoCL calls a function for each, and contracts `a * b + c` anyway.
        helpers: Definitions by name, in the order in which they must stand.
    """

    fused: bool
    helpers: dict[str, str] = field(default_factory=dict)

    def call(self, function: str, args: tuple[str, ...], operand: DType, dtype: DType) -> str:
        """The text of a call.

        Args:
            function: A name of `rlxlang.kernels.FUNCTIONS`.
            args: Text of the arguments: names or literals.
            operand: Dtype of the last argument.
            dtype: Dtype of the result.
        """
        if function == "cast":
            return self.convert(args[0], operand, dtype)
        if function == "where":
            return f"{args[0]} ? {args[1]} : {args[2]}"
        if function in _COMPARISONS:
            return f"{args[0]} {_COMPARISONS[function]} {args[1]}"
        if function == "minimum":
            return f"({args[0]} < {args[1]} || {args[0]} != {args[0]}) ? {args[0]} : {args[1]}"
        if function == "maximum":
            return f"({args[0]} > {args[1]} || {args[0]} != {args[0]}) ? {args[0]} : {args[1]}"
        if operand.is_float:
            return self._of_floats(function, args, operand)
        if operand.kind == "bool":
            return f"!{args[0]}" if function == "not" else f"{args[0]} {_BITWISE[function]} {args[1]}"
        return self._of_integers(function, args, operand)

    def _of_floats(self, function: str, args: tuple[str, ...], dtype: DType) -> str:
        x = args[0]
        one, zero = float_literal(1.0, dtype), float_literal(0.0, dtype)
        infinity = float_literal(float("inf"), dtype)
        if dtype == F32 and not self.fused and function in ("exp", "tanh", "sigmoid"):
            return f"{self._inlined(function)}({x})"
        if function in _BUILTINS:
            return f"{_BUILTINS[function]}({', '.join(args)})"
        if function in _ARITHMETIC:
            return f"{x} {_ARITHMETIC[function]} {args[1]}"
        if function in ("floor_div", "mod"):
            return f"{self.helper(function, dtype)}({x}, {args[1]})"
        if function in ("sigmoid", "softplus", "tanh", "binade"):
            return f"{self.helper(function, dtype)}({x})"
        if function == "log_sigmoid":
            return f"-{self.helper('softplus', dtype)}(-{x})"
        if function == "fma":
            return f"fma({', '.join(args)})" if self.fused else f"{x} * {args[1]} + {args[2]}"
        texts = {
            "div": lambda: f"{x} / {args[1]}",
            "rem": lambda: f"fmod({x}, {args[1]})",
            "pow": lambda: f"pow({x}, {args[1]})",
            "neg": lambda: f"-{x}",
            "abs": lambda: f"fabs({x})",
            "sign": lambda: f"{x} > {zero} ? {one} : ({x} < {zero} ? -{one} : ({x} == {zero} ? {zero} : {x}))",
            "rsqrt": lambda: f"{one} / sqrt({x})",
            "recip": lambda: f"{one} / {x}",
            "isnan": lambda: f"{x} != {x}",
            "isinf": lambda: f"fabs({x}) == {infinity}",
            "isfinite": lambda: f"fabs({x}) < {infinity}",
        }
        return texts[function]()

    def _of_integers(self, function: str, args: tuple[str, ...], dtype: DType) -> str:
        x, own, wide = args[0], register_type(dtype), unsigned_type(dtype)
        if function in _ARITHMETIC:
            return f"({own})(({wide}){x} {_ARITHMETIC[function]} ({wide}){args[1]})"
        if function in ("floor_div", "mod", "rem", "pow"):
            return f"{self.helper(function, dtype)}({x}, {args[1]})"
        if function in _BITWISE:
            return f"({own})({x} {_BITWISE[function]} {args[1]})"
        if function == "shl":
            return f"({own})(({wide}){x} << ({args[1]} & {dtype.bits - 1}))"
        if function == "shr":
            return f"({own})({x} >> ({args[1]} & {dtype.bits - 1}))"
        if function == "not":
            return f"({own})(~{x})"
        negated = f"({own})(({wide})0 - ({wide}){x})"
        if function == "neg":
            return negated
        if dtype.kind == "uint":
            return x if function == "abs" else f"({own})({x} != 0)"
        if function == "abs":
            return f"{x} < 0 ? {negated} : {x}"
        return f"({own})(({x} > 0) - ({x} < 0))"  # sign

    def convert(self, x: str, source: DType, target: DType) -> str:
        """The text of `cast` from one dtype to another."""
        if source == target:
            return x
        if target == BOOL:
            return f"{x} != 0"
        if target == BF16:
            self._define("rlx_bf16_bits", _BF16_BITS)
            self._define("rlx_round_bf16", _ROUND_BF16)
            return f"rlx_round_bf16((float){x})"
        if target == F16:
            own = "double" if source.name == "F64" else "float"
            name = f"rlx_round_f16_{own}"
            self._define(name, _ROUND_F16.replace("NAME", name).replace("T x", f"{own} x"))
            return f"{name}(({own}){x})"
        if target.is_integer and source.is_float:
            return f"{self._saturating(source, target)}({x})"
        return f"({register_type(target)}){x}"

    def needs_bf16_store(self) -> None:
        """Have the helper that stores of BF16 call."""
        self._define("rlx_bf16_bits", _BF16_BITS)

    def helper(self, function: str, dtype: DType) -> str:
        """The name of a helper function for a dtype."""
        name = f"rlx_{function}_{suffix(dtype)}"
        bodies = {"float": _FLOAT_HELPERS, "int": _SIGNED_HELPERS, "uint": _UNSIGNED_HELPERS}[dtype.kind]
        own, wide = register_type(dtype), unsigned_type(dtype)
        text = bodies[function].replace("NAME", name).replace("ZEROU", f"({wide})0")
        if dtype.is_float:
            text = text.replace("AS_T", f"as_{own}").replace("AS_U", f"as_{'uint' if dtype.bits == 32 else 'ulong'}")
            text = text.replace("EXPONENT", "0x7f800000U" if dtype.bits == 32 else "0x7ff0000000000000UL")
            text = text.replace("LIMIT", float_literal(9.02 if dtype.bits == 32 else 19.07, dtype))
            text = text.replace("ZERO", float_literal(0.0, dtype)).replace("ONE", float_literal(1.0, dtype))
        self._define(name, _typed(text, own, wide))
        return name

    def _inlined(self, function: str) -> str:
        """The name of a function of F32 that is plain arithmetic."""
        self._define("rlx_exp_f32", _EXP_F32)
        if function == "tanh":
            self._define("rlx_tanh_f32", _TANH_F32)
        elif function == "sigmoid":
            text = _FLOAT_HELPERS["sigmoid"].replace("exp(", "rlx_exp_f32(").replace("NAME", "rlx_sigmoid_f32")
            self._define(
                "rlx_sigmoid_f32", _typed(text.replace("ZERO", "0.0f").replace("ONE", "1.0f"), "float", "uint")
            )
        return f"rlx_{function}_f32"

    def _saturating(self, source: DType, target: DType) -> str:
        """The name of the conversion of floats to an integer type that saturates and gives 0 for NaN."""
        wide = source if source.name == "F64" else F32
        name = f"rlx_{suffix(target)}_of_{suffix(wide)}"
        low, high = target.integer_range
        own, x = register_type(target), register_type(wide)
        # high + 1 is a power of two and so exact in every float type.
        text = (
            f"{own} {name}({x} x) {{\n"
            f"  if (x >= {float_literal(float(high + 1), wide)}) return {integer_literal(high, target)};\n"
            f"  if (x < {float_literal(float(low), wide)}) return {integer_literal(low, target)};\n"
            f"  return x == x ? ({own})x : ({own})0;\n}}"
        )
        self._define(name, text)
        return name

    def _define(self, name: str, text: str) -> None:
        self.helpers.setdefault(name, f"static inline {text}")


def _typed(text: str, own: str, wide: str) -> str:
    """Replace the words T and U."""
    words = {"T": own, "U": wide}
    result, word = [], ""
    for c in f"{text} ":
        if c.isalnum() or c == "_":
            word += c
            continue
        result += [words.get(word, word), c]
        word = ""
    return "".join(result).rstrip()
