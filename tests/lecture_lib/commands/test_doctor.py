"""`lecture doctor`: each thing that can be wrong is made wrong, and has its line with a remedy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import namedtuple
from importlib import metadata
from pathlib import Path

import pytest
from conftest import ROOT

from lecture_lib import __version__
from lecture_lib.__main__ import main
from lecture_lib.commands import doctor
from lecture_lib.commands.doctor import Check

TORCH = """
__version__ = "2.11.0"
class cuda:
    is_available = staticmethod(lambda: {available})
    device_count = staticmethod(lambda: 1)
    get_device_name = staticmethod(lambda n: {name!r})
    get_device_capability = staticmethod(lambda n: {capability})
def zeros(*shape): pass
def ones(*shape): pass
"""
TORCHVISION = """
__version__ = "0.26.0"
class ops:
    nms = staticmethod(lambda *arguments: None)
"""
NMS = "operator torchvision::nms does not exist"


def fake(folder: Path, name: str, source: str) -> None:
    """A package in the place of an installed one, for the process in which the doctor tries them."""
    (folder / name).mkdir(exist_ok=True)
    (folder / name / "__init__.py").write_text(source, "utf-8")


@pytest.fixture
def fakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Working packages of a computer without a GPU; a test breaks what it is about."""
    fake(tmp_path, "torch", TORCH.format(available=False, name="", capability=(0, 0)))
    fake(tmp_path, "torchvision", TORCHVISION)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(metadata, "requires", lambda name: ["torch==2.11.0"])
    monkeypatch.setattr(doctor.shutil, "which", lambda program: None)
    return tmp_path


def tried() -> dict[str, Check]:
    found, error = doctor._try_torch()
    return {
        "torch": doctor._torch(found, error),
        "torchvision": doctor._torchvision(found, error),
        "gpu": doctor._gpu(found),
    }


def test_a_pair_that_fits_is_well(fakes: Path) -> None:
    found = tried()
    assert all(check.holds for check in found.values())
    assert found["gpu"].state == "none, and nothing needs one"


@pytest.mark.parametrize(
    ("package", "source", "broken", "words"),
    [
        ("torch", "raise ModuleNotFoundError(\"No module named 'torch'\")", "torch", "No module named 'torch'"),
        ("torch", "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)", "torch", "with signal 11"),
        ("torch", "import os\nos._exit(3)", "torch", "with code 3"),
        ("torchvision", "raise ImportError('not here')", "torchvision", "not here"),
        ("torchvision", f"raise RuntimeError({NMS!r})", "torchvision", NMS),
        ("torchvision", TORCHVISION.replace("None", "1 / 0"), "torchvision", "ZeroDivisionError"),
    ],
    ids=["missing", "segmentation fault", "exit", "torchvision missing", "nms", "breaks when first used"],
)
def test_broken_packages_are_a_line_with_the_remedy(
    fakes: Path, package: str, source: str, broken: str, words: str
) -> None:
    fake(fakes, package, source)
    check = tried()[broken]
    assert not check.holds
    assert words in check.state
    assert str(check).endswith("Do this: pip install --force-reinstall torch torchvision")
    assert "\n" not in str(check)


def test_a_torchvision_of_another_pytorch_is_named(fakes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "requires", lambda name: ["numpy", "torch==2.12.0"])
    assert "0.26.0 was built for PyTorch 2.12.0, not 2.11.0" in str(tried()["torchvision"])


@pytest.mark.parametrize(
    ("name", "capability", "words"),
    [
        ("Tesla T4", (7, 5), 'Tesla T4, compute capability 7.5: no native BF16, precision="auto" takes FP16'),
        ("NVIDIA L4", (8, 9), "NVIDIA L4, compute capability 8.9: BF16 is native"),
    ],
)
def test_a_gpu_is_said_with_its_formats(fakes: Path, name: str, capability: tuple[int, int], words: str) -> None:
    fake(fakes, "torch", TORCH.format(available=True, name=name, capability=capability))
    assert tried()["gpu"] == Check("GPU", True, words)


def test_a_gpu_that_pytorch_cannot_use_is_a_problem(
    fakes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'GPU 0: Tesla T4'\n", "utf-8")
    program.chmod(0o755)
    monkeypatch.setattr(doctor.shutil, "which", lambda name: str(program))
    assert "PyTorch 2.11.0 cannot use it" in str(tried()["gpu"])


@pytest.mark.parametrize(
    ("version", "holds"), [((3, 10, 9), False), ((3, 11, 0), True), ((3, 13, 5), True), ((3, 14, 0), False)]
)
def test_python_in_the_supported_range(version: tuple[int, ...], holds: bool) -> None:
    assert doctor._python(version).holds is holds


def test_packages_that_are_missing_or_old_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    required = ["numpy>=99.1", "no-such-package>=1", "scipy>=1.10", 'no-such-extra>=1; extra == "instructor"']
    monkeypatch.setattr(metadata, "requires", lambda name: required)
    check = doctor._packages()
    assert not check.holds
    assert "lowest 99.1" in check.state
    assert "no-such-package is missing" in check.state
    assert "scipy" not in check.state
    assert "no-such-extra" not in check.state


def test_a_library_that_is_not_installed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "DISTRIBUTION", "no-such-package")
    assert "not installed here. Do this: in the course's folder: pip install -e ." in str(doctor._packages())


def kernel(folder: Path, program: str) -> None:
    spec = {"argv": [program, "-m", "ipykernel_launcher", "-f", "{connection_file}"], "display_name": "x"}
    (folder / "kernels" / "python3").mkdir(parents=True)
    (folder / "kernels" / "python3" / "kernel.json").write_text(json.dumps(spec), "utf-8")


def test_the_kernel_of_another_python_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other-python"
    other.write_text("#!/bin/sh\necho \"ModuleNotFoundError: No module named 'lecture_lib'\" >&2\nexit 1\n", "utf-8")
    other.chmod(0o755)
    kernel(tmp_path, str(other))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    text = str(doctor._kernel())
    assert "No module named 'lecture_lib'. Do this: jupyter kernelspec remove python3" in text


@pytest.mark.parametrize(("version", "words"), [("0.0.1", "with lecture-lib 0.0.1, not"), (__version__, "ok ")])
def test_the_kernels_library_must_be_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, words: str
) -> None:
    other = tmp_path / "other-python"
    other.write_text(f"#!/bin/sh\necho {version}\n", "utf-8")
    other.chmod(0o755)
    kernel(tmp_path, str(other))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    assert words in str(doctor._kernel())


def test_without_jupyter_the_remedy_is_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jupyter_client.manager", None)
    assert "Do this: pip install --force-reinstall ipykernel" in str(doctor._kernel())


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert doctor._write_access(tmp_path).holds

    def refuse(*, dir: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(doctor.tempfile, "TemporaryFile", refuse)
    assert f"{tmp_path} (Permission denied)" in str(doctor._write_access(tmp_path))


def test_a_full_disk_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda folder: usage(free=4e8))
    assert "0.4 GB free, 1 are enough. Do this: remove" in str(doctor._disk(tmp_path))


def test_a_folder_outside_the_code_page_is_printed(fakes: Path) -> None:
    folder = fakes / "演習"
    folder.mkdir()
    environment = {**os.environ, "PYTHONIOENCODING": "cp1252", "PYTHONPATH": f"{fakes}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-m", "lecture_lib", "doctor"]
    done = subprocess.run(command, capture_output=True, check=False, cwd=folder, env=environment)
    assert b"Traceback" not in done.stderr, done.stderr
    assert rb"write access: " in done.stdout
    assert rb"\u6f14\u7fd2" in done.stdout


@pytest.mark.parametrize(("holds", "code", "last"), [(True, 0, "all is well"), (False, 1, "1 of 2 need something")])
def test_the_exit_code_says_whether_all_is_well(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], holds: bool, code: int, last: str
) -> None:
    monkeypatch.setattr(doctor, "examine", lambda: [Check("a", True, "seen"), Check("b", holds, "seen", "act")])
    assert main(["doctor"]) == code
    assert capsys.readouterr().out.splitlines()[-1] == last


def test_the_command_works_where_pytorch_does_not(tmp_path: Path) -> None:
    fake(tmp_path, "torch", "raise ImportError('libtorch is damaged')")
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-m", "lecture_lib", "doctor"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == ""
    assert "PROBLEM  PyTorch: it cannot be imported (ImportError: libtorch is damaged)" in done.stdout
    assert len(done.stdout.splitlines()) == 9


@pytest.mark.parametrize(("capability", "name"), [((7, 5), "fp16"), ((8, 0), "bf16")])
def test_colabs_cell_says_the_gpu_and_the_precision(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], capability: tuple[int, int], name: str
) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=None: capability)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Tesla")
    doctor.show_gpu()
    major, minor = capability
    assert capsys.readouterr().out == f'Tesla, compute capability {major}.{minor}: precision "auto" is {name}\n'
