"""A small experiment in a folder of its own, and its result without a run."""

from pathlib import Path

import pytest
import xarray as xr
import yaml
from command import EXPERIMENT

import simkit
from simkit.engines.paths import PathEngine


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """The current directory, with a small experiment in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yaml").write_text(EXPERIMENT)
    return tmp_path


@pytest.fixture(scope="module")
def dataset() -> xr.Dataset:
    return simkit.run({key: value for key, value in yaml.safe_load(EXPERIMENT).items() if key != "output"})


@pytest.fixture
def finished(monkeypatch, dataset):
    """Every run is over at once, with the result of the small experiment."""
    monkeypatch.setattr(PathEngine, "run", lambda *arguments: dataset)
