"""`use losses;`: losses against their formulas in NumPy. Where not the reduction is at stake, the values are weighed and kept."""

from __future__ import annotations

from itertools import groupby, product
from typing import Any

import numpy as np
from scipy import special, stats

import rlxlang as rlx
from tests.stdlib.measure import DEVICES, Array, Values, check

Rng = np.random.Generator


def softplus(x: Array) -> Array:
    return np.logaddexp(x, 0)


def log_softmax(x: Array) -> Array:
    return np.asarray(special.log_softmax(x, -1))


def picked(logits: Array, labels: Array) -> Array:
    """Cross-entropy of the rows of a matrix."""
    return np.array([-row[label] for row, label in zip(log_softmax(logits), labels, strict=True)])


def binary(x: Array, y: Array) -> Array:
    p = special.expit(x)
    return np.asarray(-y * np.log(p) - (1 - y) * np.log(1 - p))


def kl(p: Array, q: Array) -> Array:
    """Of rows of probabilities."""
    return np.asarray((p * np.log(p / q)).sum(-1))


def unit(x: Array) -> Array:
    return np.asarray(x / np.sqrt((x**2).sum(-1, keepdims=True)))


def test_reduced(rng: Rng) -> None:
    text = """use losses;
    input v: [?b, ?s]; input w: [?b, ?s]; input m: [Bool; ?b, 1];
    out a = losses::reduced(v), b = losses::reduced(v, none, "sum"), c = losses::reduced(v, none, "none");
    out d = losses::reduced(v, w), e = losses::reduced(v, w, "sum"), f = losses::reduced(v, w, "none");
    out g = losses::reduced(v, m), h = losses::reduced(v, m, "sum"), i = losses::reduced(v, m, "none");"""

    def oracle(v: Values) -> list[Any]:
        x, w, m = v["v"], v["w"], v["m"]
        every = [
            [x.mean(), x.sum(), x],
            [(x * w).sum() / w.sum(), (x * w).sum(), x * w],
            [x[m[:, 0]].mean() if m.any() else 0.0, (x * m).sum(), x * m],
        ]
        return [result for row in every for result in row]

    sets = [
        {"v": rng.standard_normal((b, s)), "w": rng.uniform(0.5, 2, (b, s)), "m": (np.arange(b) < kept)[:, None]}
        for b, s, kept in ((4, 3, 2), (1, 2, 0), (2, 1, 2))
    ]
    check(text, [], oracle, *sets, rng=rng)
    assert rlx.check('use losses; input v: [3]; out y = losses::reduced(v, reduction: "average");')


def test_what_does_not_count_does_not_leak() -> None:
    text = "use losses::*; input x: [3]; input y: [3]; input w: [3]; out a = reduced(x, w), d = difference(x, y, w);"
    given = {"x": [2, np.nan, np.inf], "y": [1, 0, 0], "w": [1, 0, 0]}
    entries = {"squared_error": 1.0, "absolute_error": 1.0, "huber_loss": 0.5, "smooth_l1_loss": 0.5}
    entries |= {"log_cosh": np.log(np.cosh(1)), "quantile_loss": 0.5}
    for device in DEVICES:
        a, d = rlx.loads(text).run_on(device, given)
        np.testing.assert_array_equal([a, *d], [2, 1, 0, 0])
        (a, _) = rlx.loads(text).run_on(device, {**given, "w": [0, 0, 0]})
        assert a == 0
    for name, right in entries.items():
        func = rlx.loads(text[: text.index("out")] + f"out l = {name}(x, y, weights: w);").value_and_grad(["x"])
        loss, slope = func.run(given)
        np.testing.assert_allclose(loss, right, rtol=1e-6)
        assert slope[0] > 0
        np.testing.assert_array_equal(slope[1:], 0)


def test_regression(rng: Rng) -> None:
    text = """use losses::*;
    input x: [?b, 4]; input y: [?b, 4]; input w: [?b, 4]; input w1: [?b];
    out a = squared_error(x, y, w, "none"), b = absolute_error(x, y, w, "none");
    out c = huber_loss(x, y, 0.5, w, "none"), d = smooth_l1_loss(x, y, 0.5, w, "none");
    out e = log_cosh(x, y, w, "none"), f = quantile_loss(x, y, 0.2, w, "none");
    out g = poisson_nll(x, y, w, "none"), h = gaussian_nll(y, x, 2 * x, w, "none");
    out i = cosine_distance(x, y, w1, "none"), j = squared_error(x, y), k = absolute_error(x, y, w);"""

    def oracle(v: Values) -> list[Any]:
        x, y, w = v["x"], v["y"], v["w"]
        e = x - y
        huber = np.where(abs(e) <= 0.5, e**2 / 2, 0.5 * (abs(e) - 0.25))
        entries = [
            e**2,
            abs(e),
            huber,
            huber / 0.5,
            np.log(np.cosh(e)),
            np.where(e < 0, -0.2 * e, 0.8 * e),
            np.exp(x) - y * x,
            -stats.norm.logpdf(y, x, np.exp(x)) - np.log(2 * np.pi) / 2,
        ]
        cosine = (unit(x) * unit(y)).sum(-1)
        return [*(w * a for a in entries), v["w1"] * (1 - cosine), (e**2).mean(), (w * abs(e)).sum() / w.sum()]

    sets = [
        {**{n: rng.standard_normal((b, 4)) for n in "xy"}, "w": rng.uniform(0, 2, (b, 4)), "w1": rng.uniform(0, 2, b)}
        for b in (3, 1)
    ]
    check(text, [], oracle, *sets, rng=rng, factor=4)
    far = rlx.loads('use losses; input x: [2]; out y = losses::log_cosh(x, 0, none, "none");')
    np.testing.assert_allclose(far.run(x=[500, -500])[0], 500 - np.log(2), rtol=1e-6)


def test_labels(rng: Rng) -> None:
    text = """use losses::*;
    input x: [?b, ?s, 5]; input y: [I32; ?b, ?s]; input t: [?b, ?s, 5]; input w: [?b, ?s]; input c: [5];
    out a = label_loss(x, y), b = label_loss(x, y, w, smoothing: 0.2, z_weight: 0.1, reduction: "none");
    out e = label_loss(x, y, w, 2, class_weights: c), f = label_loss(x, y, ignored: 2, class_weights: c);
    out g = label_loss(x, y, ignored: 2, reduction: "sum"), h = soft_label_loss(x, softmax(t), w, 0.2, "none");
    out q = soft_label_loss(x, softmax(t));
    out i = next_token_loss(x, y, w, 0.1, "none"), j = next_token_loss(x, y);
    out k = perplexity(x, y), l = perplexity(x, y, w, 2), m = entropy(x, w, "none");
    out o = label_focal_loss(x, y, 1.5, w, "none"), p = multiclass_hinge(x, y, 0.5, w, "none");"""

    def oracle(v: Values) -> list[Any]:
        x, y, w, c = v["x"], v["y"], v["w"], v["c"]
        log_p, targets = log_softmax(x), np.eye(5)[y]
        values = -(targets * log_p).sum(-1)
        kept, per_class = y != 2, c[y]
        large = 0.1 * special.logsumexp(x, -1) ** 2

        def weighed(weights: Array, losses: Array = values) -> Any:
            return (weights * losses).sum() / weights.sum()

        smooth = -((0.8 * targets + 0.04) * log_p).sum(-1)
        soft = -((0.8 * np.exp(log_softmax(v["t"])) + 0.04) * log_p).sum(-1)
        p = np.exp(-values)
        rivals = np.where(targets == 1, -np.inf, x).max(-1)
        # The next token: position i tells token i + 1.
        ahead = -(targets[:, 1:] * log_p[:, :-1]).sum(-1)
        return [
            values.mean(),
            w * (smooth + large),
            weighed(w * kept * per_class),
            weighed(kept * per_class),
            (kept * values).sum(),
            w * soft,
            -(np.exp(log_softmax(v["t"])) * log_p).sum(-1).mean(),
            w[:, 1:] * (ahead + large[:, :-1]),
            ahead.mean(),
            np.exp(values.mean()),
            np.exp(weighed(w * kept)),
            -w * (np.exp(log_p) * log_p).sum(-1),
            w * (1 - p) ** 1.5 * values,
            w * np.maximum(0, 0.5 + rivals - (targets * x).sum(-1)),
        ]

    shapes = ((2, 3), (1, 2))
    sets = [
        {
            **{n: rng.standard_normal((*s, 5)) for n in "xt"},
            "y": np.arange(s[0] * s[1], dtype=np.int32).reshape(s) % 5,
            "w": rng.uniform(0.1, 2, s),
            "c": rng.uniform(0.5, 2, 5),
        }
        for s in shapes
    ]
    func = check(text, [], oracle, *sets, rng=rng, factor=4)
    x, narrow = rng.standard_normal((2, 2, 3, 5)).astype(np.float32), {n: np.float32(a) for n, a in sets[0].items()}
    narrow["y"] = sets[0]["y"]
    mapped = func.vmap(["x"]).run_on("cpu", {**narrow, "x": x})
    for lane in range(2):
        for result, right in zip(mapped, oracle({**narrow, "x": x[lane]}), strict=True):
            np.testing.assert_allclose(result[lane], right, rtol=1e-4, atol=1e-5)
    counts = rlx.loads("""use losses::*; input x: [?b, 2]; input y: [I32; ?b]; input w: [?b];
    out a = accuracy(x, y), b = accuracy(x, y, w);""")
    a, b = counts.run(x=[[1, 2], [2, 1], [3, 0]], y=[1, 1, 0], w=[1, 2, 1])
    np.testing.assert_allclose([a, b], [2 / 3, 0.5])


def test_yes_or_no(rng: Rng) -> None:
    text = """use losses::*;
    input x: [?b, 3]; input y: [?b, 3]; input w: [?b, 3];
    out a = binary_loss(x, y), b = binary_loss(x, y, w, 0.2, 3.0, "none");
    out c = focal_loss(x, y, 1.5, 0.3, w, "none"), d = focal_loss(x, y);
    let side = where(y > 0.5, 1.0, -1.0);
    out e = hinge_loss(x, side, false, w, "none"), f = hinge_loss(x, side, true, w, "none");"""

    def oracle(v: Values) -> list[Any]:
        x, y, w = v["x"], v["y"], v["w"]
        p = special.expit(x)
        t = 0.8 * y + 0.1
        miss = p + y - 2 * p * y
        hinge = np.maximum(0, 1 - x * np.where(y > 0.5, 1, -1))
        return [
            binary(x, y).mean(),
            w * (-3 * t * np.log(p) - (1 - t) * np.log(1 - p)),
            w * (0.7 + y * (0.3 - 0.7)) * miss**1.5 * binary(x, y),
            (miss**2 * binary(x, y)).mean(),
            w * hinge,
            w * hinge**2,
        ]

    sets = [{"x": 2 * rng.standard_normal((b, 3)), **{n: rng.uniform(0.1, 1, (b, 3)) for n in "yw"}} for b in (3, 1)]
    check(text, [], oracle, *sets, rng=rng, factor=4)


def test_alignments(rng: Rng) -> None:
    text = """use losses;
    input x: [?b, ?t, 3]; input y: [I32; ?b, 2]; input n: [I32; ?b]; input m: [I32; ?b]; input w: [?b];
    out a = losses::alignment_loss(x, y, n, m, 1, w, "none");"""

    def oracle(v: Values) -> Array:
        found = []
        for x, y, n, m in zip(v["x"], v["y"], v["n"], v["m"], strict=True):
            total = 0.0
            for path in product(range(3), repeat=int(n)):
                if [c for c, _ in groupby(path) if c != 1] == list(y[:m]):
                    total += np.exp(sum(log_softmax(x)[t, c] for t, c in enumerate(path)))
            found.append(-np.log(total))
        return v["w"] * np.array(found)

    given = {"y": np.array([[0, 2], [2, 2], [0, 0]], np.int32), "n": np.array([4, 3, 2], np.int32)}
    given["m"] = np.array([2, 2, 1], np.int32)
    arrays = {"x": rng.standard_normal((3, 4, 3)), **given, "w": rng.uniform(0.5, 2, 3)}
    check(text, [], oracle, arrays, rng=rng, factor=4)


def test_overlaps(rng: Rng) -> None:
    text = """use losses::*;
    input p: [?b, 2, ?s]; input t: [Bool; ?b, 2, ?s]; input w: [?b];
    out a = tversky(p, t, 0.3, 0.7, 0.5, 0.75, w, "none"), b = tversky(p, t);
    out c = dice(p, t, 0.5, w, "none"), d = dice(p, t), e = jaccard(p, t, 0.5, w, "none"), f = jaccard(p, t);"""

    def oracle(v: Values) -> list[Any]:
        p, t, w = (a.reshape(len(a), -1) for a in (v["p"], v["t"], v["w"]))
        both, one, other = (p * t).sum(1), (p * ~t).sum(1), ((1 - p) * t).sum(1)

        def overlap(alpha: float, beta: float, smooth: float) -> Array:
            return np.asarray(1 - (both + smooth) / (both + alpha * one + beta * other + smooth))

        def coefficient(smooth: float) -> Array:
            return np.asarray(1 - (2 * both + smooth) / (p.sum(1) + t.sum(1) + smooth))

        def union(smooth: float) -> Array:
            return np.asarray(1 - (both + smooth) / (p.sum(1) + t.sum(1) - both + smooth))

        w = w[:, 0]
        return [
            w * overlap(0.3, 0.7, 0.5) ** 0.75,
            overlap(0.5, 0.5, 1).mean(),
            w * coefficient(0.5),
            coefficient(1).mean(),
            w * union(0.5),
            union(1).mean(),
        ]

    sets = [
        {"p": rng.uniform(0.1, 0.9, (b, 2, s)), "t": rng.random((b, 2, s)) < 0.5, "w": rng.uniform(0.5, 2, b)}
        for b, s in ((3, 5), (1, 1))
    ]
    check(text, [], oracle, *sets, rng=rng, factor=4)


def test_distributions(rng: Rng) -> None:
    text = """use losses::*;
    input p: [?b, 4]; input q: [?b, 4]; input m: [?b, 4]; input w: [?b];
    out a = kl_divergence(p, q, w, "none"), b = js_divergence(p, q, w, "none"), c = distillation(p, m, 3.0, w, "none");
    out j = distillation(p, m), k = negative_elbo(p[.., 0], q[.., 0]);
    out d = gaussian_kl(p, q, w, "none"), e = gaussian_kl_between(p, q, q / 2, p / 2, w, "none");
    out f = gaussian_log_likelihood(p, q, p / 2), g = bernoulli_log_likelihood(sigmoid(p), q);
    out h = negative_elbo(g, d, 0.5, w, "none"), i = negative_elbo(g, gaussian_kl(p, q, none, "none"));"""
    teacher: list[Array] = []

    def oracle(v: Values) -> list[Any]:
        p, q, w = v["p"], v["q"], v["w"]
        teacher.append(v["m"])  # the first one is the constant of the derivative
        hard, soft = special.softmax(p, -1), special.softmax(q, -1)
        middle = (hard + soft) / 2

        def between(a: Array, log_a: Array, b: Array, log_b: Array) -> Array:
            ratio = np.exp(log_a) / np.exp(log_b)
            return np.asarray((ratio + (a - b) ** 2 / np.exp(log_b) - 1 - np.log(ratio)).sum(1) / 2)

        d, g = w * between(p, q, 0 * p, 0 * q), -binary(q, special.expit(p)).sum(1)
        return [
            w * kl(hard, soft),
            w * (kl(hard, middle) + kl(soft, middle)) / 2,
            w * 9 * kl(special.softmax(fixed(v) / 3, -1), special.softmax(p / 3, -1)),
            4 * kl(special.softmax(fixed(v) / 2, -1), special.softmax(p / 2, -1)).mean(),
            (q - p)[:, 0].mean(),
            d,
            w * between(p, q, q / 2, p / 2),
            stats.norm.logpdf(p, q, np.exp(p / 4)).sum(1),
            g,
            w * (0.5 * d - g),
            (between(p, q, 0 * p, 0 * q) - g).mean(),
        ]

    def fixed(v: Values) -> Array:
        """The teacher without the step of the differences."""
        return next(t for t in teacher if t.shape == v["m"].shape)

    sets = [{**{n: rng.standard_normal((b, 4)) for n in "pqm"}, "w": rng.uniform(0.5, 2, b)} for b in (3, 1)]
    check(text, [], oracle, *sets, rng=rng, factor=4)
    rare = rlx.loads("use losses; input p: [2]; input q: [2]; out k = losses::kl_divergence(p, q);")
    np.testing.assert_allclose(rare.run(p=[0, -np.inf], q=[1, 0])[0], np.log1p(np.exp(-1)), rtol=1e-5)


def test_reparameterise() -> None:
    text = "use losses; input m: [?n, 2]; input v: [?n, 2]; out z = losses::reparameterise(m, v);"
    func = rlx.loads(text)
    mean, log_var = np.full((20000, 2), [1.0, -2.0], np.float32), np.full((20000, 2), [0.5, -1.0], np.float32)
    for device in DEVICES:
        (z,) = func.jit_on(device).run({"m": mean, "v": log_var}, seed=3)
        np.testing.assert_allclose(z.mean(0), mean[0], atol=0.03)
        np.testing.assert_allclose(z.std(0), np.exp(log_var[0] / 2), atol=0.03)
    given = {"m": mean, "v": log_var, "tangent_m": 1 + 0 * mean, "tangent_v": 1 + 0 * log_var}
    z, slope = func.jvp(["m", "v"]).run(given, seed=3)
    np.testing.assert_allclose(slope, 1 + (z - mean) / 2, rtol=1e-5, atol=1e-5)


def test_pairs(rng: Rng) -> None:
    text = """use losses::*;
    input x: [?b, 3]; input y: [?b, 3]; input z: [?b, 3]; input w: [?b]; input same: [Bool; ?b];
    out a = triplet_loss(x, y, z, 0.5, 1, w, "none"), b = triplet_loss(x, y, z);
    out c = pair_loss(x, y, same, 2.5, w, "none"), d = ranking_loss(x[.., 0], y[.., 0], 0.3, w, "none");"""

    def oracle(v: Values) -> list[Any]:
        x, y, z, w = v["x"], v["y"], v["z"], v["w"]

        def far(a: Array, b: Array, p: int = 2) -> Array:
            return np.asarray(np.linalg.norm(a - b, p, 1))

        apart = far(x, y)
        return [
            w * np.maximum(0, far(x, y, 1) - far(x, z, 1) + 0.5),
            np.maximum(0, apart - far(x, z) + 1).mean(),
            w * np.where(v["same"], apart**2, np.maximum(0, 2.5 - apart) ** 2) / 2,
            w * np.maximum(0, y[:, 0] - x[:, 0] + 0.3),
        ]

    sets = [
        {**{n: rng.standard_normal((b, 3)) for n in "xyz"}, "w": rng.uniform(0.5, 2, b), "same": np.arange(b) % 2 == 0}
        for b in (4, 1)
    ]
    check(text, [], oracle, *sets, rng=rng, factor=4)


def test_contrasts(rng: Rng) -> None:
    text = """use losses::*;
    input x: [?b, 3]; input y: [?b, 3]; input more: [?m, 3]; input s: []; input w: [?b]; input c: [I32; ?b];
    out a = info_nce(x, y, 0.5, none, w, "none"), b = info_nce(x, y, others: more), d = nt_xent(x, y, 0.4, none, "none");
    out e = clip_loss(x, y, s, w, "none"), f = siglip_loss(x, y, s, s / 2, w, "none");
    out g = supervised_contrastive(x, c, 0.5), h = supervised_contrastive(x, c, 0.5, "none");
    out i = cosines(x, more, 2.0);"""

    def oracle(v: Values) -> list[Any]:
        x, y, w, labels = unit(v["x"]), unit(v["y"]), v["w"], v["c"]
        n, s = len(x), np.exp(v["s"])
        own = np.arange(n)
        known = np.concatenate([y, unit(v["more"])])
        # One row of logits at a time, the sample itself left out.
        both, views = np.concatenate([x, y]), []
        for i in range(2 * n):
            scores = both @ both[i] / 0.4
            views.append(special.logsumexp(np.delete(scores, i)) - scores[(i + n) % (2 * n)])
        groups = []
        for i in range(n):
            scores = x @ x[i] / 0.5
            friends = [j for j in range(n) if j != i and labels[j] == labels[i]]
            total = special.logsumexp(np.delete(scores, i)) if n > 1 else 0
            groups.append(np.mean([total - scores[j] for j in friends]) if friends else 0.0)
        counted = [np.sum(labels == label) > 1 for label in labels]
        signs = 2 * np.eye(n) - 1
        return [
            w * picked(x @ y.T / 0.5, own),
            picked(x @ known.T / 0.1, own).mean(),
            np.array(views),
            w * (picked(s * x @ y.T, own) + picked(s * y @ x.T, own)) / 2,
            w * softplus(-signs * (s * x @ y.T + v["s"] / 2)).sum(1),
            np.sum(groups) / max(1, np.sum(counted)),
            np.array(groups),
            x @ unit(v["more"]).T / 2,
        ]

    sets = [
        {
            **{n: rng.standard_normal((b, 3)) for n in "xy"},
            "more": rng.standard_normal((2, 3)),
            "s": np.array(0.7),
            "w": rng.uniform(0.5, 2, b),
            "c": np.array([0, 1, 0, 2, 0], np.int32)[:b],
        }
        for b in (5, 2)
    ]
    check(text, [], oracle, *sets, rng=rng, factor=8, derivative="cpu")
