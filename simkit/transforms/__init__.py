"""Transforms of functions, checked before they run: compose, differentiate, compile, check gradients."""

from simkit.transforms.compiled import Cost as Cost
from simkit.transforms.compiled import Program as Program
from simkit.transforms.derivative import Choice as Choice
from simkit.transforms.derivative import Derivative as Derivative
from simkit.transforms.derivative import derivative as derivative
from simkit.transforms.derivative import jacobian as jacobian
from simkit.transforms.gradient_check import GradientReport as GradientReport
from simkit.transforms.gradient_check import check_gradient as check_gradient
from simkit.transforms.holomorphic import holomorphic as holomorphic
from simkit.transforms.pipeline import Pipeline as Pipeline
from simkit.transforms.pipeline import pipeline as pipeline
from simkit.transforms.records import Checkpoint as Checkpoint
from simkit.transforms.records import Grad as Grad
from simkit.transforms.records import Hessian as Hessian
from simkit.transforms.records import Jacobian as Jacobian
from simkit.transforms.records import Jit as Jit
from simkit.transforms.records import Pmap as Pmap
from simkit.transforms.records import Shard as Shard
from simkit.transforms.records import Vmap as Vmap
from simkit.transforms.second_order import hessian as hessian
from simkit.transforms.second_order import hessian_vector_product as hessian_vector_product
