"""The YAML reference, from the schema of an experiment."""

from typing import Any

import yaml
from simkit_physics import MODELS, is_sized
from tables import table

from simkit import experiment_schema, particle_schema
from simkit.config import Experiment, ParticleExperiment

INTRODUCTION = """\
# YAML keys

An experiment has the keys below; `model`, `initial` and `time` are required. A key that is not listed is an
error, and so is a key given twice. Numbers may be [expressions](expressions.md) of the constants, except
integers such as `steps`, `paths` and `seed`, which are plain numbers.

Numbers follow YAML 1.2, so `1e-3` is a number; a number in quotes is refused. Anchors (`&`) and aliases
(`*`) work; tags (`!`), merge keys (`<<`) and a second document are refused. A file may have up to a million
characters. Inside `{}` and `[]` a comma in parentheses belongs to the expression, as in
`{call: maximum(S - K, 0)}`.

`time` has either `steps`, or `rtol` and `atol` for adaptive steps, of
[ordinary](../guides/adaptive_odes.md) and of [stochastic](../guides/adaptive_sdes.md) equations; the keys
below them in its table are for adaptive steps. Solvers of the jump process of a
[reaction network](../guides/reaction_networks.md) use only `max_steps`.
`curves` and `events` have their own [guide](../guides/time_and_events.md).

`simkit schema` prints the same as JSON Schema, for editors."""

SECTIONS = {  # definition in the schema: heading
    "Time": "time",
    "Ensemble": "ensemble",
    "ErrorTarget": "ensemble: target",
    "VarianceReductionSettings": "ensemble: variance_reduction",
    "ImportanceSettings": "ensemble: variance_reduction: importance",
    "Cluster": "cluster",
    "Save": "save",
    "ObservableSettings": "observe: one observable",
    "DerivedSettings": "derived: one quantity derived from means",
    "EarlyExercise": "observe: early exercise",
    "CurveSettings": "curves: one curve",
    "EventSettings": "events: one event",
    "Plot": "plot",
    "Sweep": "sweep",
    "Uncertainty": "uncertainty",
    "Sensitivity": "sensitivity",
    "Distribution": "constants: a distribution",
    "RandomValue": "initial: a random value",
    "FromFile": "initial: from a file",
    "PerPath": "initial: for each path",
    "InlineSDE": "model: a stochastic equation",
    "SDEVariable": "model: one variable of a stochastic equation",
    "InlineODE": "model: an ordinary equation",
    "InlineHamiltonian": "model: a Hamiltonian system",
    "Energies": "model: the energies of a Hamiltonian system",
    "InlineNetwork": "model: a reaction network",
    "ReactionSettings": "model: one reaction",
    "Solver": "solver: with options",
}


PARTICLES = """\
## Molecular dynamics

A file with a `system` is one of molecular dynamics. It has the keys below; `system`, `potential` and `time`
are required. [A Lennard-Jones fluid](../tutorials/lennard_jones_fluid.md) shows how they go together."""

PARTICLE_SECTIONS = {
    "System": "molecular dynamics: system",
    "Lattice": "molecular dynamics: a lattice",
    "RandomPlacement": "molecular dynamics: random places",
    "Box": "molecular dynamics: a box",
    "SpeciesSettings": "molecular dynamics: one species",
    "Velocities": "molecular dynamics: velocities",
    "Potential": "molecular dynamics: potential",
    "PairSettings": "molecular dynamics: one pair of species",
    "Integrator": "molecular dynamics: solver",
    "ParticleTime": "molecular dynamics: time",
    "Stage": "molecular dynamics: one stage",
    "Replicas": "molecular dynamics: ensemble",
    "ParticleSave": "molecular dynamics: save",
    "Trajectory": "molecular dynamics: a trajectory",
    "ParticleObservable": "molecular dynamics: one observable",
    "ParticleSensitivity": "molecular dynamics: sensitivity",
}
PARTICLE_SECTIONS |= {
    spec["$ref"].rpartition("/")[2]: f"molecular dynamics: {name}"
    for name, spec in particle_schema()["$defs"]["ParticleObservable"]["properties"].items()
    if "$ref" in spec
}


def yaml_page() -> str:
    """Every key with type, default, meaning and an example."""
    schema = experiment_schema()
    definitions = schema["$defs"]
    top = {
        key: spec
        | {name: getattr(Experiment.model_fields[key], name) for name in ("description", "examples")}
        for key, spec in schema["properties"].items()
    }
    parts = [INTRODUCTION, "## All sections", _keys({"properties": top, "required": schema["required"]})]
    names = ", ".join(f"[{name}](models/{name}.md)" for name in MODELS)
    parts += [
        "## model: by name",
        f"`type` and the model's parameters: {names}. All parameters are required. For numbered "
        "ones, `m1`, `m2`, …, the key `m` has one value for all, or a list. `size` is the number of parts of "
        f"{', '.join(name for name, model in MODELS.items() if is_sized(model))}.",
        "```yaml\nmodel: {type: GBM, mu: 0.05, sigma: 0.2}\n```",
    ]
    for name, heading in SECTIONS.items():
        spec = definitions[name]
        parts.append(f"## {heading}")
        if spec.get("description"):
            parts.append(spec["description"])
        parts.append(_keys(spec))
    return "\n\n".join([*parts, particle_keys()]) + "\n"


def particle_keys() -> str:
    """Every key of molecular dynamics."""
    schema = particle_schema()
    definitions = schema["$defs"]
    top = {
        key: spec
        | {name: getattr(ParticleExperiment.model_fields[key], name) for name in ("description", "examples")}
        for key, spec in schema["properties"].items()
    }
    parts = [PARTICLES, _keys({"properties": top, "required": schema["required"]})]
    for name, heading in PARTICLE_SECTIONS.items():
        spec = definitions[name]
        parts += [f"## {heading}", spec.get("description", ""), _keys(spec)]
    return "\n\n".join(part for part in parts if part)


def _keys(section: dict[str, Any]) -> str:
    rows = []
    for key, spec in section["properties"].items():
        default = "required" if key in section.get("required", ()) else ""
        if "default" in spec and spec["default"] not in ("", None):
            default = f"`{_inline(spec['default'])}`"
        example = spec["examples"][0] if spec.get("examples") else None
        shown = "" if example is None else f"`{key}: {_inline(example)}`"
        rows.append(
            (f"`{key}`", _kind(spec), default, spec.get("description", "").replace(".\n", "; "), shown)
        )
    return table(("key", "value", "default", "meaning", "example"), rows)


def _kind(spec: dict[str, Any]) -> str:
    """What may stand as a value."""
    options = spec.get("anyOf") or spec.get("oneOf")
    if options:
        kinds = [_kind(option) for option in options]
        return " or ".join(dict.fromkeys(kinds))
    if "$ref" in spec:
        name = spec["$ref"].rsplit("/", 1)[1]
        if name in MODELS:
            return "[by name](#model-by-name)"
        heading = (SECTIONS | PARTICLE_SECTIONS)[name]
        return f"[{heading}](#{_anchor(heading)})"
    if "const" in spec:
        return f"`{spec['const']}`"
    if "enum" in spec:
        if len(spec["enum"]) > 4:
            return "[name](solvers/index.md)" if "EulerMaruyama" in spec["enum"] else "name"
        return " or ".join(f"`{option}`" for option in spec["enum"])
    kind = spec.get("type")
    if kind == ["number", "string"]:
        return "number or expression"
    if kind == "object":
        inner = spec.get("additionalProperties")
        return f"names to: {_kind(inner)}" if isinstance(inner, dict) else "names to values"
    if kind == "array":
        return "list"
    if kind == ["object", "null"]:
        return "settings"
    words = {"integer": "whole number", "number": "number", "string": "text", "boolean": "`true` or `false`"}
    return words[str(kind)] + _limits(spec)


def _limits(spec: dict[str, Any]) -> str:
    low, high = spec.get("minimum"), spec.get("maximum")
    if high is not None:
        return f", {low} to {_power(high)}"
    if "exclusiveMinimum" in spec:
        return f" > {spec['exclusiveMinimum']}"
    return "" if low is None else f" ≥ {low}"


def _power(number: int) -> str:
    """2^32 rather than 4294967296."""
    for short, value in ((f"2^{n}", 2**n) for n in range(20, 65)):
        if number == value:
            return short
        if number == value - 1:
            return f"{short} − 1"
    return str(number)


def _inline(value: Any) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, allow_unicode=True, width=10**6)
    return text.removesuffix("\n").removesuffix("\n...").strip()


def _anchor(heading: str) -> str:
    """The anchor that MyST gives a heading."""
    return heading.lower().replace(":", "").replace(" ", "-")
