"""Random functions of an explicit key: known answers, distributions, equal numbers on devices, derivatives, lanes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats

import rlxlang as rlx
from rlxlang.backends.opencl import available_devices
from rlxlang.diagnostics import RlxError
from rlxlang.ops.threefry import FOLDS, fold_number, random_words
from rlxlang.types import DTYPES
from tests.ops.calls import call, pull

DEVICES = ("cpu", "reference", *(("opencl",) if available_devices() else ()))
KEY = np.array([7, 9], np.uint32)

# Random123 1.06, examples/kat_vectors: threefry2x32 with 20 rounds; counter, key, words.
KNOWN = [
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
]


def _word(value: int) -> np.ndarray:
    return np.array([value], np.uint32)


@pytest.mark.parametrize(("counter", "key", "words"), KNOWN)
def test_known_answers(counter: tuple[int, int], key: tuple[int, int], words: tuple[int, int]) -> None:
    found = random_words((_word(key[0]), _word(key[1])), (_word(counter[0]), _word(counter[1])))
    assert tuple(int(w[0]) for w in found) == words
    assert fold_number(key, counter[0], counter[1]) == words


@pytest.mark.parametrize("device", DEVICES)
def test_known_answers_on_devices(device: str) -> None:
    text = "input k: [U32; 2]; input n: [U32; ?]; out bits = random_bits([?m], key: k); input m: [?m]; out keys = fold_in(k, n);"
    numbers = np.array([0, 0xFFFFFFFF, 5], np.uint32)
    bits, keys = rlx.loads(text).run_on(device, k=[0, 0], n=numbers, m=np.zeros(3, np.float32))
    assert bits[0] == 0x6B200159
    for number, one in zip(numbers, keys, strict=True):
        assert tuple(one) == fold_number((0, 0), int(number), FOLDS)


MADE = """
input x: [?b, 6];
input k: [U32; 2];
out bits = random_bits([?b, 3], key: k);
out dropped = dropout(x, 0.3, key: k);
out unit = rng_uniform([?b, 5], key: k);
out between = rng_uniform(x, -1.5, 2.7, key: k);
out wide = rng_uniform([4, ?b], -3, 1e10, F64, k);
out half = rng_uniform([?b, 3], dtype: BF16, key: k);
out coins = bernoulli(0.2, [?b, 3], key: k);
out odds = bernoulli(x * x * 0.1, key: k);
out none = rng_uniform([0, 3], key: k);
out one = rng_uniform([], key: k);
out normal = rng_normal([?b, 7], key: k);
out cut = truncated_normal([?b, 4], 1, 0.5, key: k);
"""
EXACT = 10  # outputs that are equal bit for bit; the last two are rounded by `log` and `cos`


def test_devices_and_threads_agree() -> None:
    func = rlx.loads(MADE)
    x = np.random.default_rng(0).normal(size=(257, 6)).astype(np.float32)
    want = func.run_on("reference", x=x, k=KEY)
    for device in DEVICES:
        for count in (1, 2):
            with rlx.threads(count):
                found = func.run_on(device, x=x, k=KEY)
            for left, right in zip(found[:EXACT], want[:EXACT], strict=True):
                np.testing.assert_array_equal(left, right)
            for left, right in zip(found[EXACT:], want[EXACT:], strict=True):
                np.testing.assert_allclose(left, right, rtol=3e-6, atol=1e-6)


def test_numbers_do_not_depend_on_the_rest_of_the_program() -> None:
    alone = call("rng_uniform", (3, 4), key=KEY)
    np.testing.assert_array_equal(call("rng_uniform", (5, 4), key=KEY)[:3], alone)
    assert not np.array_equal(call("rng_uniform", (3, 4), key=KEY + np.uint32(1)), alone)


def test_an_integer_is_a_key() -> None:
    number = 7 + (9 << 32)
    np.testing.assert_array_equal(call("rng_normal", (3, 4), key=number), call("rng_normal", (3, 4), key=KEY))
    np.testing.assert_array_equal(call("fold_in", number, 3), call("fold_in", KEY, 3))


# --------------------------------------------------------------------------------------------- distributions

COUNT = 40_000
CONTINUOUS = [
    ("rng_uniform", {}, stats.uniform()),
    ("rng_uniform", {"low": -2, "high": 3.5}, stats.uniform(-2, 5.5)),
    ("rng_normal", {}, stats.norm()),
    ("rng_normal", {"mean": 3, "std": 0.5}, stats.norm(3, 0.5)),
    ("truncated_normal", {"low": -1, "high": 2}, stats.truncnorm(-1, 2)),
]


@pytest.mark.parametrize("dtype", ["F32", "F64"])
@pytest.mark.parametrize(("name", "options", "law"), CONTINUOUS)
def test_distributions(name: str, options: dict[str, float], law: stats.rv_continuous, dtype: str) -> None:
    found = call(name, (COUNT,), **options, dtype=DTYPES[dtype], key=KEY)
    assert stats.kstest(found.astype(np.float64), law.cdf).pvalue > 0.01
    assert abs(found.astype(np.float64).mean() - law.mean()) < 4 * law.std() / np.sqrt(COUNT)
    lagged = np.corrcoef(found[:-1], found[1:])[0, 1]
    assert abs(lagged) < 4 / np.sqrt(COUNT)


def test_bounds_hold() -> None:
    for low, high in ((0, 1), (1, 1 + 1e-6), (-3, -1), (1e-3, 5e7)):
        found = call("rng_uniform", (COUNT,), low, high, key=KEY)
        assert found.min() >= np.float32(low)
        assert found.max() < np.float32(high)
    found = call("truncated_normal", (COUNT,), low=-0.5, high=0.25, key=KEY)
    assert found.min() >= -0.5
    assert found.max() <= 0.25


def test_open_ends_are_finite() -> None:
    for low, high in ((-np.inf, np.inf), (1.0, np.inf), (-np.inf, -2.0)):
        found = call("truncated_normal", (COUNT,), low=low, high=high, key=KEY)
        assert np.isfinite(found).all()
        assert found.min() >= low
        assert found.max() <= high


def test_bernoulli_and_dropout_frequencies() -> None:
    p = np.array([[0.0], [0.1], [0.7], [1.0]], np.float32)
    found = call("bernoulli", np.broadcast_to(p, (4, COUNT)).copy(), key=KEY).mean(1)
    np.testing.assert_allclose(found, p[:, 0], atol=4 * 0.5 / np.sqrt(COUNT))
    assert (found[0], found[3]) == (0, 1)
    kept = call("dropout", np.ones(COUNT, np.float32), 0.3, key=KEY)
    assert set(np.unique(kept)) == {np.float32(0), np.float32(1 / 0.7)}
    assert abs((kept > 0).mean() - 0.7) < 4 * 0.46 / np.sqrt(COUNT)


def test_categorical_frequencies() -> None:
    logits = np.log(np.array([0.1, 0.2, 0.0001, 0.6999], np.float32))
    found = call("categorical", np.broadcast_to(logits, (COUNT, 4)).copy(), key=KEY)
    assert found.dtype == np.int32
    counts = np.bincount(found, minlength=4) / COUNT
    np.testing.assert_allclose(counts, np.exp(logits), atol=4 * 0.5 / np.sqrt(COUNT))
    masked = np.array([[-np.inf, 0, -np.inf]] * 50, np.float32)
    assert set(call("categorical", masked, key=KEY)) == {1}
    assert call("categorical", masked, axis=0, key=KEY).shape == (3,)


def test_erfinv() -> None:
    x = np.concatenate([np.linspace(-0.9999, 0.9999, 1001), [1e-12, -1, 1, 1 - 1e-12]])
    np.testing.assert_allclose(call("erfinv", x), special.erfinv(x), rtol=1e-9)
    func = rlx.Func("f", lambda s: s.input("x", ["?"]).erfinv())
    single = x[:1001].astype(np.float32)
    np.testing.assert_allclose(func(single), special.erfinv(single.astype(np.float64)), rtol=4e-6, atol=1e-9)


# --------------------------------------------------------------------------------------------- dropout


def test_the_gradient_of_dropout_is_its_mask() -> None:
    x = np.random.default_rng(1).normal(size=(5, 8))
    dropped = call("dropout", x, 0.25, key=KEY)
    ct = np.random.default_rng(2).normal(size=(5, 8))
    want = np.where(dropped != 0, ct / 0.75, 0)
    np.testing.assert_allclose(pull("dropout", x, 0.25, ct=ct, wrt=("x0",), key=KEY), want)


def test_no_and_full_dropout() -> None:
    x = np.array([1.0, np.nan, np.inf])
    np.testing.assert_array_equal(call("dropout", x, 0, key=KEY), x)
    np.testing.assert_array_equal(call("dropout", x, 1, key=KEY), np.zeros(3))
    np.testing.assert_array_equal(call("dropout", x, 0.0), x)  # draws nothing, so it needs no key


def test_parameters_of_distributions_have_derivatives() -> None:
    text = """
    input k: [U32; 2]; param mean: []; param std: []; param low: [3];
    let z = rng_normal([4, 3], mean, std, key: k);
    let u = rng_uniform([4, 3], low, 2.0, key: k);
    out loss = sum(z) + sum(u);
    """
    func = rlx.loads(text).with_params({"mean": 0.5, "std": 2.0, "low": np.zeros(3, np.float32)})
    loss, mean, std, low = func.value_and_grad(["mean", "std", "low"]).run(k=KEY)
    z, u = call("rng_normal", (4, 3), key=KEY), call("rng_uniform", (4, 3), key=KEY)
    assert mean == 12
    np.testing.assert_allclose(std, z.sum(), rtol=1e-5)
    np.testing.assert_allclose(low, (1 - u).sum(0), rtol=1e-5)
    np.testing.assert_allclose(loss, (0.5 + 2 * z).sum() + (2 * u).sum(), rtol=1e-5)


# --------------------------------------------------------------------------------------------- transforms


def test_lanes_share_a_key_that_is_not_batched() -> None:
    func = rlx.loads(
        "input x: [4]; input k: [U32; 2]; out y = dropout(x, 0.5, key: k); out u = rng_uniform(x, key: k);"
    )
    x = np.ones((3, 4), np.float32)
    shared = func.vmap(["x"], 3).run(x=x, k=KEY)
    keys = np.array([[1, 2], [3, 4], [5, 6]], np.uint32)
    apart = func.vmap(["x", "k"], 3).run(x=x, k=keys)
    for k in range(3):
        for mine, one in zip(shared, func.run(x=x[k], k=KEY), strict=True):
            np.testing.assert_array_equal(mine[k], one)
        for mine, one in zip(apart, func.run(x=x[k], k=keys[k]), strict=True):
            np.testing.assert_array_equal(mine[k], one)


def test_recomputation_sees_the_same_numbers() -> None:
    text = """
    input x: [6]; input k: [U32; 2];
    {word}fn f(v) {{ return tanh(dropout(v, 0.5, key: k)) + rng_normal(v, key: k); }}
    let a = f(x);
    out loss = sum(a * a);
    """
    plain, again = (rlx.loads(text.format(word=word)).value_and_grad(["x"]) for word in ("", "remat "))
    x = np.linspace(-1, 1, 6, dtype=np.float32)
    for left, right in zip(plain.run(x=x, k=KEY), again.run(x=x, k=KEY), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-6)


# --------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("call_text", "code"),
    [
        ("dropout(x, 1.5, key: k)", "E0350"),
        ("dropout(x, 0.5, key: x)", "E0301"),
        ("dropout(x, 0.5, key: stack([k, k]))", "E0404"),
        ("rng_uniform([3], 2, 1, key: k)", "E0350"),
        ("rng_uniform([3], dtype: I32, key: k)", "E0301"),
        ("rng_uniform([-3], key: k)", "E0350"),
        ("rng_normal([3], std: -1, key: k)", "E0350"),
        ("truncated_normal([3], low: 1, high: 1, key: k)", "E0350"),
        ("rng_uniform([3], 0, 1e6, F16, k)", "E0351"),
        ("rng_normal([3], key: 1.5)", "E0304"),
        ("bernoulli(1.5, [3], key: k)", "E0350"),
        ("fold_in(k, x)", "E0301"),
        ("rng_uniform([3], key: concat([k, k], 0))", "E0401"),
    ],
)
def test_wrong_arguments(call_text: str, code: str) -> None:
    with pytest.raises(RlxError) as caught:
        rlx.loads(f"input x: [4]; input k: [U32; 2]; out y = {call_text};")
    assert caught.value.diagnostics[0].code == code
