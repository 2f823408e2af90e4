"""The JSON Schema of experiments, for editors that complete and check YAML."""

from typing import Any

from simkit.config.settings import Experiment

_NUMBER = {"type": ["number", "string"]}
_BY_SPECIES = {"anyOf": [_NUMBER, {"type": "object", "additionalProperties": _NUMBER}]}
_UNCERTAIN = {"anyOf": [_NUMBER, {"$ref": "#/$defs/Distribution"}]}


def experiment_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of the YAML file: every key with type, description, default and examples.

    Models and solvers are listed by name, parameters with unit and admissible range.

    >>> import simkit
    >>> schema = simkit.experiment_schema()
    >>> sorted(schema["required"])
    ['initial', 'model', 'time']
    """
    from simkit_physics import MODELS
    from simkit_solvers.methods.registry import SOLVERS  # brings in diffrax, which takes seconds

    schema = Experiment.model_json_schema()
    definitions = schema["$defs"]
    named = definitions.pop("NamedModel")
    for name, model in MODELS.items():
        definitions[name] = _model_schema(name, model, named["properties"]["type"]["description"])
    schema["properties"]["model"] |= {
        "oneOf": [
            {"$ref": f"#/$defs/{name}"}
            for name in (*MODELS, "InlineSDE", "InlineODE", "InlineHamiltonian", "InlineNetwork")
        ]
    }
    definitions["Distribution"] = _distribution_schema()
    schema["properties"]["constants"]["additionalProperties"] = _UNCERTAIN
    for inline in ("InlineSDE", "InlineODE", "InlineHamiltonian", "InlineNetwork"):
        definitions[inline]["properties"]["parameters"]["additionalProperties"] = _UNCERTAIN
    definitions["Solver"] = _solver_schema(definitions["Solver"], SOLVERS)
    schema["properties"]["solver"] |= {"anyOf": [{"enum": list(SOLVERS)}, {"$ref": "#/$defs/Solver"}]}
    return _tidy(
        {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "simkit experiment"}
    )


def file_schema() -> dict[str, Any]:
    """JSON Schema of any file that `simkit run` takes: of molecular dynamics, if it has a `system`."""
    experiment, particles = experiment_schema(), particle_schema()
    shared = {"$schema": experiment.pop("$schema"), "title": experiment.pop("title")}
    particles = {key: value for key, value in particles.items() if key not in shared}
    definitions = experiment.pop("$defs") | particles.pop("$defs")
    names = dict.fromkeys([*experiment["properties"], *particles["properties"]])
    return {
        **shared,
        "type": "object",
        "properties": {name: {} for name in names},
        "if": {"required": ["system"]},
        "then": particles,
        "else": experiment,
        "$defs": definitions,
    }


def particle_schema() -> dict[str, Any]:
    """JSON Schema of an experiment of molecular dynamics; potentials and methods are listed by name.

    >>> import simkit
    >>> sorted(simkit.particle_schema()["required"])
    ['potential', 'system', 'time']
    """
    from simkit_physics.particles.potentials import POTENTIALS
    from simkit_solvers.methods.particles.particle_methods import PARTICLE_METHODS
    from simkit_solvers.problems.problem import parameters_of

    from simkit.md.experiment_section import particle_experiment

    schema = particle_experiment().model_json_schema()
    definitions = schema["$defs"]
    for section, classes in (("Potential", POTENTIALS), ("Integrator", PARTICLE_METHODS)):
        specs: dict[str, dict[str, Any]] = {}
        for name, cls in classes.items():
            for key, spec in parameters_of(cls).items():
                specs.setdefault(key, {})[name] = spec
        properties = definitions[section]["properties"]
        names = [*classes, "Tabulated"] if section == "Potential" else list(classes)
        properties["type"] = _without_null(properties["type"]) | {"enum": names}
        given = _BY_SPECIES if section == "Potential" else {"anyOf": [_NUMBER, {"type": "boolean"}]}
        for key, of in specs.items():
            properties[key] = {**given, "description": _by_class(of)}
        definitions[section]["additionalProperties"] = False
    schema["properties"]["solver"] |= {
        "anyOf": [{"enum": list(PARTICLE_METHODS)}, {"$ref": "#/$defs/Integrator"}]
    }
    return _tidy(
        {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "simkit experiment"}
    )


def _by_class(specs: dict[str, Any]) -> str:
    """What a parameter is, a line for each meaning that begins with the classes that give it that one."""
    classes: dict[str, list[str]] = {}
    for name, spec in specs.items():
        classes.setdefault(spec.description, []).append(name)
    return "\n".join(f"{', '.join(names)}: {meaning}." for meaning, names in classes.items())


def _without_null(spec: dict[str, Any]) -> dict[str, Any]:
    """What may stand for a key that need not be there."""
    rest = [option for option in spec.get("anyOf", ()) if option != {"type": "null"}]
    return {**rest[0], **{key: value for key, value in spec.items() if key != "anyOf"}} if rest else spec


def _model_schema(name: str, model, about: str) -> dict[str, Any]:
    from simkit_physics.sized import is_sized
    from simkit_solvers.problems.problem import parameters_of

    from simkit.experiments.indexed_names import indexed_names, pair_names

    properties: dict[str, Any] = {"type": {"const": name, "description": about}}
    for key, spec in parameters_of(model).items():
        text = f"{spec.description}, {spec.unit}" + (f", {spec.range}" if spec.range else "")
        limits = {
            word: bound
            for word, bound in (
                ("exclusiveMinimum", spec.above),
                ("minimum", spec.at_least),
                ("exclusiveMaximum", spec.below),
                ("maximum", spec.at_most),
            )
            if bound is not None
        }
        shown = {"examples": [model.example[key]]} if key in model.example else {}
        properties[key] = {**_UNCERTAIN, **limits, "description": text, **shown}
    patterns = {}
    required = list(properties)
    if is_sized(model):
        smallest, largest = model.sizes
        text = f"Number of parts; there are {len(model.State._fields)} variables unless given."
        properties["size"] = {"type": "integer", "minimum": smallest, "maximum": largest, "description": text}
    parameters = list(parameters_of(model))
    for key in dict.fromkeys(name.rstrip("0123456789") for name in parameters):
        names = indexed_names(key, parameters)
        if names:
            text = f"The same for all of {names[0]} to {names[-1]}, or a list."
            either = [_NUMBER, {"type": "array", "items": _NUMBER}]
            properties[key] = {"anyOf": either, "description": text}
            required = [name for name in required if name not in names]
            patterns |= {f"^{key}[0-9]+$": _NUMBER} if is_sized(model) else {}
    for key in dict.fromkeys(name.rstrip("0123456789_") for name in parameters):
        pairs = pair_names(key, parameters)
        if pairs:
            rows = {"type": "array", "items": {"type": "array", "items": _NUMBER}}
            text = f"The same for all of {pairs[1, 2]} to {list(pairs.values())[-1]}, or their whole matrix."
            properties[key] = {"anyOf": [_NUMBER, rows], "description": text}
            required = [name for name in required if name not in pairs.values()]
            patterns |= {f"^{key}[0-9]+(_[0-9]+)?$": _NUMBER}
    return {
        "type": "object",
        "description": (model.__doc__ or "").split("\n\n")[0].strip(),
        "properties": properties,
        **({"patternProperties": patterns} if patterns else {}),
        "required": required,
        "additionalProperties": False,
    }


def _distribution_schema() -> dict[str, Any]:
    from simkit.distributions.distribution import BY_KEY
    from simkit.distributions.plain import keys_of

    properties = {}
    for name, kind in BY_KEY.items():
        keys = {key: {"type": "array"} if many else _NUMBER for key, many in keys_of(kind).items()}
        keys |= dict.fromkeys(kind.other_keys, _NUMBER)
        options = [{"type": "array"}, {"type": "object", "properties": keys, "additionalProperties": False}]
        text = (kind.__doc__ or "").split("\n")[0].replace("$", "")
        properties[name] = {"anyOf": options, "description": f"{text} Keys: {', '.join(keys)}."}
    return {
        "type": "object",
        "description": "The distribution of an uncertain parameter, for `simkit uncertainty`: exactly one "
        "key, with its numbers as a mapping or in this order as a list.",
        "properties": properties,
        "additionalProperties": False,
        "minProperties": 1,
        "maxProperties": 1,
    }


def _solver_schema(solver: dict[str, Any], solvers) -> dict[str, Any]:
    options = sorted({key for info in solvers.values() for key in info.options})
    described = {
        key: {
            "type": "number",
            "exclusiveMinimum": 0,
            "description": "For "
            + ", ".join(name for name, info in solvers.items() if key in info.options)
            + ".",
        }
        for key in options
    }
    known = solver["properties"]
    kind = {**known["type"], "enum": list(solvers)}
    return {**solver, "properties": {**known, "type": kind, **described}, "additionalProperties": False}


def _tidy(schema: Any) -> Any:
    """Without the titles that repeat a key, and without the null that no file needs to write."""
    if isinstance(schema, list):
        return [_tidy(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result = {}
    for key, value in schema.items():
        if (
            (key == "title" and value != "simkit experiment" and isinstance(value, str))
            or (key == "default" and value is None)
            or key == "discriminator"
        ):
            continue
        result[key] = _tidy(value)
    options = result.get("anyOf")
    if isinstance(options, list) and {"type": "null"} in options:
        rest = [option for option in options if option != {"type": "null"}]
        del result["anyOf"]
        result = {**rest[0], **result} if len(rest) == 1 else {**result, "anyOf": rest}
    return result
