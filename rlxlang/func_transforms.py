"""The transforms of a `Func` as methods: each gives a new `Func` whose parameters stay bound."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from rlxlang.diagnostics import RlxTransformError, did_you_mean
from rlxlang.ir import Graph

if TYPE_CHECKING:
    import numpy as np

    from rlxlang.compiler import Traced
    from rlxlang.forward_pass import ForwardPass
    from rlxlang.func import Func

Names = Sequence[str]
Chunk: TypeAlias = 'int | Literal["auto"] | None'
_JACOBIANS = ("jacfwd", "jacrev", "hessian", "hessian_diag")


class TransformMethods:
    """What `Func` inherits: derivatives, batching."""

    __slots__ = ()

    if TYPE_CHECKING:
        traced: Traced

        @property
        def graph(self) -> Graph: ...  # noqa: D102
        @property
        def bindings(self) -> Mapping[str, np.ndarray[Any, Any]]: ...  # noqa: D102
        def param_names(self) -> list[str]: ...  # noqa: D102
        @classmethod
        def _over(cls, traced: Traced, bindings: Mapping[str, np.ndarray[Any, Any]]) -> Func: ...

    def _transformed(self, key: object, make: Callable[[Graph], Graph], lose: Sequence[str] = ()) -> Func:
        """The function of a transformed graph; params in `lose` are no longer bound."""
        derived = self.traced.derive(key, make)
        kept = {p.name for p in derived.outline.params} - set(lose)
        return self._over(derived, {n: a for n, a in self.bindings.items() if n in kept})

    def _derivative(self, transform: str, names: Names, *options: Any) -> Func:
        from rlxlang import transforms
        from rlxlang.transforms import jacobian

        wanted = names if isinstance(names, str) else tuple(names)
        function = getattr(jacobian if transform in _JACOBIANS else transforms, transform)
        key = (transform, wanted, *options)
        return self._transformed(key, lambda graph: function(graph, wanted, *options))

    # ----------------------------------------------------------------------------------------- first derivatives

    def grad(self, wrt: Names) -> Func:
        """Derivatives `d_<name>` of the first output, the loss, in inputs and params; zeros where it does not depend on one.

        Raises:
            RlxTransformError: E0502 an unknown name, E0501 no derivative, E0503 the loss is not one element.
        """
        return self._derivative("grad", wrt)

    def value_and_grad(self, wrt: Names) -> Func:
        """The loss, its derivatives `d_<name>`, then the other outputs; raises as `grad`."""
        return self._derivative("value_and_grad", wrt)

    def grad_all(self) -> Func:
        """`grad` in all float params, in order of declaration."""
        return self.grad(self.trainable_names())

    def value_and_grad_all(self) -> Func:
        """`value_and_grad` in all float params, in order of declaration."""
        return self.value_and_grad(self.trainable_names())

    def trainable_names(self) -> list[str]:
        """Names of the params that have derivatives, in order of declaration."""
        return [p.name for p in self.graph.params if p.node.dtype.is_differentiable]

    def jvp(self, tangent_for: Names) -> Func:
        """The outputs, then their derivatives `tangent_<output>` along the new inputs `tangent_<name>`.

        Raises:
            RlxTransformError: E0502 an unknown name, E0501 no derivative.
        """
        return self._derivative("jvp", tangent_for)

    def linearize(self, wrt: Names) -> Func:
        """`jvp` without its primal outputs: linear in the tangents."""
        return self._derivative("linearize", wrt)

    def directional(self, wrt: Names, order: int = 1) -> Func:
        """The outputs f, then `d<k>_<output>`, k = 1 … order: dᵏ/dtᵏ f(x + t v) at t = 0, along the new inputs v, `tangent_<name>`.

        Divided by k! these are the coefficients of the Taylor polynomial along v. The k-th costs up to about 2ᵏ times f.

        Raises:
            RlxTransformError: As `jvp`; E0500 the order is no integer of 1 or more.
        """
        return self._derivative("directional", wrt, order)

    def vjp(self, wrt: Names) -> Func:
        """The outputs, then `d_<name>`: the new inputs `ct_<output>` pulled back.

        Raises:
            RlxTransformError: E0502 an unknown name, E0501 no derivative.
        """
        return self._derivative("vjp", wrt)

    def vjp_fn(self, wrt: Names) -> ForwardPass:
        """`vjp` in two halves: a run gives the outputs and the pull-back, a `Func` that takes as many cotangents as wanted.

        Example:
            >>> outputs, pullback = func.vjp_fn(["x"])(x=x)  # doctest: +SKIP
            >>> pullback(ct_y=first), pullback(ct_y=second)  # doctest: +SKIP

        Raises:
            RlxTransformError: E0502 an unknown name, E0501 no derivative.
        """
        return self._in_halves("vjp_halves", wrt)

    def linearize_fn(self, wrt: Names) -> ForwardPass:
        """`jvp` in two halves: a run gives the outputs and the linear map of the tangents, a `Func` of `tangent_<name>`.

        Raises:
            RlxTransformError: E0502 an unknown name, E0501 no derivative.
        """
        return self._in_halves("linear_halves", wrt)

    def _in_halves(self, transform: str, names: Names) -> ForwardPass:
        from rlxlang import transforms
        from rlxlang.forward_pass import ForwardPass

        wanted = names if isinstance(names, str) else tuple(names)
        function = getattr(transforms, transform)
        first = self.traced.derive((transform, wanted, 0), lambda graph: function(graph, wanted)[0])
        second = self.traced.derive((transform, wanted, 1), lambda graph: function(graph, wanted)[1])
        return ForwardPass(self._over(first, self.bindings), second, len(self.traced.outline.outputs))

    # ----------------------------------------------------------------------------------------- second derivatives, Jacobians

    def hvp(self, wrt: Names) -> Func:
        """The Hessian of the loss jointly in all `wrt` times the new inputs `tangent_<name>`: outputs `hvp_<name>`."""
        return self._derivative("hvp", wrt)

    def jacfwd(self, wrt: Names, chunk: Chunk = None, memory: int | None = None, holomorphic: bool = False) -> Func:
        """Jacobians `jac_<output>_<name>` of shape output + input, by forward mode.

        Args:
            wrt: Inputs and params.
            chunk: How many columns at a time (less memory); `"auto"` for as many as `memory` allows; all when left out.
            memory: For `"auto"`: bytes that the values in between may take beside the Jacobian itself, 32 MiB when left out.
            holomorphic: Inputs and outputs are complex, and the functions holomorphic: the result is the complex derivative.

        Raises:
            RlxTransformError: E0502 an unknown name, E0501 no derivative, or a complex input without `holomorphic`, E0500 a chunk
                that is none.
        """
        return self._derivative("jacfwd", wrt, chunk, memory, bool(holomorphic))

    def jacrev(self, wrt: Names, chunk: Chunk = None, memory: int | None = None, holomorphic: bool = False) -> Func:
        """Jacobians as `jacfwd`, by reverse mode; `chunk` counts rows.

        Outputs are real, inputs may be complex: in those it is ∂/∂re − i ∂/∂im, as with `grad`.
        """
        return self._derivative("jacrev", wrt, chunk, memory, bool(holomorphic))

    def hessian(self, wrt: Names, chunk: Chunk = None, memory: int | None = None) -> Func:
        """Second derivatives `hess_<a>_<b>` of the loss, of shape a + b; `chunk` and `memory` as in `jacfwd`."""
        return self._derivative("hessian", wrt, chunk, memory)

    def hessian_diag(self, wrt: Names, chunk: Chunk = "auto", memory: int | None = None) -> Func:
        """The diagonal of the Hessian, exact: `hess_diag_<name>`, of the shape of the input.

        The work is that of the whole Hessian, the memory that of a chunk of it; `chunk` and `memory` as in `jacfwd`.
        """
        return self._derivative("hessian_diag", wrt, chunk, memory)

    # ----------------------------------------------------------------------------------------- memory

    def remat(self, fns: Names | None = None, scans: int | Literal["sqrt"] | None = None) -> Func:
        """The same function; its derivatives compute parts of it again instead of keeping intermediate values.

        Args:
            fns: The calls of these fns and blocks; an instance of a block (`encoder.0`) is one call.
            scans: The steps of its loops: the carry is kept once in so many steps; `"sqrt"` for the square root of the number of
                steps, which is what memory then grows with.

        With neither, all of it: the backward pass starts from inputs and params.

        Raises:
            RlxTransformError: E0502 nothing calls such a fn; E0500 no loop, or no number of steps.
        """
        from rlxlang import transforms

        names = fns if fns is None or isinstance(fns, str) else tuple(fns)
        return self._transformed(("remat", names, scans), lambda graph: transforms.remat(graph, names, scans))

    # ----------------------------------------------------------------------------------------- batching

    def vmap(
        self,
        batched: Names,
        batch_size: int | None = None,
        in_axes: int | Mapping[str, int] = 0,
        out_axes: int | Mapping[str, int] = 0,
    ) -> Func:
        """The function for a whole batch at once.

        Args:
            batched: Inputs and params that get a batch axis; all others are shared. A batched param must be bound anew.
            batch_size: Size of the batch; a new dynamic axis `?vmap` when left out, so that one compilation serves every size.
            in_axes: Position of the batch axis in the batched inputs, for all or by name (default 0).
            out_axes: Position of the batch axis in the outputs, for all or by name (default 0).

        Raises:
            RlxTransformError: Unknown names, no names, positions out of range.
        """
        from rlxlang import transforms

        if isinstance(batched, str):
            raise RlxTransformError(
                f"`vmap` takes a list of names, not the string {batched!r}",
                code="E0502",
                helps=(f'write ["{batched}"]',),
            )
        names = list(batched)
        if len(set(names)) < len(names):
            raise RlxTransformError("`vmap`: a name is listed twice", code="E0502")
        axes = {n: in_axes if isinstance(in_axes, int) else in_axes.get(n, 0) for n in names}
        _refuse_unknown("in_axes", in_axes, names)
        _refuse_unknown("out_axes", out_axes, [o.name for o in self.graph.outputs])
        out = out_axes if isinstance(out_axes, int) else tuple(sorted(out_axes.items()))
        key = ("vmap", tuple(axes.items()), batch_size, out)
        return self._transformed(key, lambda graph: transforms.vmap(graph, axes, batch_size, out_axes), names)


def _refuse_unknown(what: str, axes: int | Mapping[str, int], known: Sequence[str]) -> None:
    for name in () if isinstance(axes, int) else axes:
        if name not in known:
            raise RlxTransformError(
                f"`vmap`: `{what}` names `{name}`, which is not among {', '.join(known) or 'none'}",
                code="E0502",
                helps=(did_you_mean(name, known),),
            )
