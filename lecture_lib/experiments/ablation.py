"""Ablations: one change at a time, the same seeds for all, and a verdict whose error rate is stated."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from ..training._run.checks import require_functions
from ._ablation_result import Ablation


def ablate(
    run: Callable[[dict[str, Any], int], float | tuple[float, float]],
    base: Mapping[str, Any],
    changes: Mapping[str, Mapping[str, Any]],
    seeds: Sequence[int],
    *,
    level: float = 0.05,
    higher_is_better: bool = True,
    combined: Collection[str] = (),
    progress: bool = False,
) -> Ablation:
    """Run a base configuration and each change of it with the same seeds, and judge the paired differences.

    A change is 'likely useful' or 'worse' when the t interval on its mean difference leaves out 0, else 'noise'. The
    intervals are two-sided, at 1 - level / number of changes (Bonferroni): if no change does anything, the chance that
    any of them is called useful or worse is at most `level`. What that rests on, and the smallest effect that a verdict
    needs with so many seeds, is in the result's text. A run that fails is left out of its pairs and reported.
    Source: lecture part 4, ablations.

    Args:
        run: configuration, seed -> metric on a fixed split, or (metric, cost); the default cost is seconds.
        base: every setting that a change may name.
        changes: name -> the one setting that it changes.
        seeds: two or more, each once; every configuration gets them all.
        level: the stated false-positive rate, between 0 and 1.
        higher_is_better: False for a loss or an error.
        combined: names of changes that change several settings on purpose.
        progress: show a bar over the runs.

    Returns:
        The runs, and the effects beside the base. An interrupt carries what was finished as `.ablation`.

    Raises:
        ValueError: a change of an unknown setting, of none, of several, or to the base's value; too few or repeated
            seeds; the level of confidence is not between 0 and 1.
        TypeError: run is not a function.

    """
    require_functions(run=run)
    if len(set(seeds)) != len(seeds) or len(seeds) < 2:
        raise ValueError(f"seeds are {list(seeds)}; pass two or more, each once, such as range(5).")
    if not 0 < level < 1 or not changes:
        raise ValueError(f"level is {level}, changes are {list(changes)}; a level lies between 0 and 1, as 0.05 does.")
    for name, change in changes.items():
        _require_change(name, change, base, several=name in combined)
    from tqdm.auto import tqdm

    ablation = Ablation(tuple(seeds), level, higher_is_better, {}, {name: {} for name in changes}, {})
    bar = tqdm(total=len(seeds) * (1 + len(changes)), unit="run", disable=not progress)
    try:
        # Seed after seed, so that what an interrupt leaves is in pairs.
        for seed in seeds:
            for name, change in [("", {}), *changes.items()]:
                results = ablation.changed[name] if name else ablation.base
                try:
                    # A copy: what a run does to its configuration must not reach the next run.
                    results[seed] = _measured(run, copy.deepcopy({**base, **change}), seed)
                except Exception as error:
                    ablation.failures[name or "base", seed] = error
                bar.update()
    except BaseException as error:
        error.ablation = ablation  # type: ignore[attr-defined]
        raise
    finally:
        bar.close()
    return ablation


def _measured(run: Callable[..., Any], config: dict[str, Any], seed: int) -> tuple[float, float]:
    start = time.perf_counter()
    result = run(config, seed)
    metric, cost = result if isinstance(result, tuple) else (result, time.perf_counter() - start)
    if not (math.isfinite(metric) and math.isfinite(cost)):
        raise ValueError(f"run returned metric {metric} and cost {cost}; both are finite numbers.")
    return float(metric), float(cost)


def _require_change(name: str, change: Mapping[str, Any], base: Mapping[str, Any], *, several: bool) -> None:
    for key in change:
        if key not in base:
            raise ValueError(
                f"change {name!r} sets {key!r}, which is not a setting of base: {', '.join(map(str, base))}."
            )
        # As text, because == of arrays gives no single answer.
        if repr(base[key]) == repr(change[key]):
            raise ValueError(f"change {name!r} sets {key!r} to {change[key]!r}, as base does: nothing changes.")
    if not name or (len(change) < 2 if several else len(change) != 1):
        remedy = f"change one at a time, or say that several are meant: combined=[{name!r}]"
        raise ValueError(f"change {name!r} sets {len(change)} settings ({', '.join(change)}); {remedy}.")
