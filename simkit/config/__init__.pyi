from .documents import read_document as read_document
from .settings import Experiment as Experiment
from .settings import ParticleExperiment as ParticleExperiment
from .settings import Solver as Solver
