"""compose.yaml fits the published specification, and holds what a team relies on."""

from __future__ import annotations

import json
from importlib.resources import files

from jsonschema.validators import validator_for  # type: ignore[import-untyped]

from cortex_plane.settings import Settings
from tests.deploy.files import DEPLOY, ROOT, compose, wrong_command, wrong_settings

OURS = ("migrate", "api", "worker")


def test_it_fits_the_published_schema() -> None:
    schema = json.loads((files("check_jsonschema") / "builtin_schemas" / "vendor" / "compose-spec.json").read_text())

    found = validator_for(schema)(schema).iter_errors(compose())
    problems = [f"{'.'.join(map(str, error.path))}: {error.message}" for error in found]

    assert problems == []


def test_ours_have_no_rights_and_a_read_only_root() -> None:
    for name in OURS:
        service = compose()["services"][name]

        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["tmpfs"] == ["/tmp"]
        assert wrong_command(service["command"]) == ""
        assert wrong_settings(set(service["environment"])) == set()


def test_nothing_starts_before_the_schema_is_there() -> None:
    services = compose()["services"]

    assert services["migrate"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    assert services["migrate"]["restart"] == "no"
    for name in ("api", "worker"):
        assert services[name]["depends_on"] == {"migrate": {"condition": "service_completed_successfully"}}


def test_a_worker_is_given_longer_to_stop_than_it_takes() -> None:
    worker = compose()["services"]["worker"]
    grace = float(worker["environment"].get("CORTEX_GRACE_SECONDS", Settings().grace_seconds))

    assert float(worker["stop_grace_period"].removesuffix("s")) >= grace + 10


def test_the_password_is_in_no_file_of_ours_and_its_absence_is_an_error() -> None:
    text = (DEPLOY / "compose.yaml").read_text()

    assert text.count("${POSTGRES_PASSWORD:?") == 2
    assert "POSTGRES_PASSWORD=\n" in (DEPLOY / ".env.example").read_text()
    assert "/deploy/.env" in (ROOT / ".gitignore").read_text().splitlines()


def test_what_is_mounted_and_run_exists() -> None:
    worker = compose()["services"]["worker"]

    assert (ROOT / worker["command"][1]).is_file()
    assert (DEPLOY / worker["volumes"][0].split(":")[0]).is_dir()
