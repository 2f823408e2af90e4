"""Formats of other programs: what is written is read again, by simkit and by the readers of a library."""

import dataclasses
import importlib
import importlib.util
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from md_examples import fluid

import simkit
from simkit import InputError
from simkit.md.experiment import load_particles
from simkit.md.files.dcd import dcd_frames
from simkit.md.files.frame import Cell, Frame
from simkit.md.files.gro import read_gro
from simkit.md.files.lammps_data import lammps_data, read_lammps_data
from simkit.md.files.pdb import read_pdb
from simkit.md.files.xyz import read_xyz, write_frame

MIXED = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
NAMES = ("Ar", "Kr", "Xe")


def library():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module("MDAnalysis")


def universe(*files: Path, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return library().Universe(*map(str, files), to_guess=(), **options)


@st.composite
def systems(draw, boxes=("right", "oblique")):
    """Frames with positions in their box, of one or more particles, along all kinds of boxes."""
    seed, count = draw(st.integers(0, 2**32)), draw(st.integers(1, 12))
    kind, generator = draw(st.sampled_from(boxes)), np.random.default_rng(seed)
    cell = None
    if kind != "free":
        sides = tuple(generator.uniform(5, 60, 3).tolist())
        least = min(sides)
        tilts = (
            tuple((0.4 * least * generator.uniform(-1, 1, 3)).tolist()) if kind == "oblique" else (0.0,) * 3
        )
        cell = Cell(sides, tilts)
    vectors = np.eye(3) * 30 if cell is None else cell.vectors
    species = generator.integers(0, len(NAMES), count)
    present = np.unique(species)
    return Frame(
        positions=generator.uniform(0, 1, (count, 3)) @ vectors,
        species=np.searchsorted(present, species),
        names=tuple(NAMES[i] for i in present),
        cell=cell,
        velocities=generator.standard_normal((count, 3)),
        masses={NAMES[i]: float(10 + i) for i in present},
    )


def named(frame: Frame) -> list[str]:
    return [frame.names[i] for i in frame.species]


def right(frame: Frame, digits: int) -> Frame:
    """What remains of a frame in so many decimals."""
    return dataclasses.replace(frame, positions=np.round(frame.positions, digits))


def assert_box(cell: Cell | None, other: Cell | None, tolerance: float) -> None:
    assert (cell is None) == (other is None)
    if cell is not None:
        np.testing.assert_allclose(cell.vectors, other.vectors, atol=tolerance, rtol=0)


@MIXED
@given(frame=systems(("right", "oblique", "free")))
def test_xyz_has_all_digits(tmp_path, frame):
    path = tmp_path / "a.xyz"
    with path.open("w") as file:
        write_frame(file, frame, step=3)
    read = read_xyz(path)
    np.testing.assert_array_equal(read.positions, frame.positions)
    np.testing.assert_array_equal(read.velocities, frame.velocities)
    assert (read.cell, named(read)) == (frame.cell, named(frame))
    np.testing.assert_allclose(universe(path).atoms.positions, frame.positions, rtol=1e-6)


@MIXED
@given(frame=systems())
def test_lammps_data_have_all_digits(tmp_path, frame):
    path = tmp_path / "a.data"
    path.write_text(lammps_data(frame))
    read = read_lammps_data(path)
    np.testing.assert_array_equal(read.positions, frame.positions)
    np.testing.assert_array_equal(read.velocities, frame.velocities)
    assert (read.cell, named(read), read.masses) == (frame.cell, named(frame), frame.masses)
    theirs = universe(path, atom_style="id type x y z")
    np.testing.assert_allclose(theirs.atoms.positions, frame.positions, rtol=1e-6, atol=1e-6)
    lengths, cosines = frame.cell.lengths_and_cosines
    expected = [*lengths, *np.degrees(np.arccos(cosines))]
    np.testing.assert_allclose(theirs.dimensions, expected, rtol=1e-5)


def written_by_the_library(path: Path, frame: Frame, nanometres: float) -> None:
    """A file of a frame, whose lengths are in units of so many nanometres."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        atoms = library().Universe.empty(len(frame.positions), trajectory=True, velocities=True)
        for attribute in ("names", "elements"):
            atoms.add_TopologyAttr(attribute, named(frame))
        atoms.atoms.positions = frame.positions * nanometres * 10
        atoms.trajectory.ts.velocities = frame.velocities * nanometres * 10
        if frame.cell is not None:
            lengths, cosines = frame.cell.lengths_and_cosines
            angles = np.degrees(np.arccos(cosines))
            atoms.dimensions = [*(np.array(lengths) * nanometres * 10), *angles]
        atoms.atoms.write(str(path))


@MIXED
@given(frame=systems(("right", "oblique", "free")))
def test_pdb_has_three_decimals_of_an_angstrom(tmp_path, frame):
    path = tmp_path / "a.pdb"
    written_by_the_library(path, frame, 0.1)
    read = read_pdb(path)
    np.testing.assert_allclose(read.positions, frame.positions, atol=5.1e-4)
    np.testing.assert_array_equal(read.positions, np.round(read.positions, 3))
    assert named(read) == named(frame)
    assert_box(read.cell, frame.cell, 1e-3 + 1e-4 * 60)
    assert (read.velocities, read.sizes) == (None, (1e-10, 1e-10))


@MIXED
@given(frame=systems())
def test_gro_has_three_decimals_of_a_nanometre(tmp_path, frame):
    path = tmp_path / "a.gro"
    written_by_the_library(path, frame, 0.1)
    read = read_gro(path).scaled(10, 10)
    np.testing.assert_allclose(read.positions, frame.positions, atol=5.1e-3)
    np.testing.assert_allclose(read.velocities, frame.velocities, atol=5.1e-4)
    assert_box(read.cell, frame.cell, 2e-4)
    assert named(read) == named(frame)


def test_gro_may_have_more_digits(tmp_path):
    path = tmp_path / "a.gro"
    rows = [f"    1SOL     Ar{i:5d}{x:10.5f}{y:10.5f}{z:10.5f}" for i, (x, y, z) in enumerate(PLACES, 1)]
    path.write_text("\n".join(["high precision", "2", *rows, "   2.00000   3.00000   4.00000"]) + "\n")
    read = read_gro(path)
    np.testing.assert_array_equal(read.positions, PLACES)
    assert (read.cell, read.velocities, read.rounding) == (Cell((2.0, 3.0, 4.0)), None, 1e-5)


PLACES = np.array([[0.12345, 1.00001, 1.99999], [1.5, 0.25, 3.5]])


@MIXED
@given(frame=systems(("right", "oblique", "free")), more=st.integers(1, 3))
def test_dcd_is_read_by_the_library_and_has_the_layout_of_the_format(tmp_path, frame, more):
    path, frames = tmp_path / "a.dcd", [right(frame, 2 + i) for i in range(more)]
    with dcd_frames(path, len(frame.positions), 5, 0.25, frame.cell is not None, "by a test") as write:
        for each in frames:
            write(each)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = importlib.import_module("MDAnalysis.coordinates.DCD").DCDReader(str(path))
    assert theirs.n_frames == more
    assert theirs.dt == pytest.approx(5 * 0.25 * 0.04888821)  # ps
    for step, each in zip(theirs, frames, strict=True):
        np.testing.assert_array_equal(step.positions, each.positions.astype(np.float32))
        if each.cell is not None:
            angles = step.dimensions[3:].tolist()
            assert_box(Cell.of_lengths_and_angles(step.dimensions[:3].tolist(), angles), each.cell, 2e-4)
    for ours, each in zip(records(path.read_bytes(), frame.cell is not None), frames, strict=True):
        np.testing.assert_array_equal(ours, each.positions.T.astype(np.float32))


def records(content: bytes, periodic: bool) -> list[np.ndarray]:
    """The coordinates of a DCD file by its records, each between two copies of its length."""
    found, start = [], 0
    while start < len(content):
        length = int.from_bytes(content[start : start + 4], "little")
        found.append(content[start + 4 : start + 4 + length])
        assert content[start + 4 + length : start + 8 + length] == content[start : start + 4]
        start += 8 + length
    assert found[0][:4] == b"CORD"
    each = 3 + periodic
    rows = [np.frombuffer(row, np.float32) for i, row in enumerate(found[3:]) if not periodic or i % each]
    return [np.stack(rows[i : i + 3]) for i in range(0, len(rows), 3)]


ARGON = {
    "units": "metal",
    "species": {"Ar": {"mass": 39.948}},
}
POTENTIAL = {"type": "LennardJones", "epsilon": 0.0104, "sigma": 3.4, "cutoff": 8.5}


def argon_file(path: Path) -> Frame:
    """A file of 64 atoms, and its frame in Å and Å/ps."""
    places = (np.indices((4, 4, 4)).reshape(3, -1).T + 0.25) * 3.75
    generator = np.random.default_rng(2)
    frame = Frame(
        np.round(places + generator.uniform(-0.2, 0.2, places.shape), 2),
        np.zeros(64, int),
        ("Ar",),
        Cell((15.0, 15.0, 15.0)),
        np.round(generator.standard_normal(places.shape), 2),
    )
    written_by_the_library(path, frame, 0.1)
    return frame


@pytest.mark.parametrize("suffix", ["pdb", "gro"])
@pytest.mark.parametrize("units", ["metal", "real", "si"])
def test_files_with_units_of_their_own_are_converted(tmp_path, suffix, units):
    path = tmp_path / f"a.{suffix}"
    frame = argon_file(path)
    length, time = {"metal": (1.0, 1.0), "real": (1.0, 1e3), "si": (1e-10, 1e-12)}[units]
    mass = 39.948 * (1e-3 / 6.02214076e23 if units == "si" else 1)
    experiment = fluid(
        system={"units": units, "species": {"Ar": {"mass": mass}}, "file": str(path)},
        potential=POTENTIAL | {"sigma": 3.4 * length, "cutoff": 7.0 * length},
        solver={"type": "BAOAB", "temperature": 90.0, "friction": 1 / time},
        time={"dt": 0.002 * time, "steps": 0},
    )
    system = load_particles(experiment).system
    np.testing.assert_allclose(system.particles.position.rows(), frame.positions * length, rtol=1e-12)
    np.testing.assert_allclose(system.cell.sides, np.array([15.0] * 3) * length, rtol=1e-12)
    momentum = np.asarray(system.particles.momentum.rows())
    expected = frame.velocities * length / time * mass if suffix == "gro" else 0 * momentum
    np.testing.assert_allclose(momentum, expected, rtol=1e-9, atol=0)


def test_reduced_units_have_no_size_for_a_file_in_nanometres(tmp_path):
    argon_file(tmp_path / "a.gro")
    experiment = fluid(system={"file": str(tmp_path / "a.gro")})
    with pytest.raises(
        InputError, match=r"system.file: .gro files have lengths in nm, .* take units: metal or real"
    ):
        load_particles(experiment)


@pytest.mark.parametrize("suffix", ["pdb", "gro", "dcd"])
def test_without_the_library_the_remedy_is_named(tmp_path, monkeypatch, suffix):
    path = tmp_path / f"a.{suffix}"
    experiment = fluid(save__trajectory={"file": str(path), "every": 10})
    if suffix != "dcd":
        argon_file(path)
        experiment = fluid(system=ARGON | {"file": str(path)}, potential=POTENTIAL)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    before = set(tmp_path.iterdir())
    with pytest.raises(
        InputError, match=r"MDAnalysis, which is not installed: pip install 'simkit\[files\]'"
    ):
        simkit.run(experiment)
    assert set(tmp_path.iterdir()) == before


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines()


BAD = {
    "gro cut off": (
        "gro",
        lambda lines: lines[:30],
        ":2: 64 particles are announced, and there are lines for 27",
    ),
    "gro with more": ("gro", lambda lines: [*lines[:5], *lines[4:]], "there are lines for 65 and a box"),
    "gro without a number": (
        "gro",
        lambda lines: [lines[0], "many", *lines[2:]],
        ":2: expected the number of",
    ),
    "gro nan": (
        "gro",
        lambda lines: [*lines[:2], lines[2][:20] + "     nan" + lines[2][28:], *lines[3:]],
        "the position of the particle on line 3 of ",
    ),
    "gro no number": (
        "gro",
        lambda lines: [*lines[:3], lines[3][:20] + "    zero" + lines[3][28:], *lines[4:]],
        "cannot be read by MDAnalysis: could not convert string to float",
    ),
    "pdb cut off": ("pdb", lambda lines: lines[:40], ":40: ends without END or ENDMDL: was it cut off?"),
    "pdb cut in a line": (
        "pdb",
        lambda lines: [*lines[:40], lines[40][:45], "END"],
        "cannot be read by MDAnalysis",
    ),
    "pdb nan": (
        "pdb",
        lambda lines: [
            row.replace(row[30:38], "     nan") if row[6:11].strip() == "3" else row for row in lines
        ],
        "the position of the particle on line ",
    ),
    "pdb without atoms": (
        "pdb",
        lambda lines: [row for row in lines if row[:4] != "ATOM"],
        "has no record ATOM",
    ),
    "pdb outside": (
        "pdb",
        lambda lines: [row.replace("CRYST1   15.000", "CRYST1   12.000") for row in lines],
        "is outside the box with the sides 12, 15, 15, like 1",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_in_a_file_is_named_and_nothing_is_written(tmp_path, monkeypatch, case):
    suffix, change, message = BAD[case]
    path = tmp_path / f"a.{suffix}"
    argon_file(path)
    path.write_text("\n".join(change(lines_of(path))) + "\n")
    experiment = fluid(
        system=ARGON | {"file": str(path)},
        potential=POTENTIAL,
        output=str(tmp_path / "a.nc"),
        save__trajectory={"file": str(tmp_path / "b.xyz"), "every": 10},
    )
    with pytest.raises(InputError) as caught:
        simkit.run(experiment)
    assert "system.file: " in str(caught.value)
    assert message in str(caught.value)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_an_unknown_suffix_is_refused_with_those_that_there_are(tmp_path):
    with pytest.raises(InputError, match=r"must end in .xyz, .data, .pdb, .gro, .zarr or .nc, got 'a.cif'"):
        load_particles(fluid(system={"file": "a.cif"}))
    with pytest.raises(InputError, match=r"must end in .xyz, .dcd or .zarr, got 'a.trr'"):
        load_particles(fluid(save__trajectory={"file": "a.trr", "every": 10}))
