"""Files of particles give back what was written, and say where something is wrong."""

import numpy as np
import pytest

from simkit import InputError
from simkit.md.files.frame import Cell, Frame
from simkit.md.files.lammps_data import lammps_data, read_lammps_data
from simkit.md.files.xyz import read_xyz, write_frame

generator = np.random.default_rng(3)
FRAME = Frame(
    positions=generator.uniform(0, 3, (5, 3)),
    species=np.array([0, 1, 0, 1, 1]),
    names=("Ar", "Kr"),
    cell=Cell((3.0, 4.0, 5.0), (0.1, 0.2, 0.3)),
    velocities=generator.standard_normal((5, 3)),
    masses={"Ar": 39.948, "Kr": 83.798},
)


def equal(a: Frame, b: Frame) -> bool:
    arrays = ((a.positions, b.positions), (a.velocities, b.velocities), (a.species, b.species))
    return a.cell == b.cell and all(np.array_equal(x, y) for x, y in arrays)


def test_xyz_gives_back_the_bits_of_the_last_frame(tmp_path):
    path = tmp_path / "a.xyz"
    earlier = Frame(FRAME.positions + 1, FRAME.species, FRAME.names, FRAME.cell, FRAME.velocities)
    with path.open("w") as file:
        write_frame(file, earlier, step=0)
        write_frame(file, FRAME, step=10, time=0.5)
    read = read_xyz(path)
    assert equal(read, FRAME)
    assert read.names == ("Ar", "Kr")


def test_xyz_without_a_lattice_is_in_free_space_and_plain_columns_suffice(tmp_path):
    path = tmp_path / "a.xyz"
    path.write_text("2\na comment\nC 0 0 0\nO 1.5 0 -2e-1\n")
    read = read_xyz(path)
    assert (read.cell, read.velocities, read.names) == (None, None, ("C", "O"))
    assert read.positions.tolist() == [[0, 0, 0], [1.5, 0, -0.2]]


def test_lammps_data_gives_back_the_bits_from_the_corner_of_its_box(tmp_path):
    path = tmp_path / "a.data"
    path.write_text(lammps_data(FRAME))
    read = read_lammps_data(path)
    assert equal(read, FRAME)
    assert (read.names, read.masses) == (FRAME.names, FRAME.masses)
    path.write_text(path.read_text().replace("# Kr", ""))
    assert read_lammps_data(path).masses == {"1": 39.948, "2": 83.798}
    moved = path.read_text().replace("0.0 3.0 xlo xhi", "-1.0 2.0 xlo xhi")
    path.write_text(moved)
    np.testing.assert_array_equal(read_lammps_data(path).positions[:, 0], FRAME.positions[:, 0] + 1)


LAMMPS = """LAMMPS data file

2 atoms
1 atom types
0 4 xlo xhi
0 4 ylo yhi
0 4 zlo zhi

Atoms # atomic

2 1 1.0 1.0 1.0 0 0 0  # the second
1 1 3.0 3.0 3.0 1 0 0
"""


def test_lammps_data_is_read_in_the_order_of_the_numbers_with_images_and_comments(tmp_path):
    path = tmp_path / "a.data"
    path.write_text(LAMMPS + "\nVelocities\n\n2 0.5 0.0 0.0\n1 0.0 0.0 -2.0\n")
    frame = read_lammps_data(path)
    assert frame.positions.tolist() == [[3, 3, 3], [1, 1, 1]]
    assert frame.velocities is not None
    assert frame.velocities.tolist() == [[0, 0, -2], [0.5, 0, 0]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2\n\nC 0 0 0\n", ":2: the file ends before its 2 particles, after 1"),
        ("1\n\nC 0 zero 0\n", ":3: pos: 'zero' is not a finite number"),
        ("1\n\nC 0 nan 0\n", ":3: pos: 'nan' is not a finite number"),
        ("one\n\nC 0 0 0\n", ":1: expected the number of particles, got 'one'"),
        ("1\nProperties=species:S:1:pos:R:3:velo:R:3\nC 0 0 0\n", ":3: a particle has 4 of 7 columns"),
        (
            "1\nProperties=species:S:1:pos:R:3:momenta:R:3\nC 0 0 0 1 0 0\n",
            ":3: momenta are not read, as their units are not known; give velo:R:3",
        ),
        ('1\nLattice="0 1 0 1 0 0 0 0 1"\nC 0 0 0\n', "rotate the box"),
        ('1\nLattice="1 0 0 0 1 0 0 0 1" pbc="T T F"\nC 0 0 0\n', "along all three axes, or along none"),
        ("", "a.xyz: the file has no frame, which begins with the number of its particles"),
    ],
)
def test_what_is_wrong_in_an_xyz_file_is_named_with_its_line(tmp_path, text, message):
    path = tmp_path / "a.xyz"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_xyz(path)
    assert str(path) in str(caught.value)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("# atomic", "# full"), "atom style 'full'"),
        (("2 atoms", "3 atoms"), "the file ends before its 3 lines of Atoms"),
        (("0 4 zlo zhi", "4 0 zlo zhi"), "positive sides"),
        (("0 4 zlo zhi\n", ""), "zlo zhi"),
        (("2 1 1.0", "1 1 1.0"), "two have the same number"),
        (("Atoms", "Bonds"), "'Bonds': simkit reads the atom style `atomic`"),
    ],
)
def test_what_is_wrong_in_a_lammps_file_is_named(tmp_path, change, message):
    path = tmp_path / "a.data"
    path.write_text(LAMMPS.replace(*change))
    with pytest.raises(InputError) as caught:
        read_lammps_data(path)
    assert str(path) in str(caught.value)
    assert message in str(caught.value)
