"""Names by which pydantic distinguishes the alternatives of a section."""

NAMED, INLINE_SDE, INLINE_ODE, INLINE_HAMILTONIAN, INLINE_NETWORK, PLAIN, RANDOM = (
    "by name",
    "inline sde",
    "inline ode",
    "inline hamiltonian",
    "inline reactions",
    "plain value",
    "random value",
)


PER_PATH, FROM_FILE, LISTED = "values of the paths", "values of a file", "values of a list"


TAGS = frozenset(
    {NAMED, INLINE_SDE, INLINE_ODE, INLINE_HAMILTONIAN, INLINE_NETWORK, PLAIN, RANDOM}
    | {PER_PATH, FROM_FILE, LISTED}
)
