"""What the recorder costs, the ladder on the fault bank, and the tools that run on PyTorch today on the same programs.

The recorder: processor time of training under `record` over that of the same training, the median of 7 pairs.

Every case of tests/bank is climbed: a fault counts as named when it is the first finding, as detected when there is
any, and as at its rung when the first finding's rung is right; a healthy program counts as an alarm with any finding.
Beside it, on the same programs and seeds: PyTorch's own warnings and errors with anomaly mode over two epochs, and
assertions as torcheck's documentation writes them (parameters that must change, no NaN, outputs in no negative or
constant range). These tools give no name, so only detection is compared.

`--quick` takes one base of each row; otherwise one base of each variant, which takes about two hours.
"""

from __future__ import annotations

import statistics
import sys
import time
import warnings
import zlib
from collections import defaultdict
from contextlib import nullcontext
from pathlib import Path

import harness
import torch
from harness import Row, at_most, progress
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bank import Case, all_cases
from bank.programs import make

from lecture_lib.debugging import FAULTS, Program, climb, record

LOUD = {"D12", "L05", "L10", "G21", "G23", "P14", "A14"}
SEEDS = 5  # of each healthy program
LOOPS = {"digits": 40, "shapes": 12, "sequence": 40, "regression": 60}  # base -> epochs that are timed
REPETITIONS = 7
EPOCHS = 2  # that the other tools watch


def measure(quick: bool) -> list[Row]:
    """All rows."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    costs = [
        at_most(f"recorder over plain loop, {base}", cost(base, n), "times", 1.3, "1.3") for base, n in LOOPS.items()
    ]
    named: dict[str, list[bool]] = defaultdict(list)
    found: dict[str, dict[str, list[bool]]] = {"ladder": {}, "PyTorch": {}, "assertions": {}}
    rungs, alarms = [], {tool: [] for tool in found}  # type: ignore[var-annotated]
    for case in chosen(quick):
        for seed in range(1 if quick or not case.healthy else SEEDS):
            result = climb(*case.make(seed + 1))
            seen = {"ladder": bool(result.findings)}
            seen["PyTorch"] = warned(case.make(seed + 1)[0])
            seen["assertions"] = asserted(case.make(seed + 1)[0])
            for tool, alarm in seen.items():
                alarms[tool].append(alarm) if case.healthy else found[tool].setdefault(case.row, []).append(alarm)
            if case.healthy:
                if result.findings:
                    progress(f"alarm on {case}, seed {seed}: {result.findings[0].fault}")
                continue
            first = result.findings[0].fault if result.findings else "nothing"
            named[case.row].append(first == case.row)
            rungs.append(first != "nothing" and FAULTS[first].rung == FAULTS[case.row].rung)
            if first != case.row:
                progress(f"{case}: {first}")
    return [*costs, *rows_of(named, found, rungs, alarms)]


def cost(base: str, epochs: int) -> float:
    """Training with the recorder over training without."""
    return statistics.median(trained(base, epochs, True) / trained(base, epochs, False) for _ in range(REPETITIONS))


def trained(base: str, epochs: int, recorded: bool) -> float:
    """Processor time of a training in seconds."""
    program, _ = make(base, 0)
    start = time.process_time()
    with record(program.model, program.optimizer) if recorded else nullcontext():
        for _ in range(epochs):
            program.run_epoch()
    return time.process_time() - start


def rows_of(
    named: dict[str, list[bool]],
    found: dict[str, dict[str, list[bool]]],
    rungs: list[bool],
    alarms: dict[str, list[bool]],
) -> list[Row]:
    """Shares in percent."""
    cases = [one for row in named.values() for one in row]
    rows = [
        Row(f"ladder: fault named first, {len(cases)} cases", share(cases), "%", "at least 95 %", share(cases) >= 95),
        Row("ladder: rung right", share(rungs), "%", "at least 95 %", share(rungs) >= 95),
        Row("ladder: rows with every case named", sum(all(one) for one in named.values()), f"of {len(named)}"),
    ]
    for tool, by_row in found.items():
        silent = [one for row, seen in by_row.items() if row not in LOUD for one in seen]
        target = ("every silent case", all(silent)) if tool == "ladder" else (None, None)
        rows.append(Row(f"{tool}: silent faults detected, {len(silent)} cases", share(silent), "%", *target))
    for tool, heard in alarms.items():
        what = f"{tool}: alarms on {len(heard)} healthy runs"
        count = sum(heard)
        rows.append(at_most(what, count, "runs", 0, "none") if tool == "ladder" else Row(what, count, "runs"))
    return rows


def share(hits: list[bool]) -> float:
    """In percent."""
    return 100 * sum(hits) / max(len(hits), 1)


def chosen(quick: bool) -> list[Case]:
    """One case of each row, or of each variant, on a base that a checksum of its name picks."""
    groups: dict[tuple[str, ...], list[Case]] = defaultdict(list)
    for case in all_cases():
        groups[(case.row,) if quick else (case.row, case.variant)].append(case)
    return [cases[zlib.crc32(str(key).encode()) % len(cases)] for key, cases in groups.items()]


def warned(program: Program) -> bool:
    """Whether PyTorch warns or raises in two epochs with anomaly mode."""
    with warnings.catch_warnings(record=True) as caught, torch.autograd.set_detect_anomaly(True):
        warnings.simplefilter("always")
        try:
            for _ in range(EPOCHS):
                program.run_epoch()
                program.run_evaluation()
        except Exception:
            return True
    return any("nomaly" not in str(one.message) for one in caught)


def asserted(program: Program) -> bool:
    """Whether a parameter did not change, or something was NaN or without any spread, within two epochs."""
    before = {name: value.detach().clone() for name, value in program.model.named_parameters()}
    try:
        for _ in range(EPOCHS):
            program.run_epoch()
        batch = next(iter(program.val_loader or program.train_loader))
        outputs = program.outputs(program.parts(batch)[0])
    except Exception:
        return True
    still = any(torch.equal(before[name], value) for name, value in program.model.named_parameters())
    broken = isinstance(outputs, Tensor) and (not outputs.isfinite().all() or float(outputs.float().std()) == 0)
    return still or bool(broken)


if __name__ == "__main__":
    harness.run(measure)
