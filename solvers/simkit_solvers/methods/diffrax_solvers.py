"""The solvers of diffrax that run on a fixed grid, and what is known about each.

Orders on stochastic problems are for noise without space-space Lévy areas, which no solver here is given.
"""

import diffrax

from simkit_solvers.methods.sde.milstein import Milstein
from simkit_solvers.methods.solver_info import Orders, SolverInfo

_STIFF = "Hairer & Wanner (1996), Solving Ordinary Differential Equations II, doi:10.1007/978-3-642-05221-7"
_GEOMETRIC = "Hairer, Lubich & Wanner (2006), Geometric Numerical Integration, doi:10.1007/3-540-30666-8"
_KLOEDEN = (
    "Kloeden & Platen (1992), Numerical Solution of Stochastic Differential Equations, "
    "doi:10.1007/978-3-662-12616-5"
)
_BURRAGE = (
    "Burrage, Burrage & Tian (2004), Numerical methods for strong solutions of stochastic differential "
    "equations: an overview, doi:10.1098/rspa.2003.1247"
)
_RUEMELIN = "Rümelin (1982), Numerical treatment of stochastic differential equations, doi:10.1137/0719041"
_RALSTON = (
    "Ralston (1962), Runge–Kutta methods with minimum error bounds, doi:10.1090/S0025-5718-1962-0150954-0"
)
_KIDGER = (
    "Kidger, Foster, Li & Lyons (2021), Efficient and accurate gradients for neural SDEs, "
    "doi:10.48550/arXiv.2105.13493"
)
_MILSTEIN = (
    "Milstein (1975), Approximate integration of stochastic differential equations, doi:10.1137/1119062"
)
_FOSTER = (
    "Foster, dos Reis & Strange (2024), High order splitting methods for SDEs satisfying a commutativity "
    "condition, doi:10.48550/arXiv.2210.17543"
)
_SPARK = (
    "Foster & Jelinčič (2024), On the convergence of adaptive approximations for stochastic differential "
    "equations, doi:10.48550/arXiv.2311.14201"
)
_ROESSLER = (
    "Rößler (2010), Runge–Kutta methods for the strong approximation of solutions of stochastic differential "
    "equations, doi:10.1137/09076636X"
)
_SHIFTED = (
    "Foster, Lyons & Oberhauser (2021), The shifted ODE method for underdamped Langevin MCMC, "
    "doi:10.48550/arXiv.2101.03446"
)
_BOGACKI = "Bogacki & Shampine (1989), A 3(2) pair of Runge–Kutta formulas, doi:10.1016/0893-9659(89)90079-7"
_TSITOURAS = (
    "Tsitouras (2011), Runge–Kutta pairs of order 5(4) satisfying only the first column simplifying "
    "assumption, doi:10.1016/j.camwa.2011.06.002"
)
_DORMAND = (
    "Dormand & Prince (1980), A family of embedded Runge–Kutta formulae, doi:10.1016/0771-050X(80)90013-3"
)
_PRINCE = (
    "Prince & Dormand (1981), High order embedded Runge–Kutta formulae, doi:10.1016/0771-050X(81)90010-3"
)
_KVAERNO = (
    "Kværnø (2004), Singly diagonally implicit Runge–Kutta methods with an explicit first stage, "
    "doi:10.1023/B:BITN.0000046811.70614.38"
)
_KENNEDY = (
    "Kennedy & Carpenter (2003), Additive Runge–Kutta schemes for convection–diffusion–reaction equations, "
    "doi:10.1016/S0168-9274(02)00138-1"
)
_WHITAKER = (
    "Whitaker & Kar (2013), Implicit–explicit Runge–Kutta methods for fast–slow wave problems, "
    "doi:10.1175/MWR-D-13-00132.1"
)


def _ode(cls, order: int, summary: str, reference: str, **rest) -> SolverInfo:
    return SolverInfo(cls, summary, reference, order=order, **rest)


def _sde(cls, strong: Orders, weak: Orders, summary: str, reference: str, **rest) -> SolverInfo:
    return SolverInfo(cls, summary, reference, "stratonovich", strong, weak, **rest)


_EULER_STRONG, _HEUN_STRONG = Orders(1.0, 0.5, 0.5), Orders(1.0, 1.0, 0.5)
_WEAK_1, _WEAK_2_ADDITIVE = Orders(1.0, 1.0, 1.0), Orders(2.0, 1.0, 1.0)
_COMMUTATIVE_1 = Orders(1.0, 1.0)
_IMPLICIT_ONLY = "applied implicitly to the whole problem"


def _heun(cls, weak: Orders, summary: str, reference: str, **rest) -> SolverInfo:
    return _sde(cls, _HEUN_STRONG, weak, summary, reference, unbiased_area=True, **rest)


def _shifted(cls, orders: Orders, summary: str) -> SolverInfo:
    return _sde(cls, orders, orders, summary, _SHIFTED, langevin=True, long=True)


DIFFRAX_SOLVERS: tuple[SolverInfo, ...] = (
    SolverInfo(
        diffrax.Euler,
        "Euler's method; on a stochastic problem the Euler–Maruyama method.",
        _KLOEDEN,
        calculus="ito",
        strong=_EULER_STRONG,
        weak=_WEAK_1,
        order=1,
    ),
    _heun(
        diffrax.Heun, _WEAK_2_ADDITIVE, "Heun's explicit trapezoidal method, two stages.", _RUEMELIN, order=2
    ),
    _heun(diffrax.Midpoint, _WEAK_1, "Explicit midpoint method, two stages.", _RUEMELIN, order=2),
    _heun(
        diffrax.Ralston, _WEAK_1, "Ralston's two-stage method of least truncation error.", _RALSTON, order=2
    ),
    _heun(
        diffrax.ReversibleHeun,
        _WEAK_2_ADDITIVE,
        "Algebraically reversible Heun method, one new stage a step.",
        _KIDGER,
        order=2,
        carries=True,
        reversible=True,
        takes_states=True,
    ),
    _ode(diffrax.Bosh3, 3, "Bogacki–Shampine 3(2) pair, three stages a step.", _BOGACKI, interpolates=True),
    _ode(
        diffrax.Tsit5,
        5,
        "Tsitouras 5(4) pair, six stages a step; the usual choice.",
        _TSITOURAS,
        interpolates=True,
    ),
    _ode(diffrax.Dopri5, 5, "Dormand–Prince 5(4) pair, six stages a step.", _DORMAND, interpolates=True),
    _ode(
        diffrax.Dopri8,
        8,
        "Dormand–Prince 8(7) pair, thirteen stages, for high accuracy.",
        _PRINCE,
        interpolates=True,
    ),
    _ode(diffrax.ImplicitEuler, 1, "Implicit Euler method, for very stiff problems.", _STIFF),
    _ode(
        diffrax.Kvaerno3,
        3,
        "Kværnø 3(2), stiffly accurate implicit method for stiff problems.",
        _KVAERNO,
        interpolates=True,
    ),
    _ode(diffrax.Kvaerno4, 4, "Kværnø 4(3), stiffly accurate implicit method for stiff problems.", _KVAERNO),
    _ode(diffrax.Kvaerno5, 5, "Kværnø 5(4), stiffly accurate implicit method for stiff problems.", _KVAERNO),
    _ode(diffrax.KenCarp3, 3, f"Kennedy–Carpenter 3(2), {_IMPLICIT_ONLY}.", _KENNEDY),
    _ode(diffrax.KenCarp4, 4, f"Kennedy–Carpenter 4(3), {_IMPLICIT_ONLY}.", _KENNEDY),
    _ode(diffrax.KenCarp5, 5, f"Kennedy–Carpenter 5(4), {_IMPLICIT_ONLY}.", _KENNEDY),
    _ode(diffrax.Sil3, 2, f"Whitaker–Kar fast–slow method, {_IMPLICIT_ONLY}.", _WHITAKER),
    _ode(
        diffrax.SemiImplicitEuler,
        1,
        "Symplectic Euler method for separable problems: positions first, then momenta.",
        _GEOMETRIC,
    ),
    _heun(diffrax.EulerHeun, _WEAK_1, "Euler's method in the drift, Heun's in the noise.", _BURRAGE),
    SolverInfo(
        diffrax.ItoMilstein,
        "Milstein's method for Itô problems with commutative noise.",
        _MILSTEIN,
        calculus="ito",
        strong=_COMMUTATIVE_1,
        weak=_COMMUTATIVE_1,
        reads_slopes=True,
        # diffrax's own step forms the tensor of all derivatives, and makes float64 of float32.
        steps_as=Milstein,
    ),
    _sde(
        diffrax.StratonovichMilstein,
        _COMMUTATIVE_1,
        _COMMUTATIVE_1,
        "Milstein's method for Stratonovich problems with commutative noise.",
        _MILSTEIN,
        reads_slopes=True,
    ),
    _sde(
        diffrax.SEA,
        Orders(1.0),
        Orders(1.0),
        "Shifted Euler method for additive noise, one drift evaluation a step.",
        _FOSTER,
    ),
    _sde(
        diffrax.SRA1,
        Orders(1.5),
        Orders(2.0),
        "Rößler's stochastic Runge–Kutta method for additive noise, two drift evaluations a step.",
        _ROESSLER,
    ),
    _sde(
        diffrax.ShARK,
        Orders(1.5),
        Orders(2.0),
        "Shifted Runge–Kutta method for additive noise, two drift evaluations a step; the usual choice.",
        _FOSTER,
    ),
    _sde(
        diffrax.GeneralShARK,
        Orders(1.5, 1.0, 0.5),
        _WEAK_2_ADDITIVE,
        "Shifted Runge–Kutta method for any noise, two drift and three noise evaluations a step.",
        _FOSTER,
        unbiased_area=True,
    ),
    _sde(
        diffrax.SlowRK,
        Orders(1.5, 1.5, 0.5),
        Orders(2.0, 2.0, 1.0),
        "Splitting Runge–Kutta method of high order for commutative noise, two drift and five noise "
        "evaluations a step.",
        _FOSTER,
    ),
    _sde(
        diffrax.SPaRK,
        Orders(1.5, 1.0, 0.5),
        _WEAK_2_ADDITIVE,
        "Splitting-path Runge–Kutta method for any noise, three drift and noise evaluations a step.",
        _SPARK,
        unbiased_area=True,
    ),
    _shifted(
        diffrax.ALIGN,
        Orders(2.0),
        "Interpolated-gradient method for underdamped Langevin problems, one gradient a step.",
    ),
    _shifted(
        diffrax.ShOULD,
        Orders(3.0),
        "Shifted-ODE Runge–Kutta method for underdamped Langevin problems, two gradients a step.",
    ),
    _shifted(
        diffrax.QUICSORT,
        Orders(3.0),
        "Contractive shifted-ODE method for underdamped Langevin problems, two gradients a step.",
    ),
)
