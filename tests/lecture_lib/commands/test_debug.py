"""`lecture debug`: a script runs as it is, and what its training looks like is said at the end."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import ROOT

from lecture_lib.__main__ import main

PROGRAMS = ROOT.parent / "shared" / "programs"

SCRIPT = """\
import sys
import torch
from torch import nn
from beside import examples

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = examples()
for start in range(0, 320, 16):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x[start:start + 16]), y[start:start + 16])
    loss.backward()
    optimizer.step()
print("trained", sys.argv[1:], __name__)
"""
BESIDE = """\
import torch
def examples():
    x = torch.randn(320, 4, generator=torch.Generator().manual_seed(0))
    return x, x[:, :3].argmax(dim=1)
"""
STOPPED = """\
    if start == 160:
        raise KeyboardInterrupt
    loss.backward()"""
PLAYERS = """\
import torch
from torch import nn

torch.manual_seed(0)
maker, critic = nn.Linear(2, 3), nn.Linear(3, 1)
optimizers = [torch.optim.Adam(one.parameters(), lr=0.01) for one in (critic, maker)]
for _ in range(12):
    real, made = torch.randn(16, 3), maker(torch.randn(16, 2))
    optimizers[0].zero_grad()
    (critic(made.detach()).mean() - critic(real).mean()).backward()
    optimizers[0].step()
    optimizers[1].zero_grad()
    (-critic(made).mean()).backward()
    optimizers[1].step()
"""
CLIMBED = """\
from torch.utils.data import DataLoader, TensorDataset
import torch
from torch import nn
from lecture_lib.debugging import Program, Spec

def make(seed):
    torch.manual_seed(seed)
    x = torch.randn(400, 3, generator=torch.Generator().manual_seed(seed))
    data = TensorDataset(x, x.sum(dim=1, keepdim=True))
    model = nn.Linear(3, 1)
    parts = torch.utils.data.random_split(data, [300, 100], torch.Generator().manual_seed(seed))
    loaders = DataLoader(parts[0], 30, shuffle=True), DataLoader(parts[1], 100)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, maximize=MAXIMIZE)
    return Program(model, optimizer, nn.MSELoss(), *loaders), Spec(task="regression", epochs=3)

if __name__ == "__main__":
    raise RuntimeError("the main part is not to run")
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """The sound script, with what it imports beside it."""
    (tmp_path / "beside.py").write_text(BESIDE, "utf-8")
    sys.modules.pop("beside", None)
    path = tmp_path / "train.py"
    path.write_text(SCRIPT, "utf-8")
    return path


class TestWatching:
    def test_a_sound_script_runs_as_by_itself(self, script: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path = list(sys.path)
        assert main(["debug", str(script), "--epochs", "3"]) == 0
        told = capsys.readouterr().out
        assert "trained ['--epochs', '3'] __main__" in told
        assert "The first step was used to find the models. The next 19 were checked." in told
        assert "nothing found" in told
        assert sys.path == path

    def test_what_is_wrong_is_named_also_on_a_page(self, script: Path, capsys: pytest.CaptureFixture[str]) -> None:
        script.write_text(SCRIPT.replace("    optimizer.zero_grad()\n", ""), "utf-8")
        page = script.with_name("<found>.html")
        assert main(["debug", "--html", str(page), str(script)]) == 1
        assert "gradients are never cleared (G01, rung 3, step)" in capsys.readouterr().out
        text = page.read_text("utf-8")
        assert "<td>gradients are never cleared</td><td>violation, certain</td><td>step</td>" in text
        assert "train.py</h1>" in text

    def test_a_layer_that_no_optimizer_holds_is_named(self, script: Path, capsys: pytest.CaptureFixture[str]) -> None:
        script.write_text(SCRIPT.replace("SGD(model.parameters()", "SGD(model[2].parameters()"), "utf-8")
        assert main(["debug", str(script)]) == 1
        assert "(P03, rung 3, optimizer)" in capsys.readouterr().out

    def test_what_was_seen_before_an_error_is_said(self, script: Path, capsys: pytest.CaptureFixture[str]) -> None:
        script.write_text(
            SCRIPT.replace("    loss.backward()", "    if start == 160: x = x[:, :3]\n    loss.backward()")
        )
        assert main(["debug", str(script)]) == 1
        told = capsys.readouterr()
        assert "the script stopped with RuntimeError: " in told.out
        assert "The next 10 were checked." in told.out
        assert "Traceback" in told.err

    def test_an_interrupted_script_is_judged_by_what_was_seen(
        self, script: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        script.write_text(SCRIPT.replace("    loss.backward()", STOPPED))
        assert main(["debug", str(script)]) == 0
        assert "interrupted; what was seen until then:" in capsys.readouterr().out

    def test_two_players_are_sound(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path = tmp_path / "players.py"
        path.write_text(PLAYERS, "utf-8")
        assert main(["debug", str(path)]) == 0
        assert "the program has 2 optimizers" in capsys.readouterr().out

    def test_without_training_there_is_nothing_to_look_at(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "nothing.py"
        path.write_text("print('done')", "utf-8")
        assert main(["debug", str(path)]) == 1
        assert "nothing to look at: no optimizer took a step" in capsys.readouterr().err
        assert main(["debug", str(tmp_path / "missing.py")]) == 2

    def test_nothing_stays_behind(self, script: Path) -> None:
        made = torch.optim.Optimizer.__init__
        main(["debug", str(script)])
        assert torch.optim.Optimizer.__init__ is made
        assert not torch.nn.modules.module._global_forward_pre_hooks
        assert not torch.nn.modules.module._global_forward_hooks


class TestClimbing:
    @pytest.mark.parametrize(("maximize", "code", "text"), [("True", 1, "(G18, rung 3, loss)"), ("False", 0, "rung 1")])
    def test_a_factory_is_climbed(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], maximize: str, code: int, text: str
    ) -> None:
        path = tmp_path / "factory.py"
        path.write_text(CLIMBED.replace("MAXIMIZE", maximize), "utf-8")
        assert main(["debug", "--climb", "make", "--budget", "5", str(path)]) == code
        assert text in capsys.readouterr().out

    def test_the_functions_there_are_are_named(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path = tmp_path / "factory.py"
        path.write_text(CLIMBED, "utf-8")
        assert main(["debug", "--climb", "build", str(path)]) == 2
        assert (
            "has no function build. It has: DataLoader, Program, Spec, TensorDataset, make" in capsys.readouterr().err
        )


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small files in the formats that the example programs read, and the working folder beside them."""
    from helpers.image_files import write_mnist

    folder = tmp_path_factory.mktemp("programs")
    (folder / "run").mkdir()
    write_mnist(folder / "data")
    waves = np.sin(np.arange(60) / 9 + np.arange(12)[:, None])
    torch.save(waves, folder / "run" / "traindata.pt")
    _write_graph(folder)
    (folder / "requests.py").write_text(
        "class get:\n"
        "    def __init__(self, url, stream=False): self.raw = open('../cora.tgz', 'rb')\n"
        "    def __enter__(self): return self\n"
        "    def __exit__(self, *error): self.raw.close()\n"
    )
    return folder


def _write_graph(folder: Path) -> None:
    """1,800 papers of three kinds that cite their own kind, as the archive that one program downloads."""
    random = np.random.default_rng(0)
    kinds = random.integers(0, 3, 1800)
    words = (random.random((1800, 30)) < 0.05 + 0.5 * (np.arange(30) % 3 == kinds[:, None])).astype(int)
    words[:, 0] = 1
    papers = ["\t".join([str(row), *map(str, words[row]), "abc"[kind]]) for row, kind in enumerate(kinds)]
    pairs = random.integers(0, 1800, (9000, 2))
    pairs = np.unique(pairs[(kinds[pairs[:, 0]] == kinds[pairs[:, 1]]) & (pairs[:, 0] != pairs[:, 1])], axis=0)
    (folder / "cora").mkdir()
    (folder / "cora" / "cora.content").write_text("\n".join(papers))
    (folder / "cora" / "cora.cites").write_text("\n".join(f"{one}\t{other}" for one, other in pairs))
    with tarfile.open(folder / "cora.tgz", "w:gz") as archive:
        archive.add(folder / "cora", "cora")


ARGUMENTS = {
    "mnist/main.py": "--epochs 1 --no-accel",
    "gcn/main.py": "--epochs 12 --no-accel",
    "siamese_network/main.py": "--epochs 1 --no-accel --batch-size 32",
    "dcgan/main.py": "--dataset fake --imageSize 64 --batchSize 32 --ngf 4 --ndf 4 --niter 1 --workers 0",
    "time_sequence_prediction/train.py": "--steps 2",
}
PLANTED = [
    ("mnist/main.py", "        optimizer.zero_grad()\n", "", "step"),
    ("mnist/main.py", "F.log_softmax(x, dim=1)", "F.softmax(x, dim=1)", "loss"),
    ("mnist/main.py", "x = torch.flatten(x, 1)", "x = torch.flatten(x, 1).detach()", "model"),
    ("gcn/main.py", "    optimizer.zero_grad()\n", "", "step"),
    ("gcn/main.py", "return F.log_softmax(x, dim=1)", "return x", "loss"),
    ("gcn/main.py", "loss.backward()\n    optimizer.step()", "optimizer.step()\n    loss.backward()", "step"),
    ("siamese_network/main.py", "        optimizer.zero_grad()\n", "", "step"),
    ("siamese_network/main.py", "        loss.backward()", "        (-loss).backward()", "loss"),
    ("siamese_network/main.py", "Adadelta(model.parameters()", "Adadelta(model.fc.parameters()", "optimizer"),
    ("dcgan/main.py", "output = netD(fake)\n        errG", "output = netD(fake.detach())\n        errG", "model"),
    ("dcgan/main.py", "        optimizerG.step()", "", "optimizer"),
    ("time_sequence_prediction/train.py", "LBFGS(seq.parameters()", "LBFGS(seq.linear.parameters()", "optimizer"),
]


def debugged(script: Path, arguments: str, data: Path) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join([str(ROOT), str(data)])
    settings = {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1"}
    command = [sys.executable, "-m", "lecture_lib", "debug", str(script), *arguments.split()]
    return subprocess.run(
        command, cwd=data / "run", env=os.environ | settings, capture_output=True, text=True, timeout=600
    )


@pytest.mark.slow
@pytest.mark.skipif(not PROGRAMS.exists(), reason="the example programs are not beside the repository")
class TestExamplePrograms:
    @pytest.mark.parametrize(
        "name", [pytest.param(one, marks=pytest.mark.full if "siamese" in one else ()) for one in ARGUMENTS]
    )
    def test_nothing_is_found_in_a_sound_one(self, name: str, data: Path) -> None:
        found = debugged(PROGRAMS / name, ARGUMENTS[name], data)
        assert found.returncode == 0, found.stdout[-2000:] + found.stderr[-2000:]
        assert "nothing found" in found.stdout

    @pytest.mark.full
    @pytest.mark.parametrize(("name", "old", "new", "part"), PLANTED)
    def test_a_planted_fault_is_localised(
        self, name: str, old: str, new: str, part: str, data: Path, tmp_path: Path
    ) -> None:
        text = (PROGRAMS / name).read_text("utf-8")
        assert text.count(old) >= 1
        script = tmp_path / "main.py"
        script.write_text(text.replace(old, new), "utf-8")
        found = debugged(script, ARGUMENTS[name], data)
        assert found.returncode == 1, found.stdout[-2000:] + found.stderr[-2000:]
        first = next(line for line in found.stdout.splitlines() if ", rung " in line)
        assert f", {part}):" in first
