"""The form in which a question is described once: what it is worth, what is right, what goes wrong, what is drawn.

The visible check's cases, the judge and the texts of the misconceptions are derived from it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

import numpy as np

from lecture_lib.notebook.compare import agree
from lecture_lib.notebook.misconceptions import Fields
from lecture_lib.notebook.question import Misconception, PublicCase
from lecture_lib.notebook.registry import find_question
from lecture_lib.notebook.visible_cases import practice_json

from .cases import Case, Observation
from .coverage import ALLOWED, common_traits, covering
from .graded_parts import (
    DescriptionError,
    Graded,
    Mistake,
    Simulation,
    changed_fields,
    charged_beyond,
    frozen,
    nested,
    split,
)
from .judgement import Judgement, Simulated
from .verdict import Verdict

_MOST_DRAWS = 100
"""Sets that are drawn until one shows every mistake where it should."""
_MOST_PRACTICE = 300_000
"""Characters of the practice cases of a question."""


class Consequences(NamedTuple):
    """The parts that each form of a mistake costs, and the pairs of forms that give the same values."""

    costs: dict[str, frozenset[str]]
    alike: frozenset[tuple[str, str]]


@dataclass(frozen=True)
class Description:
    """One graded question.

    `visible` are the cases of the visible check, each with its name as the kind; a function makes them where every
    command would wait for it. `draw` gives the hidden cases of one set. `domain` gives any case within the question's
    wording: every right answer agrees with the reference there.
    `facts` turns an observation into what the reference says, where many results are right and a case's key decides.
    `practice` makes of a hidden case one that the visible check can try, or is None where there are none to be had.
    At least `added` cases of the domain join each set, so that it holds every kind of input that is not rare there
    (`coverage.py`): fewer where a case takes long, and none where `draw` has them all.
    """

    id: str
    parts: tuple[Graded, ...]
    reference: Simulation
    mistakes: tuple[Mistake, ...]
    visible: tuple[Case, ...] | Callable[[], tuple[Case, ...]]
    draw: Callable[[np.random.Generator], list[Case]]
    domain: Callable[[np.random.Generator], Case]
    facts: Callable[[Case, Observation], Observation] = lambda case, observation: observation
    practice: Callable[[Case], Case] | None = lambda case: case
    added: int = 16

    @property
    def points(self) -> dict[str, float]:
        """What each graded part is worth, by its name."""
        return {part.name: part.points for part in self.parts}

    @cached_property
    def visible_cases(self) -> tuple[Case, ...]:
        """The cases of the visible check."""
        return self.visible() if callable(self.visible) else self.visible

    def draw_set(self, rng: np.random.Generator) -> list[Case]:
        """The hidden cases of one set: `draw`, again until every mistake costs the same parts as on any other set.

        Inputs can agree by chance, and a mistake that gives the right values on a whole set would earn full points.
        Two mistakes that differ on other sets must differ here too, or one would get the other's name.
        Raises DescriptionError, naming the mistakes, when that holds for none of many sets.
        """
        usual = self._usual
        for _ in range(_MOST_DRAWS):
            cases = self._covered(self.draw(rng), rng)
            consequences = self._consequences(cases)
            # `<=`: mistakes that differ here although they are alike on the usual set take no name from each other.
            if consequences.costs == usual.costs and consequences.alike <= usual.alike:
                return cases
        if consequences.costs == usual.costs:
            first, second = min(consequences.alike - usual.alike)
            raise DescriptionError(
                f"{self.id}: the mistakes {first} and {second} give the same values on each of {_MOST_DRAWS} sets, and "
                "not on the first: let `draw` give a case that tells them apart always"
            )
        form = next(form for form, parts in consequences.costs.items() if parts != usual.costs[form])
        before, last = (" and ".join(sorted(each.costs[form])) or "nothing" for each in (usual, consequences))
        raise DescriptionError(
            f"{self.id}: the mistake {form} costs {before} on one set and {last} on another, and none of "
            f"{_MOST_DRAWS} sets was like the first: let `draw` give cases that show it in the same parts always"
        )

    def _covered(self, cases: list[Case], rng: np.random.Generator) -> list[Case]:
        return covering(cases, self.domain, self._common, self.added, rng) if self.added else cases

    @cached_property
    def _common(self) -> frozenset[str]:
        return common_traits(self.domain)

    @cached_property
    def _usual(self) -> Consequences:
        """The consequences of mistakes on the first of some sets on which every one costs a part."""
        # Not from the course's secret: what is usual must be the same in every course.
        rng = np.random.default_rng(0)
        for _ in range(_MOST_DRAWS):
            consequences = self._consequences(self._covered(self.draw(rng), rng))
            unseen = next((form for form, parts in consequences.costs.items() if not parts), None)
            if unseen is None:
                return consequences
        raise DescriptionError(
            f"{self.id}: the mistake {unseen} gives the right values on all hidden cases that were drawn "
            f"{_MOST_DRAWS} times: let `draw` give a case that shows it"
        )

    def _consequences(self, cases: Sequence[Case]) -> Consequences:
        """What the forms of mistakes do on these cases."""
        tolerance = find_question(self.id).relative_tolerance
        expected = [nested(self.reference(case)) for case in cases]

        def costs_of(simulated: Sequence[Fields]) -> frozenset[str]:
            changed = [
                (case, {f"{owner}.{name}" for owner, names in fields.items() for name in names})
                for case, fields in zip(cases, simulated, strict=True)
            ]
            lost = {
                part.name
                for part in self.parts
                if any(part.counts(case) and paths.intersection(part.fields) for case, paths in changed)
            }
            added = {path for case, paths in changed if case.kind == ALLOWED for path in paths}
            beyond = charged_beyond(self.parts, lambda _, path: path if path in added else "")
            return frozenset(lost or {part.name for part, _ in beyond})

        costs, values = {}, {}
        forms = [form for mistake in self.mistakes if not mistake.constant for form in mistake.forms().items()]
        for form, simulate in forms:
            simulated = [
                self._changed_by(form, simulate, case, right, tolerance)
                for case, right in zip(cases, expected, strict=True)
            ]
            costs[form] = costs_of(simulated)
            values[form] = frozen(simulated)
        alike = frozenset(
            (first, second) for first, second in combinations(sorted(values), 2) if values[first] == values[second]
        )
        return Consequences(costs, alike)

    def _changed_by(self, form: str, simulate: Simulation, case: Case, right: Fields, tolerance: float) -> Fields:
        try:
            return changed_fields(simulate(case), right, tolerance)
        except Exception as error:
            raise DescriptionError(
                f"{self.id}: what the mistake {form} gives cannot be computed for the case {case.kind!r}: "
                f"{type(error).__name__}: {error}. A function in `given` gets all inputs of a case by name: let it end "
                "with `**_` if it needs only some."
            ) from error

    def judge(
        self, cases: Sequence[Case], observations: Sequence[Observation], simulated: Simulated | None = None
    ) -> Verdict:
        """Points part by part, and the misconception that explains the first part without full points.

        `simulated` keeps what mistakes give on these cases, for whoever judges many observations of the same ones.
        """
        facts = [self.facts(case, observation) for case, observation in zip(cases, observations, strict=True)]
        tolerance = find_question(self.id).relative_tolerance
        expected = [nested(self.reference(case)) for case in cases]
        judged = Judgement(
            self.parts, self.mistakes, tolerance, cases, expected, facts, {} if simulated is None else simulated
        )
        return Verdict(self.id, judged.parts, misconception=judged.misconception)

    @property
    def _published(self) -> list[Mistake]:
        return [mistake for mistake in self.mistakes if not mistake.unpublished]

    def misconceptions(self, *, published: bool = False) -> dict[str, Misconception]:
        """The words of each mistake, by its id; or only of those that ship with the visible check."""
        mistakes = self._published if published else self.mistakes
        return {mistake.id: Misconception(mistake.what, mistake.look_at) for mistake in mistakes}

    def public_cases(self) -> tuple[PublicCase, ...]:
        """The visible cases with what is right on them, and what each mistake gives where that differs.

        Raises DescriptionError when a mistake shows on no visible case, or looks like another one on all of them.
        """
        tolerance = find_question(self.id).relative_tolerance
        cases = []
        for case in self.visible_cases:
            expected = nested(self.reference(case))
            forms = {name: form for mistake in self._published for name, form in mistake.forms().items()}
            mistakes = {
                name: self._changed_by(name, simulate, case, expected, tolerance) for name, simulate in forms.items()
            }
            mistakes = {name: fields for name, fields in mistakes.items() if fields}
            cases.append(PublicCase(case.kind, case.inputs, expected, mistakes))
        self._refuse_unknown_fields()
        self._refuse_alike(cases, tolerance)
        return tuple(cases)

    def practice_cases(self) -> tuple[PublicCase, ...]:
        """A set drawn for everybody, in which an answer that loses points on hidden cases loses them too.

        What does not fit into the file that ships is left out.
        """
        if self.practice is None:
            return ()
        drawn = map(self.practice, self.draw_set(np.random.default_rng(zlib.crc32(self.id.encode()))))
        cases = [PublicCase(case.kind, case.inputs, nested(self.reference(case)), {}) for case in drawn]
        sizes = np.array([len(practice_json(case)) for case in cases])
        smallest = np.argsort(sizes, kind="stable")  # first, so that one long case does not take the place of many
        fitting = set(smallest[np.cumsum(sizes[smallest]) <= _MOST_PRACTICE].tolist())
        return tuple(case for number, case in enumerate(cases) if number in fitting)

    def _refuse_unknown_fields(self) -> None:
        """Raise DescriptionError for a graded field that the reference gives on no case: a slip in its name."""
        cases = [*self.visible_cases, *self.draw(np.random.default_rng(0))]
        given = sorted({path for case in cases for path in self.reference(case)})
        for part in self.parts:
            for path in sorted(set(part.fields) - set(given)):
                raise DescriptionError(
                    f"{self.id}, part {part.name}: the reference never gives {path!r}; it gives {', '.join(given)}"
                )

    def _refuse_alike(self, cases: Sequence[PublicCase], tolerance: float) -> None:
        earlier: dict[str, list[Fields]] = {}
        visible = [mistake for mistake in self._published if not (mistake.hidden_only or mistake.constant)]
        for name in (name for mistake in visible for name in mistake.forms()):
            fields = [case.mistakes.get(name, {}) for case in cases]
            if not any(fields):
                raise DescriptionError(
                    f"{self.id}: the mistake {name} gives the right values on every visible case: add a case "
                    "that shows it, or say hidden_only=True"
                )
            for earlier_name, earlier_fields in earlier.items():
                if agree(fields, earlier_fields, tolerance):
                    raise DescriptionError(
                        f"{self.id}: on the visible cases the mistakes {earlier_name} and {name} give the same: add a "
                        "case that tells them apart, or say hidden_only=True for one of them"
                    )
            earlier[name] = fields

    def check(self) -> None:
        """Raise DescriptionError when names in the description do not fit together."""
        mistakes = [mistake.id for mistake in self.mistakes]
        names = [part.name for part in self.parts]
        for kind, ids in (("mistake", mistakes), ("part", names)):
            for doubled in sorted({name for name in ids if ids.count(name) > 1}):
                raise DescriptionError(f"{self.id}: two {kind}s are called {doubled}")
        public = find_question(self.id)
        for part in self.parts:
            for unknown in sorted({*part.unless, *part.forgives} - set(mistakes)):
                raise DescriptionError(f"{self.id}, part {part.name}: there is no mistake {unknown}")
            if part.needs and part.needs not in names:
                raise DescriptionError(f"{self.id}, part {part.name}: there is no part {part.needs}")
            for path in part.fields:
                if split(path)[0] not in public.parts or not split(path)[1]:
                    raise DescriptionError(
                        f"{self.id}, part {part.name}: {path!r} is not PART.FIELD of the observation "
                        f"(parts: {', '.join(public.parts)})"
                    )
