"""What other programs call keys, and what simkit has for them."""

from collections.abc import Mapping
from typing import Any

from simkit_physics import MODELS

from simkit.config.documents import KeyPath
from simkit.config.settings import Experiment, ParticleExperiment, Section
from simkit.config.settings.places import Root, sections_at
from simkit.suggestions import shown

ANY = "*"
FEW = 3  # sections that may be meant

# What to say of a key at a path.
REMEDIES: dict[Root, dict[KeyPath, str]] = {
    Experiment: {
        ("time", "dt"): "write steps, the number of them from t0 to t1",
        ("potential",): "it is for molecular dynamics, which needs system too",
        ("dtype",): "write precision: float32 or float64",
        ("solver", "rtol"): "tolerances stand under time, in place of steps: time: {t1: …, rtol: …, atol: …}",
        ("solver", "atol"): "tolerances stand under time, in place of steps: time: {t1: …, rtol: …, atol: …}",
        ("save", "times"): (
            "write points, the number of equally spaced times after t0; a value at one time is an "
            "observable, as in at(x, 2)"
        ),
        ("model", "reactions", ANY, "reactants"): "write equation, as in equation: S + I -> 2 I",
        ("model", "reactions", ANY, "products"): "write equation, as in equation: S + I -> 2 I",
        ("events", ANY, "cmt"): "set names the variable, as in set: {A: A + 100}",
        ("events", ANY, "addl"): "write last, the time of the last one",
        ("events", ANY, "add"): "write set, as in set: {A: A + 100}",
        ("events", ANY, "dose"): "write set, as in set: {A: A + 100}",
        ("events", ANY, "amount"): "write set, as in set: {A: A + 100}",
    },
    ParticleExperiment: {
        ("time", "t1"): "write dt and steps, the length and the number of steps",
        ("cluster",): "molecular dynamics runs on one machine",
        ("ensemble", "devices"): "molecular dynamics runs on one device, in ensemble.threads",
        ("model",): "in molecular dynamics potential says how particles interact",
        ("dtype",): "write precision: float32, mixed or float64",
        ("save", "points"): (
            "in molecular dynamics save.every is the steps from one measurement to the next"
        ),
        ("initial",): "in molecular dynamics system says where particles begin",
        ("sensitivity", "check"): "in molecular dynamics compare variants at two values",
        ("sensitivity", "method"): "in molecular dynamics there is one, fluctuations",
    },
}
# A key of simkit, and what others call it in the section at a path.
_OTHER_NAMES = {
    ("time",): {
        "t1": "T end stop t_end tend t_final tfinal t_max tmax duration horizon maturity",
        "t0": "start t_start tstart begin",
        "steps": "n N nsteps n_steps num_steps nt",
        "unit": "units",
        "rtol": "reltol tol tolerance",
        "atol": "abstol",
    },
    ("ensemble",): {
        "paths": "n N n_paths npaths num_paths samples n_samples simulations n_sims nsim trajectories runs "
        "replicates realizations realisations size",
        "seed": "random_seed rng random_state",
    },
    ("save",): {"points": "n n_points npoints grid", "every": "interval stride", "paths": "trajectories"},
    ("model",): {"type": "name kind model"},
    ("model", "hamiltonian"): {"kinetic": "T K", "potential": "V U"},
    ("model", "sde", ANY): {"noise": "diffusion sigma vol volatility dW stochastic", "drift": "mu"},
    ("model", "reactions", ANY): {"rate": "k kf k_f constant", "equation": "reaction formula scheme"},
    ("solver",): {"type": "name method"},
    ("events", ANY): {
        "at": "time times t",
        "every": "interval period ii",
        "when": "condition if trigger",
        "set": "do action effect",
    },
    ("observe", ANY): {"value": "expression expr formula function", "exact": "analytic reference"},
    (): {
        "observe": "output_variables observables outputs measure payoff",
        "initial": "init inits initial_values initial_conditions x0 y0 ic",
        "time": "times tspan t_span",
        "solver": "method scheme integrator algorithm",
        "ensemble": "simulation mc monte_carlo",
        "constants": "params parameters",
    },
}
NAMES = {
    path: {other: key for key, others in names.items() for other in others.split()}
    for path, names in _OTHER_NAMES.items()
}


def remedy_of_key(path: KeyPath, root: Root) -> str | None:
    """What to write in place of a key that simkit does not have there; `None` where that is not known."""
    remedies = next(own for kind, own in REMEDIES.items() if issubclass(root, kind))
    remedy = next((text for pattern, text in remedies.items() if _fits(path, pattern)), None)
    if remedy is not None:
        return remedy
    for pattern, names in NAMES.items():
        other = names.get(str(path[-1]), "") if _fits(path[:-1], pattern) else ""
        if any(other in section.model_fields for section in sections_at(path[:-1], root)):
            return f"write {other}"
    return _in_another_section(path, root)


def given_instead(path: KeyPath, beside: Mapping[str, Any]) -> str:
    """What to say of a missing key whose name in other programs is there."""
    for pattern, names in NAMES.items():
        if _fits(path[:-1], pattern):
            for other in beside:
                if names.get(other) == path[-1]:
                    return f"; write {path[-1]} in place of {other}"
    return ""


def _in_another_section(path: KeyPath, root: Root) -> str | None:
    """The section that has a key of this name, or the few that have."""
    key = str(path[-1])
    if len(path) > 1 and key in root.model_fields:
        return f"{key} is a section of its own; write it at the left margin"
    homes = sections_with(key, root)
    return f"{key} belongs under {' or '.join(homes)}" if 1 <= len(homes) <= FEW else None


def sections_with(key: str, root: Root = Experiment) -> list[str]:
    """The sections of a file that have a key of this name."""
    return [
        name
        for name in root.model_fields
        if any(key in section.model_fields for section in _top_sections(name, root))
    ]


def _top_sections(name: str, root: Root) -> list[type[Section]]:
    return [] if name in ("model", "potential") else sections_at((name,), root)


def remedy_of_value(path: KeyPath, value: Any, beside: Mapping[str, Any]) -> str:
    """What to say after a wrong value, of which others think as right; `beside` is the mapping around it."""
    if _fits(path, ("observe", ANY, "at")):
        times = value if isinstance(value, list) else [value]
        if times and all(isinstance(t, int | float) and not isinstance(t, bool) for t in times):
            observed = str(beside.get("value", "x"))
            return f"; a value at one time is an observable: value: at({observed}, {shown(times[0])})"
    if len(path) == 2 and path[0] == "model" and isinstance(value, dict) and path[1] != "parameters":
        if path[1] not in MODELS:
            return "; equations stand under sde or ode, energies under hamiltonian, reactions under reactions"
        return f"; for a model {path[1]} write type: {path[1]}, with its parameters beside it"
    if path == ("save", "every") and not isinstance(value, bool):
        return "; it counts steps, and save.points the saved times"
    return ""


def _fits(path: KeyPath, pattern: KeyPath) -> bool:
    return len(path) == len(pattern) and all(b in (a, ANY) for a, b in zip(path, pattern, strict=True))
