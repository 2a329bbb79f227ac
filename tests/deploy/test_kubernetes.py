"""The manifests fit the published schemas, and hold what a team relies on: probes, graceful stops, no rights."""

from __future__ import annotations

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from tests.deploy.files import KUBERNETES, Document, manifest, manifests, pods, wrong_command, wrong_settings
from tests.deploy.keda import SCHEMAS as OF_KEDA

OLDEST = "1.30"  # The first in which a pod may sleep before it stops.


def identity(value: tuple[str, Document] | str) -> str:
    return value if isinstance(value, str) else f"{value[1]['kind']}-{value[1]['metadata']['name']}"


@pytest.mark.parametrize("version", [OLDEST, kubernetes_validate.latest_version()])
@pytest.mark.parametrize("found", [one for one in manifests() if one[1]["kind"] not in OF_KEDA], ids=identity)
def test_each_object_fits_the_schema_of_kubernetes(found: tuple[str, Document], version: str) -> None:
    kubernetes_validate.validate(found[1], version, strict=True)


@pytest.mark.parametrize("found", [one for one in manifests() if one[1]["kind"] in OF_KEDA], ids=identity)
def test_each_object_of_the_autoscaler_fits_its_definition(found: tuple[str, Document]) -> None:
    Draft202012Validator(OF_KEDA[found[1]["kind"]]).validate(found[1])


def test_the_autoscaler_finds_its_target_and_its_secret() -> None:
    scaled = manifest("ScaledObject", "cortex-worker")["spec"]
    wanted = manifest("TriggerAuthentication", scaled["triggers"][0]["authenticationRef"]["name"])["spec"]["secretTargetRef"]
    secrets = {(one["metadata"]["name"], key) for _, one in manifests() if one["kind"] == "Secret" for key in one["stringData"]}

    assert manifest("Deployment", scaled["scaleTargetRef"]["name"])["spec"].get("replicas") is None
    assert {(one["name"], one["key"]) for one in wanted} <= secrets


def test_the_kustomization_names_every_file_but_the_example() -> None:
    named = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())["resources"]

    assert set(named) == {path.name for path in KUBERNETES.glob("*.yaml")} - {"kustomization.yaml", "secrets.example.yaml"}


@pytest.mark.parametrize("component", ["migrate", "api", "worker"])
def test_no_pod_has_rights(component: str) -> None:
    pod = pods()[component]
    (container,) = pod["containers"]

    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 10001
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"]["limits"]["memory"]


@pytest.mark.parametrize("component", ["migrate", "api", "worker"])
def test_commands_settings_and_secrets_are_ones_that_exist(component: str) -> None:
    (container,) = pods()[component]["containers"]
    settings = manifest("ConfigMap", "cortex-settings")["data"]
    secrets = {(one["metadata"]["name"], key) for _, one in manifests() if one["kind"] == "Secret" for key in one["stringData"]}
    wanted = [variable["valueFrom"]["secretKeyRef"] for variable in container["env"]]

    assert wrong_command(container["args"]) == ""
    assert wrong_settings({*settings, *(variable["name"] for variable in container["env"])}) == set()
    assert container["envFrom"] == [{"configMapRef": {"name": "cortex-settings"}}]
    assert {(reference["name"], reference["key"]) for reference in wanted} <= secrets


def test_a_worker_is_given_longer_to_stop_than_it_takes() -> None:
    grace = float(manifest("ConfigMap", "cortex-settings")["data"]["CORTEX_GRACE_SECONDS"])

    assert pods()["worker"]["terminationGracePeriodSeconds"] >= grace + 15


def test_the_api_is_asked_whether_it_lives_and_whether_it_is_ready() -> None:
    (container,) = pods()["api"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}

    asked = {name: container[name]["httpGet"] for name in ("livenessProbe", "readinessProbe", "startupProbe")}

    assert {name: get["path"] for name, get in asked.items()} == {
        "livenessProbe": "/healthz",
        "readinessProbe": "/readyz",
        "startupProbe": "/healthz",
    }
    assert all(get["httpHeaders"] == [{"name": "Host", "value": "localhost"}] for get in asked.values())
    assert ports == {"http": 8700}
    assert container["args"][-1] == "8700"


def test_selectors_find_the_pods_that_they_mean() -> None:
    labels = [one["spec"]["template"]["metadata"]["labels"] for _, one in manifests() if "template" in one.get("spec", {})]
    selectors: list[dict[str, str]] = []
    for _, one in manifests():
        match one:
            case {"kind": "Service", "spec": {"selector": selector}}:
                selectors.append(selector)
            case {"kind": "PodDisruptionBudget" | "Deployment", "spec": {"selector": {"matchLabels": selector}}}:
                selectors.append(selector)
            case {"kind": "NetworkPolicy", "spec": {"podSelector": selector}}:
                selectors.append(selector.get("matchLabels", {}))

    assert [selector for selector in selectors if not any(selector.items() <= label.items() for label in labels)] == []
