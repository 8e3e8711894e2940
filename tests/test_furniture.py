"""What surrounds the code: workflows, templates, citation. Each is valid by its own checker, and nothing is left out.

None of it was tried on the host itself: these tests say that the files are well-formed and that what they call exists.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from conftest import ROOT

pytestmark = pytest.mark.slow

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
SCHEMAS = {
    "vendor.github-workflows": WORKFLOWS,
    "vendor.dependabot": [ROOT / ".github/dependabot.yml"],
    "vendor.github-issue-config": [ROOT / ".github/ISSUE_TEMPLATE/config.yml"],
    "vendor.github-issue-forms": [
        path for path in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml"
    ],
    "vendor.citation-file-format": [ROOT / "CITATION.cff"],
}


@pytest.mark.parametrize("schema", SCHEMAS)
def test_files_follow_their_schema(schema: str) -> None:
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *map(str, SCHEMAS[schema])]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_file_that_does_not_follow_its_schema_is_seen(tmp_path: Path) -> None:
    wrong = tmp_path / "ci.yml"
    wrong.write_text(WORKFLOWS[0].read_text("utf-8").replace("runs-on:", "runs_on:"), "utf-8")
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", str(wrong)]
    assert subprocess.run(check, capture_output=True, check=False).returncode == 1


def test_workflows_pass_actionlint() -> None:
    actionlint = shutil.which("actionlint")
    if actionlint is None:
        pytest.skip("actionlint is not installed; pre-commit runs it")
    done = subprocess.run([actionlint, *map(str, WORKFLOWS)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def steps_of(workflow: Path) -> list[str]:
    jobs = yaml.safe_load(workflow.read_text("utf-8"))["jobs"]
    return [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]


def test_workflows_call_targets_that_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    called = {target for path in WORKFLOWS for run in steps_of(path) for target in re.findall(r"make ([a-z-]+)", run)}
    assert {"lint", "test-fast", "setup"} <= called <= targets


def test_every_test_is_in_one_shard_of_the_night() -> None:
    matrix = yaml.safe_load((ROOT / ".github/workflows/nightly.yml").read_text("utf-8"))["jobs"]["full"]["strategy"]
    shards = [
        {
            file
            for pattern in entry["paths"].split()
            for path in ROOT.glob(pattern if not pattern.startswith("--") else "no such file")
            for file in ([path] if path.is_file() else path.rglob("test_*.py"))
        }
        for entry in matrix["matrix"]["include"]
    ]
    counted = {file: sum(file in shard for shard in shards) for file in (ROOT / "tests").rglob("test_*.py")}
    assert {file: count for file, count in counted.items() if count != 1} == {}


def test_the_citation_names_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert citation["version"] == project["version"]
    assert citation["title"] == project["description"]
    assert citation["license"] == project["license"]
    heading = f"## {citation['version']} ({citation['date-released']})"
    assert heading in (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_hooks_and_container_name_what_exists() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"]
    local = [hook["entry"].split()[0] for repo in hooks if repo["repo"] == "local" for hook in repo["hooks"]]
    assert local
    assert all((Path(sys.prefix) / "bin" / Path(entry).name).exists() for entry in local)
    container = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text("utf-8"))
    assert container["updateContentCommand"] == "make setup"
