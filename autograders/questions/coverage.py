"""What every set of hidden cases must hold: each kind of input that the wording allows and that is not rare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, pairwise
from typing import Any

import numpy as np

from .cases import Case

SAMPLES = 100  # cases of the domain, which show what is not rare there
COMMON = 0.05  # of them
CANDIDATES = 12  # cases of the domain for each one that is added
PATIENCE = 2000  # cases of the domain, after which a trait that is still missing is given up
SHORT = 30  # characters of a text that is a name or a choice
MANY = 10  # entries of a list, after which their numbers have two digits
LONG = 1000  # entries of an axis
LARGE = 1000.0  # a number, and tiny is one divided by it

ALLOWED = "any allowed input"
"""The kind of the cases that are added."""
UNNAMED = "domain"
"""The kind of a domain's cases that have no name of their own."""
Domain = Callable[[np.random.Generator], Case]


def common_traits(domain: Domain) -> frozenset[str]:
    """The traits that cases of a domain have often, the same in every course."""
    rng = np.random.default_rng(0)
    counts = Counter(trait for _ in range(SAMPLES) for trait in traits(domain(rng)))
    return frozenset(trait for trait, count in counts.items() if count >= COMMON * SAMPLES)


def covering(
    cases: Sequence[Case], domain: Domain, common: frozenset[str], fewest: int, rng: np.random.Generator
) -> list[Case]:
    """These cases and others of the domain: those that bring every common trait, then any until `fewest` are added."""
    missing = common.difference(*map(traits, cases))
    candidates = [domain(rng) for _ in range(CANDIDATES * fewest if missing else fewest)]
    brought = [missing & traits(case) for case in candidates] if missing else []
    while missing.difference(*brought) and len(candidates) < PATIENCE:
        candidates.append(domain(rng))
        brought.append(missing & traits(candidates[-1]))
    chosen: list[int] = []
    while missing:
        best = max(range(len(candidates)), key=lambda index: len(brought[index] & missing))
        if not brought[best] & missing:
            break
        chosen.append(best)
        missing -= brought[best]
    # What is special only in how two arguments are related is no trait; more cases are more likely to meet it.
    rest = (index for index in range(len(candidates)) if index not in chosen)
    chosen += islice(rest, max(0, fewest - len(chosen)))
    return [*cases, *(replace(candidates[index], kind=ALLOWED) for index in chosen)]


def traits(case: Case) -> set[str]:
    """What kind of input this is: sizes, signs, zeros, equal entries and choices, each with the place where it is.

    What its kind calls it is a trait as well: so a domain names what is special only together.
    """
    named = set() if case.kind == UNNAMED else {f"kind: {case.kind}"}
    return named | {f"{place}: {trait}" for name, value in case.inputs.items() for place, trait in _of(value, name)}


def _of(value: Any, place: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, entry in value.items():
            yield from _of(entry, f"{place}.{key}")
    elif isinstance(value, str):
        if len(value) < SHORT:
            yield place, repr(value)
    elif value is None or isinstance(value, bool | np.bool_):
        yield place, str(value)
    elif isinstance(value, int | float | np.generic | np.ndarray):
        for trait in _of_numbers(np.asarray(value)):
            yield place, trait
    elif isinstance(value, Sequence):
        yield place, ("no entry", "one entry", "several entries")[min(len(value), 2)]
        if len(value) > MANY:
            yield place, "many entries"
        if value and all(isinstance(entry, int | float) and not isinstance(entry, bool) for entry in value):
            yield from ((place, trait) for trait in _of_numbers(np.asarray(value)))
        elif len(value) > MANY and all(isinstance(entry, str) for entry in value):
            yield place, "texts"  # names of rows, and no choices
        else:
            for entry in value:
                yield from _of(entry, f"{place}[]")


def _of_numbers(array: np.ndarray) -> Iterator[str]:
    yield f"{array.ndim} axes of {array.dtype}"
    yield from (f"axis {axis} of length {length}" for axis, length in enumerate(array.shape) if length < 2)
    yield from (f"axis {axis} is long" for axis, length in enumerate(array.shape) if length > LONG)
    for axis, (length, after) in enumerate(pairwise(array.shape)):
        if length == after > 1:
            yield f"axes {axis} and {axis + 1} of equal length"  # what belongs to one fits the other
    if array.dtype.kind not in "biuf":
        return
    numbers = array.astype(float).ravel()
    finite = numbers[np.isfinite(numbers)]
    holds = {
        "nan": np.isnan(numbers).any(),
        "an infinity": np.isinf(numbers).any(),
        "0": (finite == 0).any(),
        "negative numbers": (finite < 0).any(),
        "positive numbers": (finite > 0).any(),
        "large numbers": (np.abs(finite) > LARGE).any(),
        "tiny numbers": ((finite != 0) & (np.abs(finite) < 1 / LARGE)).any(),
        "nothing but 0": finite.size and not finite.any(),
        "nothing but 1": finite.size and (finite == 1).all(),
        "equal numbers": len(np.unique(finite)) < finite.size,
        "one number several times": finite.size > 1 and len(np.unique(finite)) == 1,
    }
    yield from (f"holds {trait}" for trait, is_there in holds.items() if is_there)
