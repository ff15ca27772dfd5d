"""`Func`: parameters, runs on every device, compiled calls, errors."""

from __future__ import annotations

import gc
import pickle
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import rlxlang as rlx
from rlxlang.initializers import Stream

DEVICES = [str(d) for d in rlx.devices()]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    """Return the name of each device of this machine."""
    name: str = request.param
    return name


def build(s: rlx.GraphScope) -> dict[str, rlx.Tensor]:
    x = s.input("x", ["?batch", 3])
    w = s.param("w", [3, 2], init="he_normal()")
    b = s.param("b", [2], init=0.5)
    y = (x @ w + b).relu()
    return {"loss": (y * y).mean(), "y": y}


@pytest.fixture(scope="module")
def model() -> rlx.Func:
    """Return a layer with its parameters bound."""
    return rlx.Func("layer", build).init_params(seed=0)


def reference(model: rlx.Func, x: np.ndarray) -> np.ndarray:
    w, b = model.param_binding("w"), model.param_binding("b")
    assert w is not None
    assert b is not None
    return np.maximum(np.asarray(x, np.float64) @ w + b, 0)


# ------------------------------------------------------------------------------------------ look


def test_names(model: rlx.Func) -> None:
    assert model.name == "layer"
    assert model.input_names() == ["x"]
    assert model.param_names() == ["w", "b"]
    assert model.output_names() == ["loss", "y"]
    assert model.output_count == 2
    assert model.graph.name == "layer"
    assert model.param_shape_of("w") == (3, 2)
    assert model.param_shape_of("nothing") is None
    assert rlx.Func("d", lambda s: s.input("x", [2]) * s.param("w", ["?n", 2]).sum()).param_shape_of("w") == (0, 2)


def test_one_and_several_outputs() -> None:
    assert rlx.Func("f", lambda s: s.input("x", [2]).exp()).output_names() == ["out"]
    assert rlx.Func.new("f", lambda s: s.input("x", [2]).exp()).output_names() == ["out"]
    pair = rlx.Func.multi("f", lambda s: [s.input("x", [2]).exp(), s.input("y", [2])])
    assert pair.output_names() == ["out_0", "out_1"]
    assert rlx.Func.from_graph(pair.graph).input_names() == ["x", "y"]


def test_text(model: rlx.Func) -> None:
    summary = model.summary()
    for word in ("layer", "x", "[F32; ?batch, 3]", "he_normal()", "8 parameters in 2 tensors", "loss"):
        assert word in summary
    assert 'input "x"' in str(model)
    assert 'out "y"' in str(model)
    assert repr(model) == "<Func layer(x, w, b) -> loss, y>"
    assert ">he_normal" not in model._repr_html_()
    assert ">w</td>" in model._repr_html_()


def test_html_is_escaped() -> None:
    func = rlx.Func("<b>", lambda s: s.input("<script>", [2]))
    assert "<script>" not in func._repr_html_()
    assert "&lt;script&gt;" in func._repr_html_()


# ------------------------------------------------------------------------------------------ parameters


def test_it_is_immutable(model: rlx.Func) -> None:
    before = model.param_binding("b")
    array = np.float32([1, 2])
    other = model.with_param("b", array)
    array[0] = 9
    assert other.param_binding("b").tolist() == [1, 2]
    assert model.param_binding("b") is before
    with pytest.raises(ValueError, match="read-only"):
        other.param_binding("b")[0] = 3
    with pytest.raises(AttributeError, match="cannot be changed"):
        model.name = "x"  # type: ignore[misc]
    with pytest.raises(TypeError):
        model.bindings["b"] = array  # type: ignore[index]


def test_binding_is_checked(model: rlx.Func) -> None:
    with pytest.raises(rlx.RlxNameError, match="no param `weight`"):
        model.with_param("weight", [1])
    with pytest.raises(rlx.RlxShapeError, match="expected \\[2\\]"):
        model.with_param("b", [1, 2, 3])
    with pytest.raises(rlx.RlxTypeError, match="int32"):
        model.with_param("b", np.int32([1, 2]))
    with pytest.raises(rlx.RlxNameError, match="did you mean `b`"):
        model.param_binding("B")


def test_init_params() -> None:
    func = rlx.Func("layer", build)
    assert func.param_binding("w") is None
    seen = []

    def fill(name: str, dims: tuple[int, ...]) -> np.ndarray:
        seen.append((name, dims))
        return np.full(dims, len(seen))

    bound = func.init_params(lambda n, d: fill(n, d).astype(np.float32))
    assert seen == [("w", (3, 2)), ("b", (2,))]
    assert bound.param_binding("b").tolist() == [2, 2]
    seeded = func.init_params(seed=3)
    assert seeded.param_binding("b").tolist() == [0.5, 0.5]
    np.testing.assert_array_equal(seeded.param_binding("w"), func.init_params(seed=3).param_binding("w"))
    assert not np.array_equal(seeded.param_binding("w"), func.init_params(seed=4).param_binding("w"))


def test_init_faults() -> None:
    func = rlx.Func("f", lambda s: s.input("x", [2]) * s.param("a", [2]) + s.param("c", [2], init=0))
    with pytest.raises(rlx.RlxValueError, match="`a`"):
        func.init_params(seed=0)
    with pytest.raises(rlx.RlxValueError, match="either"):
        func.init_params()
    with pytest.raises(rlx.RlxValueError, match="None for `a`"):
        func.init_params(lambda n, d: None)
    for seed in ("a", 1.5, None):
        with pytest.raises(rlx.RlxTypeError, match="a seed is an integer"):
            func.init_randn(seed)  # type: ignore[arg-type]
    for stddev in ("a", float("nan")):
        with pytest.raises(rlx.RlxValueError, match="stddev"):
            func.init_randn(0, stddev)  # type: ignore[arg-type]
    assert (func.init_randn(np.int64(-7)).param_binding("a") == func.init_randn(-7).param_binding("a")).all()
    dynamic = rlx.Func("f", lambda s: s.input("x", ["?n"]) * s.param("a", ["?n"], init=0))
    for attempt in (lambda: dynamic.init_params(seed=0), lambda: dynamic.init_randn(0, 1.0)):
        with pytest.raises(rlx.RlxValueError, match="param `a` has dynamic axes, \\[\\?n\\]"):
            attempt()
    assert dynamic.with_param("a", [1, 2])(x=[3, 4]).tolist() == [3, 8]
    with pytest.raises(rlx.RlxShapeError, match="param `a`"):
        dynamic.with_param("a", [1, 2])(x=[3, 4, 5])


def test_init_randn_is_one_stream_over_float_params() -> None:
    def several(s: rlx.GraphScope) -> rlx.Tensor:
        a, k, c = s.param("a", [3]), s.param("k", [2], "I32"), s.param("c", [2, 2], "F16")
        return a.sum() + k.sum().cast("F32") + c.cast("F32").sum()

    func = rlx.Func("f", several).init_randn(11, 0.3)
    numbers = Stream(11).normal(7).astype(np.float32) * np.float32(0.3)
    np.testing.assert_array_equal(func.param_binding("a"), numbers[:3])
    np.testing.assert_array_equal(func.param_binding("c"), numbers[3:].reshape(2, 2).astype(np.float16))
    assert func.param_binding("k") is None


# ------------------------------------------------------------------------------------------ run


@pytest.mark.parametrize("batch", [1, 0, 5, 300])
def test_run(model: rlx.Func, device: str, batch: int, rng: np.random.Generator) -> None:
    x = rng.standard_normal((batch, 3)).astype(np.float32)
    want = reference(model, x)
    for loss, y in (model.run_on(device, x=x), model.run_on(device, {"x": x}), model.jit(device).run(x=x)):
        np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-5)
        assert y.dtype == np.float32
        assert loss.shape == ()
        if batch:
            np.testing.assert_allclose(loss, (want * want).mean(), rtol=1e-4)


def test_ways_to_call(model: rlx.Func) -> None:
    x = np.ones((2, 3))
    _, y = model(x=x)
    for other in (model(x), model.run(x=x), model.run({"x": x}), model.run([("x", x)])):
        np.testing.assert_array_equal(other[1], y)
    assert list(model.run_dict(x=x)) == ["loss", "y"]
    single = rlx.Func("f", lambda s: s.input("x", [2]) * 2.0)
    assert isinstance(single(x=[1, 2]), np.ndarray)
    assert [a.tolist() for a in single.run(x=[1, 2])] == [[2, 4]]


def test_jit(model: rlx.Func, device: str) -> None:
    call = model.jit(device)
    assert str(call.device) == device
    assert call.func is model
    for n in (2, 7, 2, 1, 9, 9):
        x = np.arange(3 * n).reshape(n, 3) / 10
        want = reference(model, x)
        for result in (
            call(x),
            call(x=x),
            call.call(x),
            call.call(x.astype(np.float32)),
            call.call(np.asfortranarray(x)),
        ):
            assert isinstance(result, tuple)
            np.testing.assert_allclose(result[1], want, rtol=1e-5)
    assert list(call.run_dict(x=x)) == ["loss", "y"]
    with pytest.raises(rlx.RlxShapeError, match="input `x`"):
        call.call(np.ones((2, 4), np.float32))
    with pytest.raises(rlx.RlxNameError, match="`z`"):
        call(z=1)
    with pytest.raises(rlx.RlxRuntimeError, match="`x`"):
        call.call()
    with pytest.raises(rlx.RlxError, match="1 input, 2"):
        call(x, x)
    np.testing.assert_allclose(call.call(x)[1], want, rtol=1e-5)


def test_outputs_belong_to_the_caller(device: str) -> None:
    func = rlx.Func(
        "f", lambda s: {"same": s.input("x", [3]), "param": s.param("w", [3]) + 0.0, "again": s.input("y", [3])}
    )
    w, x = np.float32([1, 2, 3]), np.float32([4, 5, 6])
    bound = func.with_param("w", w)
    for run in (lambda: bound.run_on(device, x=x, y=x), lambda: bound.jit(device).run(x=x, y=x)):
        for output in run():
            output[...] = 7
        assert x.tolist() == [4, 5, 6]
        assert bound.param_binding("w").tolist() == [1, 2, 3]
    first = bound.jit(device)
    a, b = first(x, x), first(x + 1, x)
    assert a[0].tolist() == [4, 5, 6]
    assert b[0].tolist() == [5, 6, 7]


def test_names_that_are_python_words() -> None:
    func = rlx.Func("f", lambda s: s.input("inputs", [1]) + s.input("a.b", [1]) + s.input("device", [1]))
    assert func.run({"inputs": [1], "a.b": [2], "device": [3]})[0].tolist() == [6]
    assert func.run_on("reference", {"inputs": [1], "a.b": [2], "device": [3]})[0].tolist() == [6]


def test_scalars_and_no_inputs(device: str) -> None:
    func = rlx.Func("f", lambda s: s.input("x", []) * 2.0)
    assert func.run_on(device, x=3)[0].shape == ()
    assert float(func.run_on(device, x=3)[0]) == 6
    constant = rlx.Func("f", lambda s: s.constant([1.0, 2.0]) + s.param("w", [2]))
    assert constant.with_param("w", [1, 1]).run_on(device)[0].tolist() == [2, 3]


@pytest.mark.parametrize("dtype", ["F64", "F16", "BF16", "I8", "I64", "U16", "Bool", "I32"])
def test_dtypes(device: str, dtype: str) -> None:
    func = rlx.Func(
        "f", lambda s: s.where(s.input("c", [2], "Bool"), s.input("x", [2], dtype), s.input("y", [2], dtype))
    )
    kind = func.graph.input("x").node.dtype.numpy
    x, y = np.array([1, 0], kind), np.array([1, 1], kind)
    (out,) = func.run_on(device, c=[True, False], x=x, y=y)
    assert out.dtype == kind
    assert out.tolist() == [1, 1]


def test_errors_of_runs(model: rlx.Func) -> None:
    for inputs, error, words in (
        ({}, rlx.RlxRuntimeError, ["`layer`", "`x`", "[F32; ?batch, 3]"]),
        ({"x": np.ones((2, 3)), "z": 1}, rlx.RlxNameError, ["`z`"]),
        ({"x": np.ones((2, 4))}, rlx.RlxShapeError, ["`x`", "[2, 4]", "[?batch, 3]"]),
        ({"x": np.ones((2, 3), np.int32)}, rlx.RlxTypeError, ["`x`", "F32", "int32"]),
    ):
        with pytest.raises(error) as caught:
            model.run(inputs)
        for word in words:
            assert word in str(caught.value)
    with pytest.raises(rlx.RlxRuntimeError, match="`w`, `b` have no value"):
        rlx.Func("layer", build).run(x=np.ones((2, 3)))
    with pytest.raises(rlx.RlxRuntimeError, match="have no value"):
        rlx.Func("layer", build).jit()


def test_guards_are_checked_at_every_new_size(device: str) -> None:
    func = rlx.Func("f", lambda s: s.input("x", ["?n"]) + s.input("y", ["?m"]))
    call = func.jit(device)
    assert func.run_on(device, x=[1, 2], y=[3, 4])[0].tolist() == [4, 6]
    assert call([1, 2], [3, 4]).tolist() == [4, 6]
    for run in (lambda: func.run_on(device, x=[1, 2, 3], y=[1, 2]), lambda: call([1, 2, 3], [1, 2])):
        with pytest.raises(rlx.RlxRuntimeError) as caught:
            run()
        for word in ("`?n` = 3", "`?m` = 2", "input `x`", "input `y`"):
            assert word in str(caught.value)
    with pytest.raises(rlx.RlxRuntimeError):  # a dynamic axis does not broadcast when it happens to be 1
        call([1], [1, 2])


# ------------------------------------------------------------------------------------------ sharing


def test_compiled_code_is_shared_and_dropped() -> None:
    func = rlx.Func("f", lambda s: s.input("x", [2]) * s.param("w", [2]))
    other = func.with_param("w", [1, 2])
    assert other.traced is func.traced
    other.run(x=[1, 1])
    assert other.traced.compiled(None) is func.with_param("w", [3, 4]).traced.compiled(None)
    watch = weakref.ref(func.traced)
    del func, other
    gc.collect()
    assert watch() is None


def test_errors_can_be_pickled(model: rlx.Func) -> None:
    with pytest.raises(rlx.RlxShapeError) as caught:
        model.run(x=np.ones((2, 4)))
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_threads_of_python_share_a_function(device: str) -> None:
    func = rlx.Func("f", lambda s: (s.input("x", ["?n"]) * 2.0).exp().sum())
    call = func.jit(device)
    inputs = [np.linspace(0, 1, n, dtype=np.float32) for n in (5, 1000, 5, 70)]
    want = [func.run_on(device, x=x)[0] for x in inputs]

    def work(k: int) -> bool:
        return bool(
            all(run(inputs[k % 4]) == want[k % 4] for run in (call, call.call, lambda x: func.run_on(device, x=x)[0]))
        )

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(40)))


def test_everything_wrong_with_several_parameters_is_reported_together() -> None:
    func = rlx.loads("input x: [2]; param wa: [2]; param wb: [2, 2]; param k: [I32; 2]; out y = wb @ (x * wa) + k;")
    with pytest.raises(rlx.RlxError) as caught:
        func.with_params({"wa": np.zeros(3, np.float32), "ww": np.zeros(2), "k": np.array(["a", "b"]), "zz": 1})
    assert [d.code for d in caught.value.diagnostics] == ["E0805", "E0807", "E0806", "E0807"]
    assert isinstance(caught.value, rlx.RlxShapeError)
    assert func.bindings == {}
