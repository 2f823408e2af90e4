"""An experiment: all sections together."""

from typing import Annotated, Any, Literal

from pydantic import Field, PrivateAttr

from simkit.config.documents import Document
from simkit.config.settings.cluster import Cluster
from simkit.config.settings.initial import Initial
from simkit.config.settings.models import Model
from simkit.config.settings.observe import DerivedSettings, ObservableSettings
from simkit.config.settings.plot import Plot
from simkit.config.settings.run import Ensemble, Save, Solver, Time
from simkit.config.settings.schedule import CurveSettings, EventSettings
from simkit.config.settings.sensitivity import Sensitivity
from simkit.config.settings.sweep import Sweep
from simkit.config.settings.uncertainty import Uncertainty
from simkit.config.settings.values import (
    PRECISION,
    DatasetName,
    NumberOrExpression,
    Section,
    Shorthand,
    VariantSettings,
)


class Experiment(Section):
    """Everything about a run. `load` makes one from a file; `resolved` gives it back with all defaults."""

    constants: dict[str, NumberOrExpression] = Field(
        default_factory=dict,
        description="Names for use anywhere below: numbers, or expressions of earlier constants. For "
        "`simkit uncertainty` also distributions such as {normal: [0.05, 0.01]}.",
        examples=[{"r": 0.05, "K": 100.0}],
    )
    curves: dict[str, CurveSettings] = Field(
        default_factory=dict,
        description="Numbers that change with time, by name: for parameters and equations of the model, for "
        "observables and events.",
        examples=[{"r": {"times": [0, 1, 2], "values": [0.01, 0.02, 0.025]}}],
    )
    model: Model = Field(
        description="What is simulated: a model by name {type: GBM, mu: …}, equations under sde or ode, "
        "energies under hamiltonian, or reactions.",
        examples=[{"type": "GBM", "mu": "r", "sigma": 0.2}],
    )
    initial: dict[str, Initial] = Field(
        description="The value of each state variable at t0: a number, an expression of constants, a "
        "distribution such as {normal: [100, 1]}, or {file: start.csv}. The key `file` at this "
        "level names a file for all variables that are not given. For variables x1, x2, … the "
        "key `x` has one value for all, or a list.",
        examples=[{"S": 100.0}],
    )
    solver: Annotated[Solver, Shorthand("type")] | None = Field(
        None,
        description="Name of the solver, or {type: name, option: …}. The default is EulerMaruyama for an Itô "
        "equation (Milstein if steps are adaptive), EulerHeun for a Stratonovich one, BAOAB for underdamped "
        "Langevin dynamics and Tsit5 for an ordinary one.",
        examples=["EulerMaruyama"],
    )
    time: Time = Field(
        description="The grid of times, such as {t1: 1.0, steps: 252}. With {t1: 1.0, rtol: 1e-6, atol: "
        "1e-9} each path chooses its own steps.",
        examples=[{"t1": 1.0, "steps": 252}],
    )
    events: dict[str, EventSettings] = Field(
        default_factory=dict,
        description="Changes of the state by name: at given times, such as doses, or when a condition "
        "becomes true. Those at the same time happen in the order of the file; a saved row shows the state "
        "after them.",
        examples=[{"dose": {"at": [0, 24, 48], "set": {"A": "A + 100"}}}],
    )
    ensemble: Ensemble = Field(
        default_factory=lambda: Ensemble(),
        description="The number of paths, and how they are run.",
        examples=[{"paths": 100000, "seed": 42}],
    )
    cluster: Annotated[Cluster, Shorthand("address")] | None = Field(
        None,
        description="The cluster of Dask whose workers simulate the paths for `simkit run` and `simkit "
        "sweep`, such as tcp://10.0.0.7:8786. Results do not depend on it.",
        examples=["local:4"],
    )
    precision: Annotated[Literal["float32", "float64"], PRECISION] = Field(
        "float64", description="Arithmetic of the simulation. Statistics are always in float64."
    )
    save: Save = Field(
        default_factory=lambda: Save(), description="What is saved.", examples=[{"points": 12}]
    )
    observe: dict[str, Annotated[ObservableSettings, Shorthand("value")]] = Field(
        default_factory=dict,
        description="Observables by name: an expression, or {value: …} with further keys.",
        examples=[{"call": "exp(-r*t) * maximum(S - K, 0)"}],
    )
    derived: dict[str, Annotated[DerivedSettings, Shorthand("value")]] = Field(
        default_factory=dict,
        description="Quantities derived from means, such as ratios, by name: an expression, or {value: …} "
        "with further keys. For `simkit run` only.",
        examples=[{"vol": "implied_volatility(price=call, S=100, K=K, r=r, T=1)"}],
    )
    plot: Plot = Field(
        default_factory=lambda: Plot(),
        description="What the picture shows.",
        examples=[{"portrait": ["x", "y"]}],
    )
    sensitivity: Sensitivity | None = Field(
        None,
        description="What `simkit sensitivity` differentiates; `simkit run` ignores it.",
        examples=[{"wrt": ["sigma", "r", "S"]}],
    )
    uncertainty: Uncertainty | None = Field(
        None,
        description="What `simkit uncertainty` does with parameters that are distributions; `simkit run` "
        "ignores it.",
        examples=[{"method": "sobol", "points": 1024}],
    )
    output: DatasetName | None = Field(
        None,
        description="The dataset to write, .zarr or .nc, or .csv for a table of the statistics alone; a "
        "picture is written in the same folder. Without it only the table is printed. `simkit sensitivity` "
        "and `simkit steady` write to --out alone.",
        examples=["gbm.zarr"],
    )

    sweep: Sweep | None = Field(
        None,
        description="What `simkit sweep` varies; `simkit run` ignores it.",
        examples=[{"over": {"model.sigma": "0.1:0.5:9"}}],
    )
    variants: VariantSettings | None = Field(
        None,
        description="Several experiments in one file, by name: each is the file with these settings "
        "changed. Keys are dotted as in --set, or sections; null removes a key.",
        examples=[{"low": {"model.sigma": 0.1}, "high": {"model.sigma": 0.4}}],
    )

    _document: Document | None = PrivateAttr(None)

    @property
    def document(self) -> Document:
        """Where the keys stand in the file, for messages."""
        return self._document or Document({})

    def resolved(self) -> dict[str, Any]:
        """The experiment as plain data, every default filled in. Loading it gives the same simulation."""
        return self.model_dump(mode="json", exclude_none=True)
