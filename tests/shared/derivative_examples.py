"""One derivative of an experiment, and how many standard errors it may be off."""

import numpy as np

from simkit import sensitivity

LIMIT = 4.0


def last(result, name):
    """The figure at the end."""
    return float(np.atleast_1d(result[name].values.squeeze())[-1])


def derivative(experiment, wrt, of, kind="derivative", **section):
    """Mean, standard error, estimator and reason of one derivative, or one second derivative."""
    second = {"second": [wrt]} if kind == "second" else {}
    result = sensitivity({**experiment, "sensitivity": {"wrt": [wrt], "of": [of], **second, **section}})
    texts = (result[f"{of}_{kind}_{part}"].values.item() for part in ("estimator", "reason"))
    return last(result, f"{of}_{kind}"), last(result, f"{of}_{kind}_stderr"), *texts
