"""The headings of the pages about the Python interface: which modules of a package belong below which."""

MOLECULES = "Molecular dynamics: particles"
SYSTEMS = "Molecular dynamics: systems"
THEMES = {  # package: theme: its modules, relative to the package, in order; the longest that fits counts
    "simkit": {
        "Run experiments": ("api", "experiments", "studies.experiments", "steady_states", "md.single_point"),
        "Results and pictures": ("results", "pictures"),
        "Look inside": ("diagnostics",),
        "Closed forms": ("closed_forms",),
        "Packages": ("studies", "transforms"),
        "Schemas of files": ("schema",),
        "The process": ("machine", "version"),
        "Errors and warnings": ("errors",),
    },
    "simkit.transforms": {
        "Derivatives": ("derivative", "second_order", "holomorphic"),
        "Checks of gradients": ("gradient_check",),
        "Pipelines and compiled programs": ("pipeline", "compiled"),
        "Transforms of a pipeline": ("records",),
    },
    "simkit.studies": {"Studies of functions": ("api",), "Studies of experiments": ("experiments", "plan")},
    "simkit_solvers": {
        "Equations": (
            "problems.problem",
            "problems.hamiltonian",
            "problems.langevin",
            "problems.jump_diffusion",
            "problems.marks",
            "problems.reaction_network",
            "problems",
            "numerics.scalar",
        ),
        "Parameters that change with time, and events": (
            "problems.event",
            "problems.calendar",
            "problems.curve",
            "problems.schedule",
        ),
        "Grids of time": ("grids",),
        "Runs of one path": ("loops", "problems.observe"),
        "Solvers": ("methods.registry", "methods"),
        "Derivatives of runs": ("derivatives", "problems.directions", "loops.reverse_pass"),
        "Random numbers": ("random",),
        "Fixed points and roots": ("roots",),
        MOLECULES: ("problems.particles", "problems.motion"),
        "Molecular dynamics: methods": ("methods.particles",),
        "Molecular dynamics: runs": (
            "loops.simulate_particles",
            "loops.two_level",
            "loops.minimise_particles",
            "loops.scheduled_steps",
            "problems.particle_observer",
            "random.particle_noise",
        ),
        "Functions for models and programs": ("numerics",),
    },
    "simkit_physics": {
        "All models": ("__init__", "elsewhere", "sized"),
        "Models of finance": ("finance",),
        "Models of biology": ("biology",),
        "Models of chemistry": ("chemistry",),
        "Reaction networks": ("kinetics",),
        "Models of mechanics": ("mechanics",),
        "Models of nonlinear dynamics": ("nonlinear",),
        "Models of statistical physics": ("statistical",),
        SYSTEMS: (
            "particles.boxes",
            "particles.configurations",
            "particles.random_positions",
        ),
        "Molecular dynamics: pair potentials": ("particles.potentials",),
        "Molecular dynamics: truncations and tails": ("particles.potentials.truncation",),
        "Molecular dynamics: mixtures": ("particles.potentials.mixing",),
        "Molecular dynamics: forces": ("particles.choice", "particles", "pairs"),
        "Molecular dynamics: temperature, pressure, fluctuations": (
            "particles.thermodynamics",
            "particles.fluctuations",
        ),
        "Molecular dynamics: structure": ("particles.radial_distribution", "particles.structure_factor"),
        "Molecular dynamics: diffusion": ("particles.displacement",),
        "Molecular dynamics: units": ("particles.units",),
    },
}
INTRODUCTIONS = {  # (package, theme): what is said below the heading
    ("simkit", "Run experiments"): """\
`source` is a file or a dictionary of the same shape: all [keys](../yaml.md), also of molecular dynamics.""",
    ("simkit_solvers", MOLECULES): """\
Molecular dynamics in Python takes particles and forces, which
[simkit_physics](physics.md#molecular-dynamics-systems) makes, a [method](#molecular-dynamics-methods) and a
[run](#molecular-dynamics-runs). `simkit.run` does all this from a file:
[guide](../../guides/molecular_dynamics.md).""",
    ("simkit_physics", SYSTEMS): """\
In the order of the work: a box with particles, a pair potential and its truncation, forces, what is measured.
[simkit_solvers](solvers.md#molecular-dynamics-particles) has the particles themselves,
[methods](solvers.md#molecular-dynamics-methods) and [runs](solvers.md#molecular-dynamics-runs). The example
of [`simulate_particles`](solvers.md#simulate_particles) has a whole run.""",
}
