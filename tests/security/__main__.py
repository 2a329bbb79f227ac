"""`make security`: the sweep of all routes, the pattern fuzz and the abuse tests, with counts of tests and of what they tried."""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

GROUPS = {
    "routes x roles x tenants": ["tests/http/test_who_may.py", "tests/dashboard/test_doors.py"],
    "patterns on hostile text": ["tests/security/test_patterns.py"],
    "deciding": [
        "tests/contract/test_self_approval.py",
        "tests/contract/test_approval_voters.py",
        "tests/contract/test_undecidable_approvals.py",
        "tests/security/test_every_path.py",
    ],
    "revoking": [
        "tests/contract/test_revoking.py",
        "tests/contract/test_interleavings_of_approvals.py",
        "tests/http/test_ended_streams.py",
    ],
    "abuse": [
        "tests/security/test_connections.py",
        "tests/security/test_heavy_input.py",
        "tests/security/test_seeing.py",
        "tests/security/test_sign_ins.py",
        "tests/security/test_smaller_doors.py",
    ],
    "accounting and record": [
        "tests/contract/test_charges.py",
        "tests/contract/test_failures_in_the_audit.py",
        "tests/contract/test_keeps_its_word.py",
        "tests/contract/test_erasing.py",
        "tests/contract/test_seal_export.py",
        "tests/contract/test_audit_retention.py",
    ],
}
REPORT = Path("build/security.xml")
TRIED = "tried"
"""The property in which a test says how many requests or texts it tried."""


def main() -> int:
    import pytest

    paths = [path for paths in GROUPS.values() for path in paths]
    missing = {str(path) for path in Path("tests/security").glob("test_*.py")} - set(paths)
    assert not missing, f"in no group: {sorted(missing)}"
    REPORT.parent.mkdir(exist_ok=True)
    os.environ["CORTEX_SECURITY"] = "1"
    options = ["-n", "2", "--dist", "worksteal", "--timeout", "600", "-o", "junit_family=xunit1", f"--junitxml={REPORT}"]
    code = pytest.main([*options, *paths])
    for line in counts(REPORT):
        print(line)
    return int(code)


def counts(report: Path) -> list[str]:
    """One line for each group: tests that passed, that did not, and what they tried."""
    groups = {path: name for name, paths in GROUPS.items() for path in paths}
    passed, failed, tried = Counter[str](), Counter[str](), Counter[str]()
    for case in ElementTree.parse(report).iter("testcase"):
        group = groups[case.attrib["file"]]
        bad = case.find("failure") is not None or case.find("error") is not None
        (failed if bad else passed)[group] += 1
        tried[group] += sum(int(one.attrib["value"]) for one in case.iter("property") if one.attrib["name"] == TRIED)
    return [
        f"{name:26} {passed[name]:5} passed {failed[name]:5} failed" + (f" {tried[name]:7} tried" if tried[name] else "")
        for name in GROUPS
    ]


if __name__ == "__main__":
    sys.exit(main())
