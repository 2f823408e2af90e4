from typing import Annotated, ClassVar, NamedTuple

from jaxtyping import PyTree
from simkit_solvers import AbstractReactionNetwork, Quantity, Scalar, parameter, reaction


class RepressilatorState(NamedTuple):
    m1: Annotated[Scalar, Quantity("1", "messenger RNA of the first gene")]
    m2: Annotated[Scalar, Quantity("1", "messenger RNA of the second gene")]
    m3: Annotated[Scalar, Quantity("1", "messenger RNA of the third gene")]
    p1: Annotated[Scalar, Quantity("1", "protein of the first gene")]
    p2: Annotated[Scalar, Quantity("1", "protein of the second gene")]
    p3: Annotated[Scalar, Quantity("1", "protein of the third gene")]


class Repressilator(AbstractReactionNetwork):
    r"""Three genes in a ring, each repressing the next: $0 \to m_i$ at rate
    $\alpha_0 + \alpha K^2 / (K^2 + p_{i-1}^2)$, $m_i \to 0$ at rate $\delta_m m_i$, $m_i \to m_i + p_i$ at
    rate $\beta m_i$, $p_i \to 0$ at rate $\delta_p p_i$.

    Reference: Elowitz & Leibler (2000), A synthetic oscillatory network of transcriptional regulators,
    doi:10.1038/35002125.
    """

    State = RepressilatorState
    reactions: ClassVar = {
        **{f"transcription_{i}": reaction(f"0 -> m{i}", mass_action=False) for i in (1, 2, 3)},
        **{f"translation_{i}": reaction(f"m{i} -> m{i} + p{i}") for i in (1, 2, 3)},
        **{f"decay_m{i}": reaction(f"m{i} -> 0") for i in (1, 2, 3)},
        **{f"decay_p{i}": reaction(f"p{i} -> 0") for i in (1, 2, 3)},
    }
    example: ClassVar[dict[str, float]] = {
        "alpha": 0.5,
        "alpha0": 5e-4,
        "K": 40.0,
        "beta": 0.167,
        "delta_m": 0.0058,
        "delta_p": 0.00116,
    }
    example_initial: ClassVar[dict[str, float]] = {
        "m1": 10.0,
        "m2": 0.0,
        "m3": 0.0,
        "p1": 200.0,
        "p2": 0.0,
        "p3": 0.0,
    }

    alpha: Scalar = parameter("1/time", "transcription of a gene that is not repressed", at_least=0)
    alpha0: Scalar = parameter("1/time", "transcription of one that is", at_least=0)
    K: Scalar = parameter("1", "proteins that halve transcription", above=0)
    beta: Scalar = parameter("1/time", "translation rate of a messenger", at_least=0)
    delta_m: Scalar = parameter("1/time", "decay rate of a messenger", at_least=0)
    delta_p: Scalar = parameter("1/time", "decay rate of a protein", at_least=0)

    def rates(self, t: Scalar, y: PyTree) -> tuple:
        squares = (y.p3 * y.p3, y.p1 * y.p1, y.p2 * y.p2)
        level = self.K * self.K
        transcription = [self.alpha0 + self.alpha * level / (level + square) for square in squares]
        return *transcription, *[self.beta] * 3, *[self.delta_m] * 3, *[self.delta_p] * 3
