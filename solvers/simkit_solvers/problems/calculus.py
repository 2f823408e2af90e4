"""From Itô to Stratonovich and back."""

import equinox as eqx
import jax
import jax.numpy as jnp

from simkit_solvers.problems.jump_diffusion import AbstractJumpDiffusion
from simkit_solvers.problems.problem import AbstractSDE, Calculus, NoiseKind
from simkit_solvers.problems.terms import as_arrays


class Converted(AbstractSDE):
    r"""A process in the other calculus: the drift changes by half of the noise's own change.

    $$f_\text{Stratonovich} = f_\text{Itô} - \tfrac12 \sum_k (g_k\cdot\nabla) g_k,$$

    by derivatives of the noise (`jax.jvp`), one for each component, or one in all for diagonal noise.
    Reference: Kloeden & Platen (1992), Numerical Solution of Stochastic Differential Equations,
    doi:10.1007/978-3-662-12616-5, section 4.9.
    """

    original: AbstractSDE
    calculus: Calculus = eqx.field(static=True)
    State: type = eqx.field(static=True)
    Noise: type = eqx.field(static=True)
    noise_kind: NoiseKind = eqx.field(static=True)

    def __init__(self, original: AbstractSDE, calculus: Calculus):
        self.original, self.calculus = original, calculus
        self.State, self.Noise, self.noise_kind = original.State, original.Noise, original.noise_kind

    def noise(self, t, y, dW):
        return self.original.noise(t, y, dW)

    def drift(self, t, y):
        sign = -0.5 if self.calculus == "stratonovich" else 0.5
        drift = as_arrays(self.original.drift(t, y), y)
        like = jax.tree.leaves(y)[0]
        count = len(self.Noise._fields)
        units = [[1.0 if i == k else 0.0 for i in range(count)] for k in range(count)]
        for unit in [[1.0] * count] if self.noise_kind == "diagonal" else units:
            dW = self.Noise(*(jnp.asarray(x, like.dtype) for x in unit))

            def column(y, dW=dW):
                return as_arrays(self.noise(t, y, dW), y)

            _, change = jax.jvp(column, (y,), (column(y),))
            drift = jax.tree.map(lambda f, x: f + sign * x, drift, change)
        return drift


def in_calculus(problem: AbstractSDE, calculus: Calculus) -> AbstractSDE:
    """The problem in a calculus; the problem itself where both calculi agree.

    Raises `ValueError` for a word that is neither `ito`, `stratonovich` nor `any`, for a model that jumps,
    and for one whose noise is not smooth: the drift's new part need not vanish where the noise does, and
    paths stick there.

    >>> import jax.numpy as jnp
    >>> from simkit_physics import GBM
    >>> from simkit_solvers import in_calculus
    >>> converted = in_calculus(GBM(mu=jnp.float32(0.05), sigma=jnp.float32(0.2)), "stratonovich")
    >>> start = GBM.State(S=jnp.float32(100.0))
    >>> round(float(converted.drift(jnp.float32(0.0), start).S), 2)  # (mu - sigma²/2) S
    3.0
    """
    known = ("ito", "stratonovich", "any")
    for word in (calculus, problem.calculus):
        if word not in known:
            raise ValueError(f"calculus: must be ito, stratonovich or any, got {word!r}")
    if (
        "any" in (calculus, problem.calculus)
        or problem.calculus == calculus
        or problem.noise_kind == "additive"
    ):
        return problem
    if not problem.smooth:
        raise ValueError(
            f"{type(problem).__name__} cannot be converted to the other calculus: its noise has no "
            "derivative where it vanishes, and converted paths would go wrong there; use a solver for its "
            "own calculus"
        )
    if isinstance(problem, AbstractJumpDiffusion):
        raise ValueError(
            f"{type(problem).__name__} cannot be converted to the other calculus: it jumps; use a solver "
            "for its own calculus"
        )
    return problem.original if isinstance(problem, Converted) else Converted(problem, calculus)
