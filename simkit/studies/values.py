"""The results of the runs of a design, for one observable."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True, eq=False)
class Values:
    """Values of the runs of a design, and what is known of the noise in them.

    `mean` `(replicates, rows, members)` is over the paths of each run. Where a simulation is random, `noise`
    is the variance of that mean and `difference_noise` that of its difference from the first member of the
    row; both are unbiased, and None where nothing is random. `each` are the values of the single paths,
    `(replicates, rows, members, paths)`, `gradient` and `gradient_noise` `(replicates, rows, d)` the mean
    pathwise derivatives and their variances, where a method uses them. Of a first time `waiting`
    `(replicates, rows, members)` are how many paths had not met the condition before the end.
    """

    mean: np.ndarray
    noise: np.ndarray | None = None
    difference_noise: np.ndarray | None = None
    each: np.ndarray | None = None
    gradient: np.ndarray | None = None
    gradient_noise: np.ndarray | None = None
    waiting: np.ndarray | None = None
    paths: int = 1

    @staticmethod
    def of(each: np.ndarray, random: bool, keep: bool = False) -> "Values":
        """The values of single paths `(replicates, rows, members, paths)`, reduced."""
        mean, paths = each.mean(-1), each.shape[-1]
        stored = each if keep else None
        if not random:
            return Values(mean, each=stored, paths=paths)
        noise = each.var(-1, ddof=1) / paths
        difference = (each - each[:, :, :1]).var(-1, ddof=1) / paths
        return Values(mean, noise, difference, stored, paths=paths)

    def and_more(self, more: "Values") -> "Values":
        """These rows followed by later ones of the same replicates."""
        changes = {}
        for field in dataclasses.fields(self):
            one, other = getattr(self, field.name), getattr(more, field.name)
            if field.name != "paths" and one is not None:
                changes[field.name] = np.concatenate([one, other], 1)
        return dataclasses.replace(self, **changes)

    def split(self) -> "dict[str, np.ndarray]":
        r"""The parts, by replicate, of $\mathrm{Var} f = \mathrm{Var}\,E[f|x] + E\,\mathrm{Var}[f|x]$.

        Over all runs under their first noise; what the noise adds to the variance of the means is subtracted,
        which leaves both unbiased. `(replicates,)` each. The variance about a replicate's own mean lacks that
        of the mean, which is nearly nothing of Sobol' points, not an n-th: it is that between replicates.
        """
        first = self.mean[:, :, 0]
        between = first.mean(-1).var(ddof=1) if len(first) > 1 else 0.0
        parameters = first.var(-1) + between
        if self.noise is None:
            return {"parameters": parameters, "noise": np.zeros_like(parameters)}
        noise = self.noise[:, :, 0].mean(-1)
        return {"parameters": parameters - noise, "noise": noise * self.paths}
