"""The benchmarks: their table says the truth, contenders must agree, and each has the same command line."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT
from helpers.command_line import run_script

FOLDER = ROOT / "tests" / "benchmarks"
sys.path.insert(0, str(FOLDER))
import harness  # noqa: E402
import tape as tape_benchmark  # noqa: E402
from contenders import training_step  # noqa: E402
from harness import Row, Timings, at_most, paired  # noqa: E402

pytestmark = pytest.mark.slow

BENCHMARKS = sorted({*FOLDER.glob("*.py")} - {*FOLDER.glob("test_*.py"), FOLDER / "harness.py"})


class Clock:
    """Time that passes only when a contender says so."""

    def __init__(self) -> None:
        self.now = 0.0
        self.order: list[str] = []

    def __call__(self) -> float:
        return self.now

    def contender(self, name: str, *costs: float) -> Callable[[], None]:
        """Something to call; the warm-up and then each call take the next of `costs`."""
        remaining = iter(costs)

        def call() -> None:
            self.order.append(name)
            self.now += next(remaining)

        return call


def test_json_has_the_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        at_most("a / b", 0.5, "ratio", 0.55, "≤ 0.55"),
        Row("a", 12.5, "µs"),
        Row("absent", None, "µs"),
        at_most("undefined", float("nan"), "ratio", 2, "≤ 2"),
    ]
    harness.report("tape", rows, tmp_path / "out.json")
    text = (tmp_path / "out.json").read_text("utf-8")
    content = json.loads(text, parse_constant=pytest.fail)
    assert list(content) == ["benchmark", "commit", "machine", "rows"]
    assert content["benchmark"] == "tape"
    assert re.fullmatch(r"[0-9a-f]{12}(-dirty)?|unknown", content["commit"])
    assert content["rows"] == [
        {"what": "a / b", "value": 0.5, "unit": "ratio", "target": "≤ 0.55", "holds": True},
        {"what": "a", "value": 12.5, "unit": "µs", "target": None, "holds": None},
        {"what": "absent", "value": None, "unit": "µs", "target": None, "holds": None},
        {"what": "undefined", "value": None, "unit": "ratio", "target": "≤ 2", "holds": False},
    ]
    for part in (str(os.cpu_count()), platform.python_version(), np.__version__):
        assert part in content["machine"]
    assert str(ROOT) not in text
    assert platform.node() not in content["machine"] or platform.node() in platform.machine()
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].split() == ["what", "value", "unit", "target", "holds"]
    assert [line.split()[-1] for line in printed[1:]] == ["yes", "µs", "µs", "NO"]
    assert "not measured" in printed[3]


def test_a_ratio_is_the_median_of_the_pairs() -> None:
    clock = Clock()
    contenders = {"ours": clock.contender("ours", 9, 1, 10, 3), "theirs": clock.contender("theirs", 9, 2, 5, 30)}
    timings = paired(contenders, rounds=3, clock=clock)
    assert timings.rounds == {"ours": [1, 10, 3], "theirs": [2, 5, 30]}
    assert timings.ratio("ours", "theirs") == 0.5  # of 0.5, 2 and 0.1; the medians' ratio would be 0.6
    assert timings.seconds("ours") == 3


def test_every_contender_has_a_turn_in_every_round_and_the_order_rotates() -> None:
    clock = Clock()
    paired({name: clock.contender(name, *[1] * 5) for name in "abc"}, rounds=4, clock=clock)
    assert "".join(clock.order) == "abc" + "abc" + "bca" + "cab" + "abc"


def test_a_turn_counts_the_mean_of_its_calls() -> None:
    clock = Clock()
    timings = paired({"a": clock.contender("a", 9, 1, 2, 6)}, rounds=1, calls=3, clock=clock)
    assert timings.rounds == {"a": [3]}


@pytest.mark.parametrize(
    ("value", "holds"), [(0.54, True), (0.55, True), (0.5501, False), (float("nan"), False), (None, None)]
)
def test_a_target_holds_up_to_its_limit(value: float | None, holds: bool | None) -> None:
    assert at_most("x", value, "ratio", 0.55, "≤ 0.55").holds is holds


@pytest.mark.parametrize(("pytorch", "by_hand"), [(0.54, 1.81), (0.56, 1.79)], ids=["fast", "slow"])
def test_the_steps_rows_say_whether_their_targets_hold(pytorch: float, by_hand: float) -> None:
    rounds = {"the tape": [1.0] * 3, "PyTorch eager": [1 / pytorch] * 3, "NumPy by hand": [1 / by_hand] * 3}
    rows = {row.what: row for row in tape_benchmark.step_rows("float32", Timings(rounds))}
    assert rows["step, float32: the tape"].value == 1e6
    for name, value, limit in (("PyTorch eager", pytorch, 0.55), ("NumPy by hand", by_hand, 1.8)):
        row = rows[f"step, float32: the tape / {name}"]
        assert row.value == pytest.approx(value)
        assert str(limit) in row.target
        assert row.holds is (value <= limit)


@pytest.mark.parametrize(("power", "holds"), [(1.0, True), (1.15, True), (1.5, False), (2.0, False)])
def test_growth_is_called_linear_when_it_is(power: float, holds: bool) -> None:
    sizes = [100, 200, 400, 800]
    timings = Timings({str(size): [size**power, 2 * size**power] for size in sizes})
    off = Timings({str(size): [size] for size in sizes})
    rows = tape_benchmark.growth_rows("x", timings, off, {size: round(size**power) for size in sizes})
    judged = [row for row in rows if row.target]
    assert [row.what.split("smallest ")[1] for row in judged] == ["time per operation", "memory per operation"]
    for row in judged:
        assert row.value == pytest.approx(8 ** (power - 1), rel=0.01)
        assert row.target == "linear"
        assert row.holds is holds


@pytest.mark.parametrize(("accuracy", "seconds", "expected"), [
    (0.96, 9.9, [True, True]), (0.96, 10.0, [True, False]), (0.94, 9.9, [False, False]),
])  # fmt: skip
def test_the_digits_rows_say_whether_their_targets_hold(accuracy: float, seconds: float, expected: list[bool]) -> None:
    rows = tape_benchmark.digits_rows(accuracy, seconds, seconds, 7)
    assert [row.holds for row in rows if row.target] == expected


@pytest.mark.parametrize("graph", [tape_benchmark.chain, tape_benchmark.fan_out], ids=lambda graph: graph.__name__)
def test_the_graphs_that_grow_have_right_gradients(graph: Callable[[int], None]) -> None:
    graph(50)
    assert tape_benchmark.peak_memory(lambda: np.zeros(1_000_000).sum()) >= 8e6  # freed again, and seen


INSTALLED = {name: tape_benchmark.BUILDERS[name] for name in ("the tape", "NumPy by hand", "PyTorch eager")}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_contenders_agree_before_they_are_timed(dtype: type) -> None:
    tolerance = tape_benchmark.AGREEMENT[np.dtype(dtype).name]
    ready, missing = tape_benchmark.agreeing(INSTALLED, training_step.problem(dtype), tolerance)
    assert list(ready) == list(INSTALLED)
    assert not missing


WRONG = {
    "twice the rate": lambda given: training_step.by_hand(replace(given, learning_rate=0.2)),
    "no update": lambda given: (training_step.by_hand(given)[0], lambda: given.weights),
    "other labels": lambda given: training_step.by_hand(replace(given, labels=given.labels[::-1])),
    "other dtype": lambda given: training_step.by_hand(training_step.problem(np.float32)),
    "nan": lambda given: training_step.by_hand(replace(given, x=given.x * np.nan)),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_contender_that_does_something_else_is_refused(name: str) -> None:
    with pytest.raises(AssertionError, match=r"differ by|became"):
        tape_benchmark.agreeing({"wrong": WRONG[name]}, training_step.problem(np.float64), 1e-10)


def test_a_peer_that_is_not_installed_is_named_and_the_rest_measured(capsys: pytest.CaptureFixture[str]) -> None:
    def absent(given: training_step.Problem) -> training_step.Contender:
        raise ImportError("No module named 'absent'")

    ready, missing = tape_benchmark.agreeing(
        {"absent": absent, "by hand": training_step.by_hand}, training_step.problem(np.float64), 1e-10
    )
    assert (list(ready), missing) == (["by hand"], ["absent"])
    assert "absent is left out: No module named" in capsys.readouterr().err


def test_without_an_environment_the_products_own_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*command: object) -> str:
        raise subprocess.CalledProcessError(1, "pip", stderr="ERROR: no network\n")

    monkeypatch.setattr(harness, "ENVIRONMENT", tmp_path / "env")
    monkeypatch.setattr(harness, "_quietly", fails)
    assert harness._python_with_peers() == sys.executable
    assert "failed (ERROR: no network); peers that are not installed here are left out" in capsys.readouterr().err


def test_the_environment_is_made_once_and_again_when_the_requirements_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def pretends(*command: object) -> str:
        (tmp_path / "env").mkdir(exist_ok=True)
        made.extend(word for word in map(str, command) if word in {"venv", "pip"})
        return str(tmp_path / "env")

    requirements = tmp_path / "requirements.txt"
    requirements.write_text("micrograd==0.1.0\n", "utf-8")
    monkeypatch.setattr(harness, "ENVIRONMENT", tmp_path / "env")
    monkeypatch.setattr(harness, "REQUIREMENTS", requirements)
    monkeypatch.setattr(harness, "_quietly", pretends)
    pythons = {harness._python_with_peers() for _ in range(2)}
    assert made == ["venv", "pip"]
    assert {Path(python).is_relative_to(tmp_path / "env") for python in pythons} == {True}
    requirements.write_text("micrograd==0.2.0\n", "utf-8")
    harness._python_with_peers()
    assert made == ["venv", "pip"] * 2


def test_peers_are_pinned_and_stay_out_of_the_product() -> None:
    lines = (FOLDER / "requirements.txt").read_text("utf-8").splitlines()
    peers = [line for line in lines if line and not line.startswith("#")]
    product = (ROOT / "pyproject.toml").read_text("utf-8")
    for line in peers:
        name = re.fullmatch(r"([a-z-]+)==[\d.]+ +# .+", line)
        assert name, line
        assert not re.search(rf'"{name[1]}\b', product), name[1]


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda path: path.stem)
def test_every_benchmark_has_the_command_line(benchmark: Path) -> None:
    done = run_script(benchmark, "--help")
    assert done.code == 0, done.err
    assert re.search(rf"usage: {benchmark.name} \[-h\] \[--quick\] \[--json FILE\]", done.out)
    assert len(done.out.splitlines()) > 10  # its docstring: what is measured and how


def test_an_answer_counts_as_caught_only_if_it_loses_on_every_set() -> None:
    from blind_answers import Outcome, rows_of

    def answer(right: bool, shares: list[float], named: str, checked: bool) -> Outcome:
        return Outcome("q/file", "", right, shares, [named], checked)

    found = [
        answer(True, [1, 1], "None", True),
        answer(True, [1, 1], "None", False),
        answer(False, [0.5, 1], "sign", False),
        answer(False, [0.5, 0], "sign", True),
        answer(False, [0, 0], "None", False),
    ]
    assert [row.value for row in rows_of(found, 2)] == pytest.approx([50, 200 / 3, 50, 50])


def test_a_benchmark_reports_and_does_not_fail_where_a_target_is_missed(tmp_path: Path) -> None:
    script = tmp_path / "tiny.py"
    script.write_text(
        "import harness\n"
        "def measure(quick):\n"
        "    return [harness.at_most('x', 2.0 if quick else 1.0, 'ratio', 1.5, '≤ 1.5')]\n"
        "harness.run(measure)\n",
        "utf-8",
    )
    environment = {**os.environ, "PYTHONPATH": str(FOLDER), harness.MEASURING: "1"}
    for options, value, holds in ([], 1.0, True), (["--quick"], 2.0, False):
        command = [sys.executable, script, *options, "--json", tmp_path / "out.json"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        content = json.loads((tmp_path / "out.json").read_text("utf-8"))
        assert content["benchmark"] == "tiny"
        assert [(row["value"], row["holds"]) for row in content["rows"]] == [(value, holds)]


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_bench_runs_every_benchmark_and_not_the_harness() -> None:
    done = subprocess.run(["make", "--dry-run", "bench"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert set(re.findall(r"tests/benchmarks/(\w+\.py)", done.stdout)) == {path.name for path in BENCHMARKS}
