"""Models: each a small class with its equation, units and reference. `MODELS` holds them by class name."""

import importlib

from simkit_solvers import AbstractODE

from simkit_physics.biology.fitzhugh_nagumo import FitzHughNagumo as FitzHughNagumo
from simkit_physics.biology.hodgkin_huxley import HodgkinHuxley as HodgkinHuxley
from simkit_physics.chemistry.brusselator import Brusselator as Brusselator
from simkit_physics.chemistry.hires import HIRES as HIRES
from simkit_physics.chemistry.oregonator import Oregonator as Oregonator
from simkit_physics.chemistry.robertson import Robertson as Robertson
from simkit_physics.elsewhere import model_elsewhere as model_elsewhere
from simkit_physics.finance.bates import Bates as Bates
from simkit_physics.finance.cev import CEV as CEV
from simkit_physics.finance.cir import CIR as CIR
from simkit_physics.finance.gbm import GBM as GBM
from simkit_physics.finance.heston import Heston as Heston
from simkit_physics.finance.hull_white import HullWhite as HullWhite
from simkit_physics.finance.kou import Kou as Kou
from simkit_physics.finance.merton import Merton as Merton
from simkit_physics.finance.multi_asset_gbm import MultiAssetGBM as MultiAssetGBM
from simkit_physics.finance.sabr import SABR as SABR
from simkit_physics.finance.vasicek import Vasicek as Vasicek
from simkit_physics.kinetics.birth_death import BirthDeath as BirthDeath
from simkit_physics.kinetics.epidemics import SEIR as SEIR
from simkit_physics.kinetics.epidemics import SIR as SIR
from simkit_physics.kinetics.immigration_death import ImmigrationDeath as ImmigrationDeath
from simkit_physics.kinetics.lotka_volterra import LotkaVolterra as LotkaVolterra
from simkit_physics.kinetics.michaelis_menten import MichaelisMenten as MichaelisMenten
from simkit_physics.kinetics.repressilator import Repressilator as Repressilator
from simkit_physics.kinetics.schlogl import Schlogl as Schlogl
from simkit_physics.mechanics.arenstorf import Arenstorf as Arenstorf
from simkit_physics.mechanics.damped_oscillator import DampedOscillator as DampedOscillator
from simkit_physics.mechanics.double_pendulum import DoublePendulum as DoublePendulum
from simkit_physics.mechanics.figure_eight import FigureEight as FigureEight
from simkit_physics.mechanics.harmonic_oscillator import HarmonicOscillator as HarmonicOscillator
from simkit_physics.mechanics.henon_heiles import HenonHeiles as HenonHeiles
from simkit_physics.mechanics.kepler import Kepler as Kepler
from simkit_physics.mechanics.n_body import NBody as NBody
from simkit_physics.mechanics.pendulum import Pendulum as Pendulum
from simkit_physics.nonlinear.duffing import Duffing as Duffing
from simkit_physics.nonlinear.kuramoto import Kuramoto as Kuramoto
from simkit_physics.nonlinear.lorenz63 import Lorenz63 as Lorenz63
from simkit_physics.nonlinear.lorenz96 import Lorenz96 as Lorenz96
from simkit_physics.nonlinear.van_der_pol import VanDerPol as VanDerPol
from simkit_physics.pairs import PairInputs as PairInputs
from simkit_physics.pairs import PairSum as PairSum
from simkit_physics.pairs import pair_energy as pair_energy
from simkit_physics.pairs import pair_forces as pair_forces
from simkit_physics.particles.all_pairs import AllPairs as AllPairs
from simkit_physics.particles.boxes import AbstractBox as AbstractBox
from simkit_physics.particles.boxes import AbstractPeriodicBox as AbstractPeriodicBox
from simkit_physics.particles.boxes import FreeBox as FreeBox
from simkit_physics.particles.boxes import OrthorhombicBox as OrthorhombicBox
from simkit_physics.particles.boxes import TriclinicBox as TriclinicBox
from simkit_physics.particles.choice import complete_list as complete_list
from simkit_physics.particles.choice import enlarged as enlarged
from simkit_physics.particles.choice import forces_for as forces_for
from simkit_physics.particles.clusters import ClusterGrid as ClusterGrid
from simkit_physics.particles.configurations import lattice as lattice
from simkit_physics.particles.configurations import particles_at_rest as particles_at_rest
from simkit_physics.particles.configurations import with_species as with_species
from simkit_physics.particles.configurations import with_velocities as with_velocities
from simkit_physics.particles.displacement import infinite_box_diffusion as infinite_box_diffusion
from simkit_physics.particles.displacement import peculiar_velocities as peculiar_velocities
from simkit_physics.particles.displacement import unwrapped_paths as unwrapped_paths
from simkit_physics.particles.fluctuations import adiabatic_compressibility as adiabatic_compressibility
from simkit_physics.particles.fluctuations import (
    constant_energy_heat_capacity as constant_energy_heat_capacity,
)
from simkit_physics.particles.fluctuations import (
    constant_volume_heat_capacity as constant_volume_heat_capacity,
)
from simkit_physics.particles.fluctuations import hypervirial as hypervirial
from simkit_physics.particles.fluctuations import isothermal_compressibility as isothermal_compressibility
from simkit_physics.particles.listed_forces import ListedForces as ListedForces
from simkit_physics.particles.near_pairs import block_grid as block_grid
from simkit_physics.particles.parameter_changes import ParameterChanges as ParameterChanges
from simkit_physics.particles.potentials import POTENTIALS as POTENTIALS
from simkit_physics.particles.potentials import TRUNCATIONS as TRUNCATIONS
from simkit_physics.particles.potentials import WCA as WCA
from simkit_physics.particles.potentials import AbstractPotential as AbstractPotential
from simkit_physics.particles.potentials import BornMayer as BornMayer
from simkit_physics.particles.potentials import Buckingham as Buckingham
from simkit_physics.particles.potentials import Coulomb as Coulomb
from simkit_physics.particles.potentials import LennardJones as LennardJones
from simkit_physics.particles.potentials import Mie as Mie
from simkit_physics.particles.potentials import Morse as Morse
from simkit_physics.particles.potentials import SoftSphere as SoftSphere
from simkit_physics.particles.potentials import Yukawa as Yukawa
from simkit_physics.particles.potentials.function_of_distance import FunctionOfDistance as FunctionOfDistance
from simkit_physics.particles.potentials.mixing import arithmetic_means as arithmetic_means
from simkit_physics.particles.potentials.mixing import geometric_means as geometric_means
from simkit_physics.particles.potentials.mixing import mixed_parameters as mixed_parameters
from simkit_physics.particles.potentials.mixing import products_of_pairs as products_of_pairs
from simkit_physics.particles.potentials.mixing import table_of_pairs as table_of_pairs
from simkit_physics.particles.potentials.tabulated import Tabulated as Tabulated
from simkit_physics.particles.potentials.truncation import AbstractTruncation as AbstractTruncation
from simkit_physics.particles.potentials.truncation import Plain as Plain
from simkit_physics.particles.potentials.truncation import Shifted as Shifted
from simkit_physics.particles.potentials.truncation import ShiftedForce as ShiftedForce
from simkit_physics.particles.potentials.truncation import Switched as Switched
from simkit_physics.particles.potentials.truncation import TailCorrection as TailCorrection
from simkit_physics.particles.radial_distribution import check_radial_range as check_radial_range
from simkit_physics.particles.radial_distribution import pair_counts as pair_counts
from simkit_physics.particles.radial_distribution import pair_normalisation as pair_normalisation
from simkit_physics.particles.radial_distribution import species_pairs as species_pairs
from simkit_physics.particles.random_positions import random_positions as random_positions
from simkit_physics.particles.structure_factor import WaveVectors as WaveVectors
from simkit_physics.particles.structure_factor import density_squares as density_squares
from simkit_physics.particles.structure_factor import wave_vectors as wave_vectors
from simkit_physics.particles.thermodynamics import box_volume as box_volume
from simkit_physics.particles.thermodynamics import pressure as pressure
from simkit_physics.particles.thermodynamics import pressure_tensor as pressure_tensor
from simkit_physics.particles.thermodynamics import temperature as temperature
from simkit_physics.particles.units import UNITS as UNITS
from simkit_physics.particles.units import UnitSystem as UnitSystem
from simkit_physics.particles.units import convert_units as convert_units
from simkit_physics.particles.units import reduced_units as reduced_units
from simkit_physics.sized import is_sized as is_sized
from simkit_physics.statistical.double_well import DoubleWell as DoubleWell
from simkit_physics.statistical.double_well import DoubleWellLangevin as DoubleWellLangevin
from simkit_physics.statistical.ornstein_uhlenbeck import OrnsteinUhlenbeck as OrnsteinUhlenbeck
from simkit_physics.statistical.stochastic_resonance import StochasticResonance as StochasticResonance

# Of the classes imported above.
MODELS: dict[str, type[AbstractODE]] = {
    name: value
    for name, value in list(globals().items())
    if isinstance(value, type) and issubclass(value, AbstractODE) and value is not AbstractODE
}


def models_by_field() -> dict[str, dict[str, type[AbstractODE]]]:
    """The models by the field that their folder is for, as its docstring names it; `your own` for others.

    >>> from simkit_physics import models_by_field
    >>> sorted(models_by_field()["finance"])[:3]
    ['Bates', 'CEV', 'CIR']
    """
    fields: dict[str, dict[str, type[AbstractODE]]] = {}
    for name, model in MODELS.items():
        package, _, rest = model.__module__.partition(".")
        folder = rest.partition(".")[0]
        inside = package == __name__ and rest != folder
        text = importlib.import_module(f"{__name__}.{folder}").__doc__ if inside else "your own"
        fields.setdefault((text or folder).partition(":")[0], {})[name] = model
    return fields
