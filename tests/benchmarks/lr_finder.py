"""The learning-rate finder: how far its suggestion depends on the seed, what it costs a run, and what a sweep costs.

Suggestions. Every finder sweeps every problem (a task, a model and an optimizer: contenders/lr_problems.py) once for
each seed, which fixes the first weights and the order of the batches: 100 steps from 1e-6 to 10, all else as its
documentation has it. The spread is the largest suggestion over the smallest, of the seeds for which there is one.

Regret. With each suggestion a fresh model is trained for 200 steps, one cycle whose greatest rate is the suggestion.
The regret is its held-out loss over the smallest that the same training, from the same seed, reaches on a grid of six
rates a decade. A run that diverges, or that gets no suggestion, counts the loss before training.

The course's rule and its numbers were chosen on other problems: other data, networks, optimizers and seeds. These here
were not quite unseen: their spread was looked at for other seeds, and a first run, in which narrow valleys ruined
trainings, is why the rule keeps a distance from the edge; that distance was again chosen on other problems. With
--quick it is two problems, three seeds and a coarser grid.

Cost. 100 steps of each finder beside 100 steps of a loop by hand, setting up included, in paired rounds, one thread,
CPU time of that thread. The sweep ends at 0.01, before anything diverges, so that all take all their steps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

import harness
import numpy as np
import torch
from contenders.lr_finders import FINDERS, OURS, STEPS, STOP, Finder
from contenders.lr_problems import BATCH_SIZE, PROBLEMS, Problem, mlp
from harness import Row, Timings, at_most, paired, progress

from lecture_lib.data import TensorLoader

TRAINING_STEPS = 200
GRIDS = {"SGD": (1e-3, 10.0), "AdamW": (1e-4, 1.0)}  # first and last rate
SPREAD, COST, RUINED = 2.0, 1.1, 3.0
CALM = 0.01  # last rate of the sweeps that are timed

# By problem and rule ("ours, steepest"), one entry for each seed.
Suggestions = dict[str, dict[str, list[float | None]]]
Regrets = dict[str, dict[str, list[float]]]


def measure(quick: bool) -> list[Row]:
    """All rows."""
    torch.set_num_threads(1)
    problems = [PROBLEMS[0], PROBLEMS[-1]] if quick else PROBLEMS
    finders, missing = installed(PROBLEMS[0])
    suggestions, regrets = {}, {}
    for problem in problems:
        progress(f"{problem.name} ...")
        found, regret = try_problem(problem, finders, seeds=3 if quick else 10, per_decade=3 if quick else 6)
        suggestions[problem.name], regrets[problem.name] = found, regret
    rows = quality_rows(suggestions, regrets)
    for optimizer in ("SGD", "AdamW"):
        progress(f"cost, {optimizer} ...")
        timings = time_sweeps(Problem("digits", mlp, optimizer), finders, rounds=3 if quick else 15)
        rows += cost_rows(optimizer, timings)
    return rows + [Row(f"{name} (not installed)", None, "") for name in missing]


def installed(problem: Problem) -> tuple[dict[str, Finder], list[str]]:
    """The finders that can be imported, and the names of the others."""
    ready, missing = {}, []
    for name, finder in FINDERS.items():
        try:
            finder(*problem.make(0), problem.loss_fn, problem.loader(0), STOP)
        except ImportError as error:
            progress(f"{name} is left out: {error}")
            missing.append(name)
            continue
        ready[name] = finder
    return ready, missing


def try_problem(
    problem: Problem, finders: Mapping[str, Finder], seeds: int, per_decade: int
) -> tuple[dict[str, list[float | None]], dict[str, list[float]]]:
    """Each rule's suggestions and their regrets, one for each seed."""
    first, last = GRIDS[problem.optimizer]
    grid = np.geomspace(first, last, 1 + round(per_decade * math.log10(last / first))).tolist()
    suggestions: dict[str, list[float | None]] = {}
    regrets: dict[str, list[float]] = {}
    for seed in range(seeds):
        best = min(problem.final_loss(seed, rate, TRAINING_STEPS) for rate in grid)
        for name, finder in finders.items():
            for rule, rate in finder(*problem.make(seed), problem.loss_fn, problem.loader(seed), STOP).items():
                key = f"{name}, {rule}"
                suggestions.setdefault(key, []).append(rate)
                regrets.setdefault(key, []).append(problem.final_loss(seed, rate, TRAINING_STEPS) / best)
    return suggestions, regrets


def spread(rates: Sequence[float | None]) -> float | None:
    """The largest over the smallest; None where there are not two."""
    found = [rate for rate in rates if rate is not None]
    return max(found) / min(found) if len(found) > 1 else None


def quality_rows(suggestions: Suggestions, regrets: Regrets) -> list[Row]:
    """Every rule on every problem, then what each rule came to, then the targets."""
    rows, worst = [], {}
    rules = list(next(iter(suggestions.values())))
    default = rules[0]
    for problem, found in suggestions.items():
        for rule, rates in found.items():
            what, value = f"{problem}: {rule}, spread", spread(rates)
            own = rule == default and value is not None
            rows.append(at_most(what, value, "ratio", SPREAD, "at most 2") if own else Row(what, value, "ratio"))
        for rule, values in regrets[problem].items():
            rows.append(Row(f"{problem}: {rule}, worst regret", max(values), "ratio"))
    for rule in rules:
        spreads = [value for found in suggestions.values() if (value := spread(found[rule])) is not None]
        values = [value for regret in regrets.values() for value in regret[rule]]
        silent = sum(rate is None for found in suggestions.values() for rate in found[rule])
        worst[rule] = max(values)
        rows += [
            Row(f"all problems: {rule}, largest spread", max(spreads, default=None), "ratio"),
            Row(f"all problems: {rule}, worst regret", worst[rule], "ratio"),
            Row(f"all problems: {rule}, mean regret", math.exp(np.mean(np.log(values))), "ratio"),
            Row(f"all problems: {rule}, regret above {RUINED:g}", sum(value > RUINED for value in values), "runs"),
            Row(f"all problems: {rule}, no suggestion", silent, "runs"),
        ]
    others = [value for rule, value in worst.items() if not rule.startswith(OURS)]
    what, target = f"all problems: {default}, worst regret / least of the others'", "the lowest of all"
    lowest = worst[default] / min(others) if others else None
    return [*rows, at_most(what, lowest, "ratio", 1.0, target)]


def time_sweeps(problem: Problem, finders: Mapping[str, Finder], rounds: int) -> Timings:
    """100 steps of each, on a fresh model."""
    contenders = {"by hand, DataLoader": partial(by_hand, problem, "DataLoader")}
    contenders["by hand, TensorLoader"] = partial(by_hand, problem, "TensorLoader")
    contenders[f"{OURS}, TensorLoader"] = partial(sweep, problem, finders[OURS], "TensorLoader")
    for name, finder in finders.items():
        contenders[f"{name}, DataLoader"] = partial(sweep, problem, finder, "DataLoader")
    return paired(contenders, rounds=rounds)


def by_hand(problem: Problem, kind: str) -> list[float]:
    """A plain training that keeps its losses."""
    model, optimizer = problem.make(0)
    loss_fn, losses = problem.loss_fn, []
    batches = _loader(problem, kind)
    while True:
        for x, y in batches:
            optimizer.zero_grad()
            loss = loss_fn(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if len(losses) == STEPS:
                return losses


def sweep(problem: Problem, finder: Finder, kind: str) -> None:
    """One sweep, fresh model and optimizer included."""
    finder(*problem.make(0), problem.loss_fn, _loader(problem, kind), CALM)


def _loader(problem: Problem, kind: str):
    if kind == "DataLoader":
        return problem.loader(0)
    return TensorLoader(*problem.data[:2], batch_size=BATCH_SIZE, shuffle=True, seed=0)


def cost_rows(optimizer: str, timings: Timings) -> list[Row]:
    """Microseconds a step, and the ratio to the loop by hand with the same loader."""
    rows = []
    for name in timings.rounds:
        rows.append(Row(f"cost, {optimizer}: {name}", timings.seconds(name) / STEPS * 1e6, "µs a step"))
    for name in timings.rounds:
        who, kind = name.split(", ")
        if who == "by hand":
            continue
        what, ratio = f"cost, {optimizer}: {name} / by hand", timings.ratio(name, f"by hand, {kind}")
        rows.append(at_most(what, ratio, "ratio", COST, "at most 1.1") if who == OURS else Row(what, ratio, "ratio"))
    return rows


if __name__ == "__main__":
    harness.run(measure)
