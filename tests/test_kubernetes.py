"""The manifests of examples/kubernetes: by the schemas of Kubernetes, and by what the operator of Dask makes of them.

`make kubernetes` installs both. No cluster is started: the commands of the pods run on this machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from machines import end_daemon, wait_until

from vtare.fleet.cluster import DASK, QUIET, Cluster

pytestmark = pytest.mark.e2e

#: In the environment of the operator: what it makes of the manifests, and what the schemas refuse.
_OPERATOR = """
import json, sys
from pathlib import Path
import dask_kubernetes, jsonschema, kubernetes_validate, yaml
from dask_kubernetes.operator.controller import controller
from dask_kubernetes.operator.validation import validate_cluster_name

def closed(schema):
    "The schema of a custom resource, as a server reads it: what it does not name is refused."
    if isinstance(schema, dict):
        schema = {key: closed(value) for key, value in schema.items()}
        if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
            schema.setdefault("additionalProperties", False)
    return schema

def refused(document, schema=None):
    try:
        if schema is None:
            kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)
        else:
            jsonschema.Draft202012Validator(schema).validate(document)
    except jsonschema.ValidationError as error:
        return [f"{document['kind']}: {'.'.join(map(str, error.absolute_path))}: {error.message:.200}"]
    return []

cluster, policy = yaml.safe_load_all(Path(sys.argv[1]).read_text())
(crd,) = Path(dask_kubernetes.__file__).parent.glob("operator/deployment/helm/*/crds/daskcluster.yaml")
(version,) = yaml.safe_load(crd.read_text())["spec"]["versions"]
schema = closed(version["schema"]["openAPIV3Schema"])
schema["properties"].update(metadata={}, apiVersion={"const": "kubernetes.dask.org/v1"}, kind={"const": "DaskCluster"})
name, spec = cluster["metadata"]["name"], cluster["spec"]
validate_cluster_name(name)
scheduler = controller.build_scheduler_deployment_spec(name, spec["scheduler"]["spec"], {}, {})
service = controller.build_scheduler_service_spec(name, spec["scheduler"]["service"], {}, {})
worker = controller.build_worker_deployment_spec(f"{name}-default", "there", name, "0", spec["worker"]["spec"], {}, {})
wrong = json.loads(json.dumps(cluster))
wrong["spec"]["worker"]["spec"]["containers"][0]["arg"] = []
objects = (scheduler, service, worker, policy)
print(json.dumps({
    "refused": refused(cluster, schema) + [line for one in objects for line in refused(one)],
    "refused_wrong": refused(wrong, schema),
    "scheduler": scheduler, "service": service, "worker": worker, "policy": policy,
}))
"""


@pytest.fixture(scope="module")
def made(root: Path) -> dict[str, Any]:
    python = Path(sys.prefix) / "kubernetes" / "bin" / "python"
    if not python.is_file():
        pytest.skip("there are no schemas of Kubernetes: make kubernetes")
    done = subprocess.run(
        [python, "-c", _OPERATOR, root / "examples" / "kubernetes" / "fleet.yaml"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(json.loads(done.stdout))


def container(deployment: dict[str, Any]) -> dict[str, Any]:
    (found,) = deployment["spec"]["template"]["spec"]["containers"]
    return dict(found)


def test_the_schemas_accept_the_manifests_and_what_the_operator_makes_of_them(made: dict[str, Any]) -> None:
    assert made["refused"] == []
    (line,) = made["refused_wrong"]
    assert "'arg' was unexpected" in line


def test_the_scheduler_is_found_and_reached_by_its_pods_alone_and_each_node_has_one_worker(
    made: dict[str, Any],
) -> None:
    labels = {name: made[name]["spec"]["template"]["metadata"]["labels"] for name in ("scheduler", "worker")}
    assert made["service"]["spec"]["selector"].items() <= labels["scheduler"].items()
    chosen = made["policy"]["spec"]["podSelector"]["matchLabels"]
    assert all(chosen.items() <= found.items() for found in labels.values())
    assert made["policy"]["spec"]["ingress"][0]["from"][0] == {"podSelector": {"matchLabels": chosen}}
    (apart,) = made["worker"]["spec"]["template"]["spec"]["affinity"]["podAntiAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    assert apart["labelSelector"]["matchLabels"].items() <= labels["worker"].items()
    assert not apart["labelSelector"]["matchLabels"].items() <= labels["scheduler"].items()


def test_the_lab_finds_the_nodes_by_the_commands_of_the_pods(made: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="the Python package 'distributed' is missing")
    environment = {one["name"]: one["value"] for one in container(made["worker"])["env"] if "value" in one}
    assert environment.items() >= QUIET.items()
    assert environment["DASK_SCHEDULER_ADDRESS"] == "tcp://vtare-scheduler.there.svc.cluster.local:8786"
    place = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    file = tmp_path / "scheduler.json"
    daemons = []
    try:
        words = [*container(made["scheduler"])["args"], "--host", "127.0.0.1", "--port", "0"]
        daemons.append(_started([*words, "--scheduler-file", str(file)], place, tmp_path / "scheduler"))
        wait_until("the scheduler listens", lambda: file.is_file() and file.read_text().endswith("}"))
        address = json.loads(file.read_text())["address"]
        for node in ("node-1", "node-2.lab"):
            given = {**environment, **place, "DASK_SCHEDULER_ADDRESS": address, "NODE_NAME": node}
            given["DASK_WORKER_NAME"] = node
            # Kubernetes puts the values of variables into arguments.
            args = [_expanded(word, given) for word in container(made["worker"])["args"]]
            daemons.append(_started([*args, "--local-directory", str(tmp_path)], given, tmp_path / node))
        logs = [tmp_path / "node-1", tmp_path / "node-2.lab"]
        wait_until("both workers are there", lambda: all(b"Registered to" in log.read_bytes() for log in logs))
        cluster = Cluster(address.replace("tcp://", DASK))
        try:
            assert [host.name for host in cluster.hosts] == ["node-1", "node-2.lab"]
        finally:
            cluster.close(quickly=True)
    finally:
        for daemon in daemons:
            end_daemon(daemon)


def _expanded(word: str, environment: dict[str, str]) -> str:
    for name, value in environment.items():
        word = word.replace(f"$({name})", value)
    return word


def _started(words: list[str], environment: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as file:
        return subprocess.Popen(
            words, stdout=file, stderr=file, stdin=subprocess.DEVNULL, env={**os.environ, **environment}
        )
