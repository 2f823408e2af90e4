"""Published problems end at their published values to the requested tolerance.

HIRES and Robertson: Mazzia & Magherini (2008), Test Set for Initial Value Problem Solvers. Arenstorf: Hairer,
Nørsett & Wanner (1993), Solving Ordinary Differential Equations I, doi:10.1007/978-3-540-78862-1.
B3: Hull, Enright, Fellen & Sedgwick (1972), doi:10.1137/0709052. Figure-eight: Chenciner & Montgomery (2000),
doi:10.2307/2661357.
"""

import pytest
from simkit_physics import MODELS, FigureEight

import simkit


def example(name, t1):
    """The documented example of a model, up to a time."""
    model = MODELS[name]
    return {
        "model": {"type": name, **model.example},
        "initial": model.example_initial,
        "time": {"t1": t1},
        "ensemble": {"devices": 1},
    }


PROBLEMS = {
    "HIRES": example("HIRES", 321.8122),
    "Robertson": example("Robertson", 1e11),
    "Arenstorf": example("Arenstorf", 17.0652165601579625588917206249),
    "FigureEight": example("FigureEight", 6.32591398292621),
}
# The same written out in files, without any class of ours.
YAML = {
    "HIRES": """
model:
  ode:
    y1: -1.71*y1 + 0.43*y2 + 8.32*y3 + 0.0007
    y2: 1.71*y1 - 8.75*y2
    y3: -10.03*y3 + 0.43*y4 + 0.035*y5
    y4: 8.32*y2 + 1.71*y3 - 1.12*y4
    y5: -1.745*y5 + 0.43*y6 + 0.43*y7
    y6: -k*y6*y8 + 0.69*y4 + 1.71*y5 - 0.43*y6 + 0.69*y7
    y7: k*y6*y8 - 1.81*y7
    y8: -k*y6*y8 + 1.81*y7
  parameters: {k: 280}
initial: {y1: 1, y2: 0, y3: 0, y4: 0, y5: 0, y6: 0, y7: 0, y8: 0.0057}
time: {t1: 321.8122}
ensemble: {devices: 1}
""",
    "Robertson": """
model:
  ode:
    y1: -0.04*y1 + 1e4*y2*y3
    y2: 0.04*y1 - 1e4*y2*y3 - 3e7*y2**2
    y3: 3e7*y2**2
initial: {y1: 1, y2: 0, y3: 0}
time: {t1: 1e11}
ensemble: {devices: 1}
""",
    "Arenstorf": """
model:
  ode:
    x: vx
    y: vy
    vx: x + 2*vy - (1 - mu)*(x + mu)/((x + mu)**2 + y**2)**1.5 - mu*(x - 1 + mu)/((x - 1 + mu)**2 + y**2)**1.5
    vy: y - 2*vx - (1 - mu)*y/((x + mu)**2 + y**2)**1.5 - mu*y/((x - 1 + mu)**2 + y**2)**1.5
  parameters: {mu: 0.012277471}
initial: {x: 0.994, y: 0, vx: 0, vy: -2.00158510637908252240537862224}
time: {t1: 17.0652165601579625588917206249}
ensemble: {devices: 1}
""",
    "FigureEight": """
model:
  ode:
    x1: px1
    x2: px2
    x3: px3
    y1: py1
    y2: py2
    y3: py3
    px1: (x2 - x1) / ((x2 - x1)**2 + (y2 - y1)**2)**1.5 + (x3 - x1) / ((x3 - x1)**2 + (y3 - y1)**2)**1.5
    px2: (x1 - x2) / ((x1 - x2)**2 + (y1 - y2)**2)**1.5 + (x3 - x2) / ((x3 - x2)**2 + (y3 - y2)**2)**1.5
    px3: (x1 - x3) / ((x1 - x3)**2 + (y1 - y3)**2)**1.5 + (x2 - x3) / ((x2 - x3)**2 + (y2 - y3)**2)**1.5
    py1: (y2 - y1) / ((x2 - x1)**2 + (y2 - y1)**2)**1.5 + (y3 - y1) / ((x3 - x1)**2 + (y3 - y1)**2)**1.5
    py2: (y1 - y2) / ((x1 - x2)**2 + (y1 - y2)**2)**1.5 + (y3 - y2) / ((x3 - x2)**2 + (y3 - y2)**2)**1.5
    py3: (y1 - y3) / ((x1 - x3)**2 + (y1 - y3)**2)**1.5 + (y2 - y3) / ((x2 - x3)**2 + (y2 - y3)**2)**1.5
initial:
  {x1: 0.97000435669734, x2: -0.97000435669734, x3: 0, y1: -0.243087531535823, y2: 0.243087531535823, y3: 0,
   px1: 0.4662036857205145, px2: 0.4662036857205145, px3: -0.932407371441029,
   py1: 0.4323657304604605, py2: 0.4323657304604605, py3: -0.864731460921031}
time: {t1: 6.32591398292621}
ensemble: {devices: 1}
""",
    "B3": """
model:
  ode: {y1: -y1, y2: y1 - y2**2, y3: y2**2}
initial: {y1: 1, y2: 0, y3: 0}
time: {t1: 20}
ensemble: {devices: 1}
""",
}
ENDS = {
    "HIRES": {
        "y1": 0.7371312573325668e-3,
        "y2": 0.1442485726316185e-3,
        "y3": 0.5888729740967575e-4,
        "y4": 0.1175651343283149e-2,
        "y5": 0.2386356198831331e-2,
        "y6": 0.6238968252742796e-2,
        "y7": 0.2849998395185769e-2,
        "y8": 0.2850001604814231e-2,
    },
    "Robertson": {"y1": 0.2083340149701255e-7, "y2": 0.8333360770334713e-13, "y3": 0.9999999791665050},
    "Arenstorf": {"x": 0.994, "y": 0.0, "vx": 0.0, "vy": -2.00158510637908252240537862224},
    "B3": {"y1": 2.06115362243855783e-9, "y2": 0.0525722802204851253, "y3": 0.947427717718361252},
    "FigureEight": {
        "x1": 0.97000435669734,
        "y1": -0.243087531535823,
        "x2": -0.97000435669734,
        "y2": 0.243087531535823,
        "x3": 0.0,
        "y3": 0.0,
        "px1": 0.4662036857205145,
        "py1": 0.4323657304604605,
        "px2": 0.4662036857205145,
        "py2": 0.4323657304604605,
        "px3": -0.932407371441029,
        "py3": -0.864731460921031,
    },
}
# Problem, solver, rtol, atol, and how far the end may be off: relative, or absolute where it is zero.
CASES = [
    ("HIRES", "Kvaerno5", 1e-8, 1e-12, 3e-8),
    ("HIRES", "Rodas5P", 1e-10, 1e-14, 1e-10),
    ("Robertson", "Kvaerno5", 1e-8, 1e-17, 3e-7),
    ("Robertson", "Rodas5P", 1e-9, 1e-18, 1e-7),
    ("Arenstorf", "Dopri8", 1e-12, 1e-12, 2e-8),
    ("FigureEight", "Dopri8", 1e-13, 1e-13, 1e-11),
]
WRITTEN = [
    pytest.param("HIRES", "Kvaerno5", 1e-8, 1e-12, 3e-8, marks=pytest.mark.slow),  # compiles for long
    ("Robertson", "Rodas5P", 1e-9, 1e-18, 1e-7),
    pytest.param("Arenstorf", "Dopri8", 1e-12, 1e-12, 2e-8, marks=pytest.mark.slow),
    ("B3", "Tsit5", 1e-10, 1e-14, 1e-6),
    pytest.param("FigureEight", "Dopri8", 1e-13, 1e-13, 1e-11, marks=pytest.mark.more),
]


def check_end(experiment, name, solver, rtol, atol, tolerance):
    # Where an exact end is 0, no digit of what a run has instead is right.
    changes = {"solver": solver, "time.rtol": rtol, "time.atol": atol, "ensemble.unresolved": "keep"}
    result = simkit.run(experiment, overrides=changes)
    for quantity, expected in ENDS[name].items():
        actual = float(result[f"{quantity}_mean"].values.reshape(-1)[-1])
        assert actual == pytest.approx(expected, rel=tolerance, abs=0 if expected else tolerance), quantity


@pytest.mark.slow
@pytest.mark.parametrize(("name", "solver", "rtol", "atol", "tolerance"), CASES)
def test_end_is_the_published_one(name, solver, rtol, atol, tolerance):
    check_end(PROBLEMS[name], name, solver, rtol, atol, tolerance)


@pytest.mark.more
@pytest.mark.parametrize(("name", "solver", "rtol", "atol", "tolerance"), WRITTEN)
def test_end_is_the_published_one_of_equations_in_a_file(name, solver, rtol, atol, tolerance, tmp_path):
    file = tmp_path / f"{name}.yaml"
    file.write_text(YAML[name])
    check_end(file, name, solver, rtol, atol, tolerance)


def test_figure_eight_has_the_published_energy_and_no_angular_momentum():
    problem, start = FigureEight(**FigureEight.example), FigureEight.State(**FigureEight.example_initial)
    assert float(problem.energy(start)) == pytest.approx(-1.28714199563186, abs=1e-13)
    assert float(problem.angular_momentum(start)) == pytest.approx(0, abs=1e-14)
