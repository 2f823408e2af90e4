"""A record of another run is refused with what differs, and no more."""

from simkit.records.same_run import differences

FILE = "model:\n  type: GBM\n  sigma: {}\ntime:\n  t1: 1\n"


def test_points_that_only_one_of_two_sweeps_has_are_named_without_their_configurations():
    recorded = {f"variant sigma={x}": FILE.format(x) for x in (0.1, 0.2)} | {"task": "sweep"}
    now = {f"variant sigma={x}": FILE.format(x) for x in (0.2, 0.3)} | {"task": "sweep"}
    assert differences(recorded, now) == [
        "recorded, and not in this run: variant sigma=0.1",
        "in this run, and not recorded: variant sigma=0.3",
    ]


def test_of_many_points_the_first_are_named():
    (line,) = differences({}, {f"variant x={i}": FILE.format(i) for i in range(100)})
    assert line.startswith("in this run, and not recorded: variant x=0, variant x=1, ")
    assert line.endswith("variant x=11, and 88 more")


def test_of_a_configuration_that_both_have_the_lines_that_differ_are_shown():
    (line,) = differences({"experiment": FILE.format(0.1)}, {"experiment": FILE.format(0.2)})
    assert line == "experiment: recorded `sigma: 0.1`; now `sigma: 0.2`"
    assert differences({"experiment": FILE}, {"experiment": FILE}) == []
