"""The example of the README, a statistic of one's own, runs and is right."""

import re

import numpy as np
from checkout import ROOT

README = (ROOT / "simkit/time_series/README.md").read_text("utf-8")


def test_the_skewness_of_the_readme_is_within_its_error():
    (block,) = re.findall(r"```python\n(.*?)```", README, re.S)
    names: dict = {}
    exec(compile(block, "simkit/time_series/README.md", "exec"), names)
    estimate = names["estimate"]
    assert estimate.reason is None
    assert 0 < estimate.stderr < 0.1
    assert abs(estimate.value - 2 / np.sqrt(5)) < 4.5 * estimate.stderr
