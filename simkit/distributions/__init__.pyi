from .distribution import LogNormal as LogNormal
from .distribution import Normal as Normal
from .distribution import Triangular as Triangular
from .distribution import TruncatedNormal as TruncatedNormal
from .distribution import Uniform as Uniform
