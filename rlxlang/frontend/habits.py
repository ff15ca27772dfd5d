"""Names that other systems have for what is written otherwise here: of values, functions, methods, fields and options."""

from __future__ import annotations

from collections.abc import Iterable

from rlxlang.diagnostics import did_you_mean


def _each(names: str, help_: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), help_)


# Names that mean something in Python, and what is written here.
VALUES = {
    "True": "write `true`",
    "False": "write `false`",
    "None": "write `none`; a new axis of an index is `new`",
    "self": "a block has no `self`: its parameters have names of their own",
    **_each("np jnp torch math", "an op stands alone: `exp(x)`, or a method: `x.exp()`"),
}
FIELDS = {
    "T": "write `x.t()`; axes in another order are `x.transpose([1, 0, 2])`",
    "mT": "write `x.swapaxes(-2, -1)`",
    "shape": "a size is `dim(x, axis)`",
    "grad": "write `grad(loss, x)`",
}
CALLS = {
    **_each(
        "astype to type type_as asarray float long int int32 float32", "write `cast(x, F32)` or the dtype that is meant"
    ),
    **_each("half float16", "write `cast(x, F16)`"),
    "bfloat16": "write `cast(x, BF16)`",
    **_each("double float64", "write `cast(x, F64)`"),
    **_each("size len shape", "a size is `dim(x, axis)`"),
    **_each("absolute fabs", "write `abs(x)`"),
    **_each("power", "write `x ** y`, or `pow(x, y)`"),
    **_each("subtract", "write `x - y`"),
    **_each("multiply", "write `x * y`"),
    **_each("divide true_divide", "write `x / y`"),
    **_each("floor_divide", "write `x div y`"),
    **_each("remainder fmod", "write `x % y`"),
    **_each("negative", "write `-x`"),
    **_each("reciprocal", "write `recip(x)`"),
    **_each(
        "arcsin arccos arctan arctan2 arcsinh arccosh arctanh",
        "the inverses are `asin acos atan atan2 asinh acosh atanh`",
    ),
    **_each("concatenate hstack vstack dstack", "write `cat([a, b], axis: 0)`"),
    **_each("bmm matmul_ addmm baddbmm", "write `a @ b`, batches included"),
    **_each("item numpy cpu cuda", "tensors are values inside of a graph: `out` or `tap` gives one to Python"),
    **_each("contiguous clone copy copy_", "a tensor is a value and needs no copy: leave it out"),
    **_each("requires_grad_ backward", "derivatives are taken by `grad(loss, x)`, or from outside by `func.grad`"),
    **_each("ravel", "write `flatten(x)`"),
    **_each("sigmoid_ relu_ add_ mul_ sub_ div_", "nothing is changed in place: bind the result by `let`"),
    **_each("amax nanmax", "write `max(x, axes)`"),
    **_each("amin nanmin", "write `min(x, axes)`"),
    **_each("linalg", "its functions stand alone: `inv solve cholesky qr svd eigh`"),
    **_each("numel nelement", "multiply the sizes: `dim(x, 0) * dim(x, 1)`"),
    **_each("rand uniform", "write `rng_uniform([2, 3])`"),
    **_each("randn normal", "write `rng_normal([2, 3])`"),
    **_each("multinomial choice", "write `categorical(logits)`"),
    **_each("embedding", "write `embed(table, ids)`"),
    **_each("nll_loss", "write `nll(log_probs, targets)`"),
    **_each("mse_loss", "write `mse(x, y)`"),
    **_each("l1_loss", "write `mae(x, y)`"),
    **_each("scaled_dot_product_attention", "write `attention(q, k, v, …)`"),
    **_each("batch_matmul", "write `a @ b`, batches included"),
    **_each("print", "write `tap y;` to see a value"),
    **_each("range", "a range is `a..b`; a tensor of numbers is `arange(n)`"),
}
# What options are called elsewhere, and their names here; those that an op has are proposed.
_OPTIONS = {
    **dict.fromkeys(("dim", "dims", "axis", "axes"), ("axis", "axes", "dims", "perm")),
    **dict.fromkeys(("keepdims", "keepdim"), ("keep_dim",)),
    **dict.fromkeys(("correction", "unbiased"), ("ddof",)),
    **dict.fromkeys(("epsilon", "variance_epsilon"), ("eps",)),
    **dict.fromkeys(("weight", "kernel_weight"), ("w", "gamma")),
    **dict.fromkeys(("scale", "bias"), ("gamma", "beta")),
    **dict.fromkeys(("kernel_size", "window_shape"), ("kernel", "k")),
    **dict.fromkeys(("strides",), ("stride",)),
    **dict.fromkeys(("pad", "pads"), ("padding",)),
    **dict.fromkeys(("shape", "newshape", "size"), ("dims", "size")),
    **dict.fromkeys(("num_heads", "n_heads", "nhead"), ("heads",)),
    **dict.fromkeys(("is_causal", "causal", "attn_mask"), ("mask",)),
    **dict.fromkeys(("negative_slope",), ("slope",)),
    **dict.fromkeys(("largest",), ("descending",)),
    **dict.fromkeys(("shifts",), ("shift",)),
    **dict.fromkeys(("repeats",), ("counts",)),
    **dict.fromkeys(("num_groups", "feature_group_count"), ("groups",)),
}


def option_help(name: str, known: Iterable[str]) -> str:
    """A help line for an option that is not known: the one that means the same, else the nearest ones, else ""."""
    known = list(known)
    meant = [option for option in _OPTIONS.get(name, ()) if option in known]
    return f"did you mean `{meant[0]}`?" if meant else did_you_mean(name, known)
