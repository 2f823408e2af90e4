"""What particles are called in messages: as the file that they come from has them."""

import dataclasses

import numpy as np
from jaxtyping import Int


@dataclasses.dataclass(frozen=True)
class ParticleNames:
    """The numbers of particles in their file, `kind` says which: those of their lines, or ids.

    Without a file particles are counted from 0.
    """

    numbers: Int[np.ndarray, " particles"] | None = None
    kind: str = ""
    file: str = ""

    def of(self, *particles: int) -> str:
        """One particle or two, by their places in the order of the experiment."""
        several = "s" if len(particles) > 1 else ""
        if self.numbers is None:
            return f"particle{several} {' and '.join(map(str, particles))} (counted from 0)"
        numbers = " and ".join(str(self.numbers[particle]) for particle in particles)
        return f"the particle{several} {self.kind}{several} {numbers} of {self.file}"


FROM_ZERO = ParticleNames()


def by_id(numbers: np.ndarray, file: str) -> ParticleNames:
    """Particles with ids, as in LAMMPS."""
    return ParticleNames(np.asarray(numbers, np.int64), "with id", file)


def by_line(numbers: np.ndarray, file: str) -> ParticleNames:
    """Particles on lines of their own, counted from 1."""
    return ParticleNames(np.asarray(numbers, np.int64), "on line", file)
