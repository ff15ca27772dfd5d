"""Linear algebra as users call it: against SciPy and NumPy, on every device, in loops, and where no result exists."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import rlxlang as rlx

DEVICES = ("reference", "cpu", "opencl")
Array = np.ndarray[Any, Any]


def well(*shape: int, seed: int = 0, dtype: str = "float32") -> Array:
    array: Array = (np.random.default_rng(seed).normal(size=shape) * 0.4 + 2 * np.eye(shape[-1])).astype(dtype)
    return array


def positive(n: int, *lead: int) -> Array:
    a = np.random.default_rng(n).normal(size=(*lead, n, n))
    found: Array = (a @ a.swapaxes(-1, -2) + np.eye(n)).astype(np.float32)
    return found


def dims(array: Array) -> str:
    return ", ".join(map(str, array.shape))


def run(text: str, device: str = "cpu", **arrays: Array) -> Any:
    kinds = {"float32": "F32", "float64": "F64", "float16": "F16", "int32": "I32"}
    inputs = "".join(f"input {n}: [{kinds[a.dtype.name]}; {dims(a)}]; " for n, a in arrays.items())
    results = rlx.loads(inputs + text).run_on(device, arrays)
    return results[0] if len(results) == 1 else tuple(results)


# ------------------------------------------------------------------------------------------------ values
@pytest.mark.parametrize("device", DEVICES)
def test_solutions(device: str) -> None:
    a, b, v = (
        well(2, 3, 3),
        np.ones((2, 3, 4), np.float32),
        np.ones(3, np.float32),
    )
    np.testing.assert_allclose(run("out y = solve(a, b);", device, a=a, b=b), np.linalg.solve(a, b), rtol=1e-5)
    np.testing.assert_allclose(run("out y = solve(a[0], v);", device, a=a, v=v), np.linalg.solve(a[0], v), rtol=1e-5)
    np.testing.assert_allclose(run("out y = a.inv();", device, a=a), np.linalg.inv(a), rtol=1e-5)
    stretched = run("out y = solve(a[0], b);", device, a=a, b=b)
    np.testing.assert_allclose(stretched, np.linalg.solve(a[:1], b), rtol=1e-5)


@pytest.mark.parametrize("device", DEVICES)
def test_factors_give_the_matrix_back(device: str) -> None:
    a = well(2, 4, 4)
    p, low, up = run("let (p, l, u) = lu(a); out p, l, u;", device, a=a)
    np.testing.assert_allclose(np.take_along_axis(a, p[..., None].astype(np.int64), 1), low @ up, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(low, np.tril(low))
    np.testing.assert_array_equal(up, np.triu(up))
    q, r = run("let (q, r) = qr(a); out q, r;", device, a=a[:, :, :2])
    np.testing.assert_allclose(q @ r, a[:, :, :2], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(q.swapaxes(1, 2) @ q, np.broadcast_to(np.eye(2), (2, 2, 2)), atol=1e-5)
    wide = a[0, :2]
    q, r = run("let (q, r) = qr(a); out q, r;", device, a=wide)
    assert q.shape == (2, 2)
    assert r.shape == (2, 4)
    np.testing.assert_allclose(q @ r, wide, rtol=1e-4, atol=1e-5)
    for shape in ((4, 4), (4, 2), (2, 4)):
        part = a[0, : shape[0], : shape[1]]
        u, s, vt = run("let (u, s, v) = svd(a); out u, s, v;", device, a=part)
        np.testing.assert_allclose((u * s) @ vt, part, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(s, np.linalg.svd(part, compute_uv=False), rtol=1e-5)
    w, v = run("let (w, v) = eigh(a); out w, v;", device, a=positive(4))
    np.testing.assert_allclose((v * w) @ v.T, positive(4), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(run("out y = eigvalsh(a);", device, a=positive(4)), w, rtol=1e-5)
    low = run("out y = cholesky(a);", device, a=positive(3, 2))
    np.testing.assert_allclose(low @ low.swapaxes(1, 2), positive(3, 2), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("device", DEVICES)
def test_numbers_of_matrices(device: str) -> None:
    a = well(3, 3, 3)
    a[1] = -a[1]
    np.testing.assert_allclose(run("out y = det(a);", device, a=a), np.linalg.det(a), rtol=1e-5)
    sign, log = run("let (s, l) = slogdet(a); out s, l;", device, a=a)
    np.testing.assert_array_equal(sign, [1, -1, 1])
    np.testing.assert_allclose(log, np.linalg.slogdet(a)[1], rtol=1e-5)
    np.testing.assert_allclose(run("out y = expm(a);", device, a=a), scipy.linalg.expm(a.astype(np.float64)), rtol=1e-5)
    b = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(run("out y = kron(a, b);", device, a=a[0], b=b), np.kron(a[0], b))
    np.testing.assert_array_equal(run("out y = kron(b, v);", device, b=b, v=b[0]), np.kron(b, b[0]))


@pytest.mark.parametrize("norm", [0.0, 1e-3, 1.0, 6.0, 40.0])
def test_exponentials_of_all_sizes(norm: float) -> None:
    a = np.random.default_rng(3).normal(size=(4, 4))
    a *= norm / max(np.abs(a).sum(0).max(), 1e-30)
    found = run("out y = expm(a);", a=a.astype(np.float64))
    np.testing.assert_allclose(found, scipy.linalg.expm(a), rtol=1e-11, atol=1e-13 * np.exp(norm))


@pytest.mark.parametrize(("m", "n"), [(5, 3), (3, 3), (3, 5)])
@pytest.mark.parametrize("columns", [None, 2])
def test_least_squares(m: int, n: int, columns: int | None) -> None:
    rng = np.random.default_rng(1)
    a = rng.normal(size=(m, n))
    b = rng.normal(size=(m,) if columns is None else (m, columns))
    found = run("out y = lstsq(a, b);", a=a, b=b)
    np.testing.assert_allclose(found, np.linalg.lstsq(a, b, rcond=None)[0], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("transpose", [True, False])
@pytest.mark.parametrize("unit", [True, False])
def test_triangles(lower: bool, transpose: bool, unit: bool) -> None:
    a, b = well(3, 3, dtype="float64"), np.arange(6.0).reshape(3, 2)
    options = f"lower: {str(lower).lower()}, transpose: {str(transpose).lower()}, unit_diagonal: {str(unit).lower()}"
    found = run(f"out y = triangular_solve(a, b, {options});", a=a, b=b)
    expected = scipy.linalg.solve_triangular(a, b, trans=int(transpose), lower=lower, unit_diagonal=unit)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


@pytest.mark.parametrize(("dtype", "result"), [("int32", "float32"), ("float16", "float16"), ("float64", "float64")])
def test_other_dtypes(dtype: str, result: str) -> None:
    a = np.array([[2, 1], [1, 3]], dtype)
    found = run("out y = inv(a);", a=a)
    assert found.dtype == result
    np.testing.assert_allclose(found, [[0.6, -0.2], [-0.2, 0.4]], rtol=2e-3 if result == "float16" else 1e-5)


@pytest.mark.parametrize(
    "op", ["inv(a)", "cholesky(a)", "det(a)", "expm(a)", "eigvalsh(a)", "solve(a, a)", "lstsq(a, a)"]
)
def test_matrices_without_elements(op: str) -> None:
    for shape in ((0, 2, 2), (2, 0, 0)):
        a = np.zeros(shape, np.float32)
        assert run(f"out y = {op};", a=a).shape[0] == shape[0]


# ------------------------------------------------------------------------------------------------ programs
@pytest.mark.parametrize("device", DEVICES)
def test_dynamic_sizes_gradients_and_batches(device: str) -> None:
    func = rlx.loads("input a: [?n, ?n]; input b: [?n]; out loss = sum(solve(a, b) ** 2);")
    grad = func.value_and_grad(["a", "b"])
    for n in (1, 3, 5):
        a, b = well(n, n), np.ones(n, np.float32)
        x = np.linalg.solve(a.astype(np.float64), b)
        right = np.linalg.solve(a.T.astype(np.float64), 2 * x)
        loss, da, db = grad.run_on(device, a=a, b=b)
        np.testing.assert_allclose(loss, x @ x, rtol=1e-5)
        np.testing.assert_allclose(da, -np.outer(right, x), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(db, right, rtol=1e-4, atol=1e-5)
    lanes = func.vmap(["a"]).run_on(device, a=well(4, 3, 3), b=np.ones(3, np.float32))[0]
    expected = [np.sum(np.linalg.solve(m, np.ones(3)) ** 2) for m in well(4, 3, 3)]
    np.testing.assert_allclose(lanes, expected, rtol=1e-5)


@pytest.mark.parametrize("device", DEVICES)
def test_inside_loops_and_branches(device: str) -> None:
    text = """
    input stack_: [?t, 2, 2]; input v: [2];
    scan x = v over a in stack_ reverse { let x = solve(a, x); emit det(a) as ds; }
    loop y = v, k = 0 while k < 3 max 5 { let y = solve(stack_[0], y); let k = k + 1; }
    let z = v;
    if sum(v) > 100.0 { let z = solve(stack_[0] * 0.0, v); }
    out loss = sum(x) + sum(y) + sum(z); out ds;"""
    a, v = well(3, 2, 2), np.array([1, 2], np.float32)
    x, y = v, v
    for m in a[::-1]:
        x = np.linalg.solve(m, x)
    for _ in range(3):
        y = np.linalg.solve(a[0], y)
    func = rlx.loads(text)
    loss, ds = func.run_on(device, stack_=a, v=v)
    np.testing.assert_allclose(loss, x.sum() + y.sum() + v.sum(), rtol=1e-5)
    np.testing.assert_allclose(ds, np.linalg.det(a), rtol=1e-5)
    found = func.grad(["stack_", "v"]).run_on(device, stack_=a, v=v)
    expected = func.grad(["stack_", "v"]).run_on("reference", stack_=a, v=v)
    for got, want in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)


def test_a_training_step_with_a_factorisation() -> None:
    text = """input x: [?b, 3]; param w: [3, 3] = eye();
    out loss = mean(x @ inv(w @ w.t() + eye(3)) * x) + slogdet(w @ w.t() + eye(3))[1];"""
    trainer = rlx.loads(text).init_params(seed=0).trainer(rlx.optim.Sgd(0.05))
    x = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)
    losses = [trainer.step(x=x) for _ in range(5)]
    assert losses[-1] < losses[0]


def test_a_warm_process_calls_the_routine(tmp_path: Path) -> None:
    program = """
import numpy as np, rlxlang as rlx
func = rlx.loads("input a: [2, 2]; out y = inv(a);", name="warm")
call = func.jit()
print(call(np.array([[2, 0], [0, 4]], np.float32)).tolist())
try:
    call(np.zeros((2, 2), np.float32))
except rlx.RlxRuntimeError as problem:
    print(problem.diagnostics[0].code, problem.diagnostics[0].notes)
"""
    seen = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=True,
            env={"RLX_CACHE_DIR": str(tmp_path), "PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(__file__).parents[2])},
        )
        seen.append(done.stdout)
    assert seen == ["[[0.5, 0.0], [0.0, 0.25]]\nE0814 ('at warm:1:26',)\n"] * 2


# ------------------------------------------------------------------------------------------------ no result
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("out y = inv(a);", "`inv`: the matrix is singular"),
        ("out y = solve(a, a);", "`solve`: the matrix is singular"),
        ("out y = cholesky(a - eye(2));", "not positive definite"),
        ("out y = lstsq(a, a);", "element 1 of the diagonal is 0"),
        ("out y = inv(stack([eye(2), a, a]));", "`inv`: matrix [1] of the batch is singular"),
    ],
)
@pytest.mark.parametrize("device", DEVICES)
def test_matrices_without_a_result(text: str, said: str, device: str) -> None:
    a = np.array([[1, 0], [0, 0]], np.float32)
    with pytest.raises(rlx.RlxRuntimeError, match="E0814") as caught:
        run(text, device, a=a)
    assert said in str(caught.value)


@pytest.mark.parametrize("op", ["inv(a)", "solve(a, a)", "cholesky(a)", "eigvalsh(a)", "det(a)", "expm(a)"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_spreads_in_its_own_matrix(op: str, bad: float) -> None:
    a = positive(3, 2)
    a[1, 0, 0] = bad
    found = run(f"out y = {op};", a=a)
    assert np.isfinite(found[0]).all()
    assert not np.isfinite(found[1]).all()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("input a: [2, 3]; out y = inv(a);", "E0400"),
        ("input a: [2]; out y = inv(a);", "E0404"),
        ("input a: [2, 2]; input b: [3]; out y = solve(a, b);", "E0402"),
        ("input a: [C64; 2, 2]; out y = inv(a);", "E0301"),
        ("input a: [2, 2]; out y = triangular_solve(a, a, lower: 3);", "E0306"),
        ("input a: [2, 2]; input b: [3, 2, 2]; input c: [4, 2, 2]; out y = solve(b, c);", "E0401"),
    ],
)
def test_what_is_refused_at_load(text: str, code: str) -> None:
    assert [d.code for d in rlx.check(text) if d.is_error] == [code]


# ------------------------------------------------------------------------------------------------ degenerate spectra
DEGENERATE = np.diag([2.0, 2.0, 5.0])


@pytest.mark.parametrize("op", ["eigvalsh(a)", "svd(a)[1]"])
def test_values_of_degenerate_spectra_are_differentiable(op: str) -> None:
    grad = rlx.loads(f"input a: [F64; 3, 3]; out loss = sum({op} ** 2);").grad(["a"])(a=DEGENERATE)
    np.testing.assert_allclose(grad, 2 * DEGENERATE, atol=1e-12)


EXPONENTIALS = [
    "let (w, v) = eigh(a); out loss = sum((v @ diag(exp(w)) @ v.t()) * c);",
    "let (u, s, vt) = svd(a); out loss = sum((u @ diag(exp(s)) @ vt) * c);",
]


@pytest.mark.parametrize("text", EXPONENTIALS)
def test_close_values_lose_no_more_than_the_gap(text: str) -> None:
    """The exponential of a symmetric positive matrix, through both spectra; its derivative from `expm`."""
    c = np.arange(9.0).reshape(3, 3)
    c, a = c + c.T, np.diag([2.0, 2.0 + 1e-6, 2.0 + 3e-6])
    head = "input a: [F64; 3, 3]; input c: [F64; 3, 3]; "
    found = rlx.loads(head + text).grad(["a"])(a=a, c=c)
    want = rlx.loads(head + "out loss = sum(expm(a) * c);").grad(["a"])(a=a, c=c)
    np.testing.assert_allclose(found, want, rtol=1e-7)


@pytest.mark.parametrize("text", EXPONENTIALS)
def test_a_limit_that_cannot_be_known_is_refused(text: str) -> None:
    """Both sides of the quotient vanish at equal values, and its limit is not 0: silence would be a wrong gradient."""
    grad = rlx.loads("input a: [F64; 3, 3]; input c: [F64; 3, 3]; " + text).grad(["a"])
    with pytest.raises(rlx.RlxRuntimeError, match="does not exist here"):
        grad(a=np.diag([2.0, 2.0, 2.0]), c=np.ones((3, 3)))


@pytest.mark.parametrize("pick", ["eigh(a)[1]", "svd(a)[0]"])
def test_a_vector_beside_equal_values_is_differentiable(pick: str) -> None:
    """The vector of 5 turns into those of 2 by 1 / (5 - 2), whichever these are."""
    column = 2 if "eigh" in pick else 0
    text = f"input a: [F64; 3, 3]; let v = {pick}; out loss = v[0, {column}] * v[2, {column}];"
    grad = rlx.loads(text).grad(["a"])(a=DEGENERATE)
    np.testing.assert_allclose((grad + grad.T)[0, 2], 1 / 3, rtol=1e-12)


@pytest.mark.parametrize(
    "text", ["let (_, v) = eigh(a); out loss = sum(v * c);", "let (u, _, _) = svd(a); out loss = sum(u * c);"]
)
def test_vectors_of_degenerate_spectra_are_refused_by_name(text: str) -> None:
    grad = rlx.loads(f"input a: [F64; 3, 3]; input c: [F64; 3, 3]; {text}").grad(["a"])
    with pytest.raises(rlx.RlxRuntimeError, match=r"the derivative of `(eigh|svd)` does not exist here"):
        grad(a=DEGENERATE, c=np.arange(9.0).reshape(3, 3))


def test_the_determinant_of_a_singular_matrix_is_differentiable() -> None:
    grad = rlx.loads("input a: [F64; 3, 3]; out y = det(a);").grad(["a"])
    np.testing.assert_allclose(grad(a=np.diag([1.0, 2.0, 0.0])), np.diag([0.0, 0.0, 2.0]), atol=1e-12)
    np.testing.assert_allclose(grad(a=np.zeros((3, 3))), np.zeros((3, 3)))
