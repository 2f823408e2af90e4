"""The scripts of the guide to clusters, as far as they go without Slurm and Kubernetes."""

import re

import pytest
import yaml
from checkout import ROOT

import simkit
from simkit.config.settings import Cluster


def run_script(word: str, monkeypatch: pytest.MonkeyPatch) -> dict:
    """The names that the script with a word defines; its run is none. A cluster in it is closed."""
    guide = (ROOT / "docs/guides/clusters.md").read_text()
    (script,) = [each for each in re.findall(r"```text\n(.*?)```", guide, re.DOTALL) if f" {word}" in each]
    monkeypatch.setattr(simkit, "run", lambda file, overrides, out: Cluster(**overrides["cluster"]))
    names: dict = {}
    exec(script, names)
    names["cluster"].close()
    return names


def test_the_job_of_slurm_has_one_worker_with_all_cores(monkeypatch):
    """A day is waited for it: a job that waits in the queue is no cluster that does not answer."""
    jobqueue = pytest.importorskip("dask_jobqueue")
    monkeypatch.setattr(jobqueue.SLURMCluster, "scale", lambda cluster, jobs: None)
    names = run_script("SLURMCluster", monkeypatch)
    script = names["cluster"].job_script()
    for line in ("#SBATCH -n 1\n", "#SBATCH --cpus-per-task=32\n", "#SBATCH -t 02:00:00\n"):
        assert line in script
    assert f"dask_worker {names['result'].address} --name dummy-name --nthreads 32 " in script
    assert names["result"].timeout == 86400


def test_the_specification_for_kubernetes_is_one_of_the_operator(monkeypatch):
    operator = pytest.importorskip("dask_kubernetes.operator")
    validation = pytest.importorskip("jsonschema")

    class Made:
        scheduler_address = "tcp://localhost:8786"

        def __init__(self, custom_cluster_spec: dict):
            pass

        def close(self) -> None:
            pass

    monkeypatch.setattr(operator, "KubeCluster", Made)
    spec = yaml.safe_load(yaml.safe_dump(run_script("KubeCluster", monkeypatch)["spec"]))
    parts = {name: spec["spec"][name]["spec"]["containers"][0] for name in ("scheduler", "worker")}
    assert [part["args"][:2] for part in parts.values()] == [["dask", "scheduler"], ["dask", "worker"]]
    assert parts["worker"]["resources"]["limits"] == {"cpu": "32", "memory": "64Gi"}
    folder = next(iter(operator.__path__)) + "/deployment/helm/dask-kubernetes-operator/crds"
    with open(f"{folder}/daskcluster.yaml") as file:
        (version,) = yaml.safe_load(file)["spec"]["versions"]
    validation.validate(spec, version["schema"]["openAPIV3Schema"])
