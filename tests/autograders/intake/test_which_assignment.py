"""Which assignment a notebook is of, in the full course: by stamp, by the cells as released, by what it defines."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.submissions import Notebook

from autograders.course import Course
from autograders.intake.collect import collect
from autograders.intake.intake import receive
from autograders.intake.reading.identify import stamped, which
from autograders.intake.reading.matching import match_answers
from autograders.intake.reading.reading import read_notebook
from autograders.notebooks import assignments, read
from autograders.questions.question import QUESTIONS

pytestmark = pytest.mark.slow

FIRST, SECOND = assignments()[:2]


@pytest.fixture
def full(released_in_full: Course, tmp_path: Path) -> Course:
    """A course to collect into, with both notebooks as students get them."""
    course = Course(tmp_path / "course")
    course.root.mkdir()
    for step in ("source", "release"):
        (course.root / step).symlink_to(released_in_full.root / step)
    return course


def answered(course: Course, name: str) -> Notebook:
    """A released notebook with a right answer of the bank to every question."""
    nb: Notebook = json.loads(course.notebook("release", name).read_text("utf-8"))
    for cell in nb["cells"]:
        question = QUESTIONS.get(cell["metadata"].get("nbgrader", {}).get("grade_id", ""))
        if question is not None:
            cell["source"] = next(answer.source for answer in question.answers() if answer.name.startswith("right"))
    return nb


def saved_by_colab(nb: Notebook) -> Notebook:
    """As Colab writes it: format 4.0, ids of its own in the cells' metadata, sources as lists of lines."""
    cells = []
    for number, cell in enumerate(nb["cells"]):
        kept = {key: value for key, value in cell.items() if key != "id"}
        kept["metadata"] = {**cell["metadata"], "id": f"tY{number:08x}Qz"}
        kept["source"] = "".join(cell["source"]).splitlines(keepends=True)
        cells.append(kept)
    metadata = {**nb["metadata"], "colab": {"provenance": [], "toc_visible": True}}
    return {"nbformat": 4, "nbformat_minor": 0, "metadata": metadata, "cells": cells}


def without_metadata(nb: Notebook) -> Notebook:
    """Nothing but kinds and sources, as after a copy of the text into a new notebook."""
    cells = [{**cell, "metadata": {}} for cell in nb["cells"]]
    for cell in cells:
        cell.pop("id", None)
    return {"nbformat": 4, "nbformat_minor": 0, "metadata": {}, "cells": cells}


def without_ids(nb: Notebook) -> Notebook:
    """The stamp is left, ids and nbgrader's metadata are gone."""
    return {**without_metadata(nb), "metadata": nb["metadata"]}


def without_stamp(nb: Notebook) -> Notebook:
    return {**nb, "metadata": {}}


def answers_alone(nb: Notebook) -> Notebook:
    """The answers typed into a notebook of the student's own."""
    code = [cell for cell in nb["cells"] if cell["metadata"].get("nbgrader", {}).get("solution")]
    return without_metadata({**nb, "cells": [cell for cell in code if cell["cell_type"] == "code"]})


def with_a_cell_of_the_other(nb: Notebook, other: Notebook) -> Notebook:
    """A cell of the other notebook was copied in, with its metadata, where the stamp is gone."""
    copied = next(cell for cell in other["cells"] if cell["metadata"].get("nbgrader", {}).get("solution"))
    return without_stamp({**nb, "cells": [*nb["cells"], copied]})


FORMS: dict[str, Callable[[Notebook, Notebook], Any]] = {
    "as released": lambda nb, _: nb,
    "saved by Colab": lambda nb, _: saved_by_colab(nb),
    "saved by Colab, without metadata": lambda nb, _: saved_by_colab(without_metadata(nb)),
    "without a stamp": lambda nb, _: without_stamp(nb),
    "without ids": lambda nb, _: without_ids(nb),
    "without metadata": lambda nb, _: without_metadata(nb),
    "the answers alone": lambda nb, _: answers_alone(nb),
    "with a cell of the other": with_a_cell_of_the_other,
    "with the other's stamp": lambda nb, other: {**nb, "metadata": other["metadata"]},
}
FILES = {
    "its name": "{name}.ipynb",
    "Colab's copy": "Copy of {name}.ipynb",
    "another name": "Untitled3.ipynb",
    "the other's name": "{other}.ipynb",
}


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", [FIRST, SECOND])
def test_a_notebook_of_the_full_course_is_taken_for_what_it_is(
    full: Course, tmp_path: Path, name: str, form: str, file: str
) -> None:
    other = SECOND if name == FIRST else FIRST
    nb = FORMS[form](answered(full, name), answered(full, other))
    content = json.dumps(copy.deepcopy(nb)).encode()
    full.roster.write_text("id,name\nada,Ada Lovelace\n", "utf-8")
    path = tmp_path / "in" / "Ada Lovelace_101_assignsubmission_file_" / FILES[file].format(name=name, other=other)
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    (found,) = collect(full, [tmp_path / "in"], assignments())
    assert found.problem is None
    assert (found.student, found.notebooks) == ("ada", (name,))
    assert full.notebook("submitted", name, "ada").read_bytes() == content
    given = match_answers(receive(full, name, "ada").notebook, read(full.notebook("release", name))).sources
    asked = [question for question in given if question in QUESTIONS]
    whole = answered(full, name)
    assert len(asked) == len([cell for cell in whole["cells"] if _question(cell) in QUESTIONS])
    for cell in whole["cells"]:
        if _question(cell) in asked:
            assert given[_question(cell)] == cell["source"]


def test_the_quick_look_says_what_reading_says(full: Course) -> None:
    """`stamped` may leave a file to `which`, and never says anything else; it knows what students usually send."""
    releases = {name: read(full.notebook("release", name)) for name in assignments()}
    quick = {}
    for name, other in ((FIRST, SECOND), (SECOND, FIRST)):
        for form, make in FORMS.items():
            content = json.dumps(make(answered(full, name), answered(full, other))).encode()
            quick[name, form] = stamped(content, releases)
            if quick[name, form] is not None:
                assert which(read_notebook(content).notebook, releases) == [quick[name, form]]
        assert quick[name, "as released"] == quick[name, "saved by Colab"] == name
        assert quick[name, "without a stamp"] is quick[name, "without metadata"] is None


BROKEN: dict[str, Callable[[Notebook], Any]] = {
    "no notebook": lambda _: [],
    "cells that are none": lambda nb: {**nb, "cells": [1, None, "cell", *nb["cells"]]},
    "a list as stamp": lambda nb: {**nb, "metadata": {"lecture": {"assignment": ["x"]}}},
    "a stamp that is text": lambda nb: {**nb, "metadata": {"lecture": FIRST}},
    "metadata that are none": lambda nb: {**nb, "cells": [{**cell, "metadata": 3} for cell in nb["cells"]]},
    "sources of numbers": lambda nb: {**nb, "cells": [{**cell, "source": [1, 2]} for cell in nb["cells"]]},
    "one very long cell": lambda nb: {**nb, "cells": [{**nb["cells"][0], "source": "x" * 300_000}]},
    "too many cells": lambda nb: {**nb, "cells": nb["cells"][:1] * 6_000},
    "too long": lambda nb: {**nb, "filling": "x" * 2_000_001},
}


@pytest.mark.parametrize("broken", BROKEN)
def test_the_quick_look_leaves_odd_files_to_reading(full: Course, broken: str) -> None:
    nb: Notebook = json.loads(full.notebook("release", FIRST).read_text("utf-8"))
    assert stamped(json.dumps(BROKEN[broken](nb)).encode(), {FIRST: read(full.notebook("release", FIRST))}) is None


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"[" * 100_000, b'{"cells": 1' + b"0" * 5_000 + b"}", b"\0{}"])
def test_the_quick_look_survives_bytes_of_any_kind(content: bytes) -> None:
    assert stamped(content, {}) is None


def _question(cell: dict[str, Any]) -> str:
    return str(cell["metadata"].get("nbgrader", {}).get("grade_id", ""))


@pytest.mark.parametrize("form", ["as released", "saved by Colab", "without metadata"])
def test_two_notebooks_in_one_folder_are_told_apart(full: Course, form: str) -> None:
    """Somebody put both notebooks into each assignment's folder, under names of their own."""
    both = {name: answered(full, name) for name in (FIRST, SECOND)}
    for name in both:
        folder = full.step("submitted", "ada", name)
        folder.mkdir(parents=True)
        for number, (each, nb) in enumerate(both.items()):
            written = FORMS[form](nb, both[SECOND if each == FIRST else FIRST])
            (folder / f"{number}.ipynb").write_text(json.dumps(written), "utf-8")
    for name in both:
        read_back = receive(full, name, "ada").notebook
        assert [cell.source for cell in read_back.cells] == ["".join(cell["source"]) for cell in both[name]["cells"]]


def test_what_only_both_notebooks_ask_for_is_decided_by_the_files_name_or_asked(full: Course, tmp_path: Path) -> None:
    code = {
        "cell_type": "code",
        "metadata": {},
        "outputs": [],
        "source": "def measure(model, loader):\n    return 1",
    }
    content = json.dumps({"nbformat": 4, "nbformat_minor": 0, "metadata": {}, "cells": [code]})
    full.roster.write_text("id\nada\nben\nzoe\n", "utf-8")
    folder = tmp_path / "in"
    for name in ("ada/03b.ipynb", "ben/Training recipe 03a.ipynb", "zoe/x.ipynb"):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(content, "utf-8")
    found = {item.label: item for item in collect(full, [folder], assignments())}
    assert found["ada/03b.ipynb"].notebooks == (SECOND,)
    assert found["ben/Training recipe 03a.ipynb"].notebooks == (FIRST,)
    assert "hand in one notebook for each" in str(found["zoe/x.ipynb"].problem)


def test_the_stamp_decides_between_cells_of_both(full: Course, tmp_path: Path) -> None:
    first, second = answered(full, FIRST), answered(full, SECOND)
    merged = {**first, "cells": [*second["cells"], *first["cells"]]}
    full.roster.write_text("id\nada\nben\n", "utf-8")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "ada.ipynb").write_text(json.dumps(merged), "utf-8")
    (tmp_path / "in" / "ben.ipynb").write_text(json.dumps(without_stamp(merged)), "utf-8")
    found = {item.label: item for item in collect(full, [tmp_path / "in"], assignments())}
    assert found["ada.ipynb"].notebooks == (FIRST,)
    assert "it has cells of 03a-training-recipe and 03b-debug-ladder" in str(found["ben.ipynb"].problem)


def test_the_stamps_assignment_is_read(full: Course) -> None:
    nb = read_notebook(full.notebook("release", SECOND).read_bytes()).notebook
    assert nb.metadata["lecture"]["assignment"] == SECOND
