"""examples/hello.py does what its first lines promise."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Cortex
from tests.cli.processes import started

HELLO = str(Path(__file__).parents[2] / "examples" / "hello.py")


def test_the_three_agents_of_hello_run(cortex: Cortex, folder: Path) -> None:
    (folder / "somebody.txt").touch()
    lines = [
        ["greet", "name=Ada"],
        ["count-words", "text=to be or not to be"],
        ["list-folder", f"folder={folder}"],
    ]
    ids = [json.loads(cortex("jobs", "submit", *line, "--app", HELLO, "--json").out)["id"] for line in lines]
    assert cortex("worker", HELLO, "--until-idle").code == 0

    greeting, counted, listed = [json.loads(cortex("jobs", "show", job_id, "--json").out) for job_id in ids]

    assert greeting["job"]["output"] == "Hello, Ada!"
    assert counted["job"]["output"] == {"to": 2, "be": 2, "or": 1, "not": 1}
    assert listed["job"]["output"]["exit_code"] == 0
    assert "somebody.txt" in Path(listed["runs"][0]["log_path"]).read_text()


def test_the_agent_of_the_readme_runs_as_it_stands_there(folder: Path, cortex: Cortex) -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    (folder / "release.py").write_text(readme.partition("```python\n")[2].partition("```")[0])

    with started("worker", "release.py", folder=folder) as worker:
        worker.wait_for("worker_started")
        assert cortex("users", "add", "ada", "--role", "approver", "--no-password").code == 0
        job_id = json.loads(cortex("jobs", "submit", "release-bot", "version=1.4.0", "--json").out)["id"]
        with started("jobs", "watch", job_id, folder=folder) as watching:
            watching.wait_for_output("WAITING_FOR_APPROVAL")
            [asked] = json.loads(cortex("approvals", "list", "--as", "ada", "--json").out)["approvals"]
            assert (asked["summary"], asked["details"]) == ("Deploy 1.4.0", {"image": "app:1.4.0"})
            assert cortex("approvals", "approve", asked["id"], "--as", "ada").code == 0
            watching.wait_for_output("app:1.4.0 is live")
            assert watching.ended()[0] == 0
