"""What students do to cells, by accident or on purpose: it costs nobody a point that was earned, and gains none."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
from helpers.submissions import (
    ACCUMULATE,
    CLIP,
    FIRST,
    RIGHT,
    SECOND,
    TEXT,
    WORDS,
    Notebook,
    cell_of,
    code,
    earned,
    edited,
    handed_in,
    notes,
    position_of,
    rebuilt,
    source_of,
    text_cell,
)

from autograders import notebooks
from autograders.course import STUB, Course
from autograders.intake.reading.bindings import definitions, names_bound
from autograders.intake.reading.decoding import Unreadable
from autograders.intake.reading.reading import read_notebook
from autograders.intake.reading.rebuild import rebuild

FULL = 8.0
RIGHT_CLIP = source_of(CLIP, "right_loops")
FUNCTION_1, FUNCTION_2 = (part.strip() for part in RIGHT_CLIP.split("\n\n\n"))
WRONG_CLIP = source_of(CLIP, "wrong_per_parameter")


@pytest.fixture(scope="module")
def good(released: Course) -> Notebook:
    """A submission with full points in both questions."""
    return handed_in(released)


def copied(nb: Notebook) -> None:
    nb["cells"].insert(position_of(nb, CLIP), copy.deepcopy(cell_of(nb, CLIP)))


def copied_and_stub_left(nb: Notebook) -> None:
    copy_of_it = copy.deepcopy(cell_of(nb, CLIP))
    cell_of(nb, CLIP)["source"] = nb["stubs"][CLIP]
    nb["cells"].insert(position_of(nb, f"{CLIP}-test") + 1, copy_of_it)


def released_stub_kept_below(nb: Notebook) -> None:
    stub = copy.deepcopy(cell_of(nb, CLIP))
    stub["source"] = nb["stubs"][CLIP]
    nb["cells"].insert(position_of(nb, CLIP) + 1, stub)


def older_version_above(nb: Notebook) -> None:
    older = copy.deepcopy(cell_of(nb, CLIP))
    older["source"] = WRONG_CLIP
    nb["cells"].insert(position_of(nb, CLIP), older)


def wrong_copy_below_the_test(nb: Notebook) -> None:
    older = copy.deepcopy(cell_of(nb, CLIP))
    older["source"] = WRONG_CLIP
    nb["cells"].insert(position_of(nb, f"{CLIP}-test") + 1, older)


def split_with_both_ids(nb: Notebook) -> None:
    second = copy.deepcopy(cell_of(nb, CLIP))
    cell_of(nb, CLIP)["source"], second["source"] = FUNCTION_1, FUNCTION_2
    nb["cells"].insert(position_of(nb, CLIP) + 1, second)


def split_with_one_id(nb: Notebook) -> None:
    cell_of(nb, CLIP)["source"] = FUNCTION_2
    nb["cells"].insert(position_of(nb, CLIP), code(FUNCTION_1))


def split_below(nb: Notebook) -> None:
    cell_of(nb, CLIP)["source"] = FUNCTION_1
    nb["cells"].insert(position_of(nb, CLIP) + 1, code(FUNCTION_2))


def split_without_ids(nb: Notebook) -> None:
    position = position_of(nb, CLIP)
    nb["cells"][position : position + 1] = [code(FUNCTION_1), code(FUNCTION_2)]


def deleted_and_written_anew(nb: Notebook) -> None:
    nb["cells"][position_of(nb, CLIP)] = code(RIGHT_CLIP)


def moved_to_the_end(nb: Notebook) -> None:
    nb["cells"].append(nb["cells"].pop(position_of(nb, CLIP)))


def written_below_the_test(nb: Notebook) -> None:
    cell_of(nb, CLIP)["source"] = nb["stubs"][CLIP]
    nb["cells"].insert(position_of(nb, f"{CLIP}-test") + 1, code(RIGHT_CLIP))


def written_into_the_setup_cell(nb: Notebook) -> None:
    nb["cells"].pop(position_of(nb, CLIP))
    setup = next(cell for cell in nb["cells"] if "setup" in cell["metadata"].get("tags", []))
    setup["source"] = "".join(setup["source"]) + "\n\n" + RIGHT_CLIP


def swapped_ids(nb: Notebook) -> None:
    one, other = cell_of(nb, CLIP), cell_of(nb, ACCUMULATE)
    one["metadata"], other["metadata"] = other["metadata"], one["metadata"]
    one["id"], other["id"] = other["id"], one["id"]


def swapped_places(nb: Notebook) -> None:
    one, other = position_of(nb, CLIP), position_of(nb, ACCUMULATE)
    nb["cells"][one], nb["cells"][other] = nb["cells"][other], nb["cells"][one]


def reversed_cells(nb: Notebook) -> None:
    nb["cells"].reverse()


def retyped_markdown(nb: Notebook) -> None:
    cell_of(nb, CLIP)["cell_type"] = "markdown"


def retyped_raw(nb: Notebook) -> None:
    cell_of(nb, CLIP)["cell_type"] = "raw"


def all_metadata_lost(nb: Notebook) -> None:
    for cell in nb["cells"]:
        cell["metadata"] = {}


def ids_and_metadata_lost(nb: Notebook) -> None:
    for cell in nb["cells"]:
        cell["metadata"] = {}
        cell.pop("id")


def deleted_tests(nb: Notebook) -> None:
    nb["cells"] = [cell for cell in nb["cells"] if not is_test(cell)]


def edited_and_retyped_tests(nb: Notebook) -> None:
    cell_of(nb, f"{CLIP}-test")["source"] = "8.0"
    cell_of(nb, f"{ACCUMULATE}-test")["cell_type"] = "markdown"


def duplicated_tests(nb: Notebook) -> None:
    nb["cells"].insert(0, copy.deepcopy(cell_of(nb, f"{CLIP}-test")))


def is_test(cell: dict[str, object]) -> bool:
    return str(cell["metadata"].get("nbgrader", {}).get("grade_id", "")).endswith("-test")  # type: ignore[attr-defined]


def forged_metadata(nb: Notebook) -> None:
    for cell in nb["cells"]:
        if "nbgrader" in cell["metadata"]:
            cell["metadata"]["nbgrader"] |= {"points": 4000, "locked": False, "schema_version": 99, "grade": True}
            cell["metadata"]["nbgrader"] |= {"checksum": "0" * 32, "solution": not is_test(cell), "extra": {"a": [1]}}


def unknown_nbgrader_cells(nb: Notebook) -> None:
    forged = {"grade_id": "03a-bonus", "grade": True, "points": 1000, "solution": False, "schema_version": 3}
    nb["cells"].insert(0, code("1000.0", metadata={"nbgrader": forged}))


def tags_that_hide(nb: Notebook) -> None:
    for cell in nb["cells"]:
        cell["metadata"]["tags"] = ["demo", "skip-execution", "remove-cell"]


HARMLESS: dict[Callable[[Notebook], None], str] = {
    copied: "identical or empty copies are one",
    copied_and_stub_left: "identical or empty copies are one",
    released_stub_kept_below: "identical or empty copies are one",
    older_version_above: "the last one above its test counts",
    wrong_copy_below_the_test: "the last one above its test counts",
    split_with_both_ids: "the others run in their place",
    split_with_one_id: "",
    split_below: "",
    split_without_ids: "found by the functions that it defines",
    deleted_and_written_anew: "found by the functions that it defines",
    moved_to_the_end: "",
    written_below_the_test: "found by the functions that it defines",
    written_into_the_setup_cell: "found by the functions that it defines",
    swapped_ids: "the cell with the id 03a-accumulate answers 03a-clip",
    swapped_places: "",
    reversed_cells: "",
    retyped_markdown: "was a markdown cell and is read as code",
    retyped_raw: "was a raw cell and is read as code",
    all_metadata_lost: "",
    ids_and_metadata_lost: "found by the functions that it defines",
    deleted_tests: "the test cell 03a-clip-test was deleted",
    edited_and_retyped_tests: "the test cell 03a-clip-test was changed",
    duplicated_tests: "the test cell 03a-clip-test is there 2 times",
    forged_metadata: "",
    unknown_nbgrader_cells: "",
    tags_that_hide: "",
}


@pytest.mark.parametrize("edit", HARMLESS, ids=lambda edit: edit.__name__)
def test_an_accident_costs_no_earned_point_and_is_noted(released: Course, good: Notebook, edit) -> None:
    stubs = {CLIP: cell_of(handed_in(released, {}), CLIP)["source"]}
    nb = edited({**good, "stubs": stubs}, edit)
    del nb["stubs"]
    graded = rebuilt(released, nb)
    assert {question: earned(graded, question) for question in RIGHT} == dict.fromkeys(RIGHT, FULL)
    assert HARMLESS[edit] in notes(graded)
    assert cell_by_id(graded, WORDS).source == TEXT
    if not HARMLESS[edit]:
        assert notes(graded) == ""


PUT_RIGHT_IN = ("split", "deleted_and", "written", "wrong_copy")


@pytest.mark.parametrize(
    "edit", [edit for edit in HARMLESS if not edit.__name__.startswith(PUT_RIGHT_IN)], ids=lambda edit: edit.__name__
)
def test_the_same_done_to_a_wrong_answer_gains_nothing(released: Course, edit) -> None:
    nb = handed_in(released, {CLIP: "wrong_per_parameter"})
    stubs = {CLIP: cell_of(handed_in(released, {}), CLIP)["source"]}
    nb = edited({**nb, "stubs": stubs}, edit)
    graded = rebuilt(released, nb)
    assert earned(graded, CLIP) <= 24
    assert earned(graded, ACCUMULATE) == 0
    cells = [cell.metadata["nbgrader"] for cell in graded.cells if "nbgrader" in cell.metadata]
    assert sum(meta.get("points", 0) for meta in cells) == 18
    assert len({meta["grade_id"] for meta in cells}) == len(cells)


def cell_by_id(nb, grade_id: str):
    return next(cell for cell in nb.cells if cell.metadata.get("nbgrader", {}).get("grade_id") == grade_id)


def test_helper_cells_keep_their_place(released: Course, good: Notebook) -> None:
    """Three helpers that work only where they stand: above, between the functions of a split answer, in a demo cell."""

    def helped(nb: Notebook) -> None:
        demo = next(cell for cell in nb["cells"] if "demo" in cell["metadata"].get("tags", []))
        demo["source"] = "".join(demo["source"]) + "\nfrom math import sqrt as root\n"
        position = position_of(nb, CLIP)
        nb["cells"][position]["source"] = FUNCTION_1
        second = FUNCTION_2.replace("math.sqrt", "my_root").replace("g.norm()", "my_norm(g)")
        first = code("def my_norm(tensor):\n    return clip_by_global_norm([tensor], 1)[1]")
        nb["cells"][position + 1 : position + 1] = [first, code("my_root = lambda x: root(x)"), code(second)]

    graded = rebuilt(released, edited(good, helped))
    assert earned(graded, CLIP) == FULL
    demo = next(cell for cell in graded.cells if "demo" in cell.metadata.get("tags", []))
    assert "as root" not in demo.source


def test_a_deleted_answer_is_unanswered_and_said(released: Course, good: Notebook) -> None:
    graded = rebuilt(released, edited(good, lambda nb: nb["cells"].pop(position_of(nb, CLIP))))
    assert earned(graded, CLIP) == 0
    assert earned(graded, ACCUMULATE) == FULL
    assert "the answer cell 03a-clip is missing" in notes(graded)
    assert STUB in cell_by_id(graded, CLIP).source


def test_texts_that_differ_are_all_kept_for_the_person_who_grades_them(released: Course, good: Notebook) -> None:
    def twice(nb: Notebook) -> None:
        other = copy.deepcopy(cell_of(nb, WORDS))
        other["source"] = "A second thought."
        nb["cells"].append(other)

    graded = rebuilt(released, edited(good, twice))
    source = cell_by_id(graded, WORDS).source
    assert TEXT in source
    assert "A second thought." in source
    assert "2 different texts: all are kept" in notes(graded)


def test_a_text_whose_cell_was_replaced_is_found_by_its_place_with_its_pictures(
    released: Course, good: Notebook
) -> None:
    def replaced(nb: Notebook) -> None:
        own = text_cell("Written in a new cell ![plot](attachment:p.png).")
        own["attachments"] = {"p.png": {"image/png": "aGk="}}
        nb["cells"][position_of(nb, WORDS)] = own

    graded = rebuilt(released, edited(good, replaced))
    cell = cell_by_id(graded, WORDS)
    assert "Written in a new cell" in cell.source
    assert cell.cell_type == "markdown"
    assert cell["attachments"] == {"p.png": {"image/png": "aGk="}}
    assert "found by its place" in notes(graded)


def test_an_unanswered_text_is_as_released(released: Course) -> None:
    nb = handed_in(released, {}, text="")
    nb["cells"].append(copy.deepcopy(cell_of(nb, WORDS)))
    graded = rebuilt(released, nb)
    master = notebooks.read(released.notebook("release", FIRST))
    assert cell_by_id(graded, WORDS).source == cell_by_id(master, WORDS).source


def test_another_assignments_notebook_is_refused(released: Course) -> None:
    other = read_notebook(released.notebook("release", SECOND).read_bytes()).notebook
    with pytest.raises(Unreadable, match="another notebook"):
        rebuild(other, notebooks.read(released.notebook("release", FIRST)))


def test_a_release_that_is_not_the_one_graded_is_noted(released: Course, good: Notebook) -> None:
    graded = rebuilt(released, edited(good, lambda nb: nb["metadata"]["lecture"].update(version="0" * 12)))
    assert "made from release 000000000000, graded as" in notes(graded)
    assert earned(graded, CLIP) == FULL


def test_an_untouched_submission_has_no_notes_and_the_released_cells(released: Course) -> None:
    graded = rebuilt(released, handed_in(released, {}, text=""))
    master = notebooks.read(released.notebook("release", FIRST))
    assert [(cell.id, cell.source) for cell in graded.cells] == [(cell.id, cell.source) for cell in master.cells]
    assert notes(graded) == ""


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("def f(): pass\nclass A: pass", {"f", "A"}),
        ("a, (b, c) = 1, (2, 3)\nd: int = 4\nimport x.y, z as w", {"a", "b", "c", "d", "x", "w"}),
        ("%matplotlib inline\n!ls\nf = lambda: 1", {"f"}),
        ("def broken(:\n    pass\ng = 3", {"broken", "g"}),
        ("if True:\n    h = 1", set()),
        ("", set()),
        ("\x00", set()),
    ],
)
def test_the_names_that_a_cell_binds(source: str, names: set[str]) -> None:
    assert names_bound(source) == names


def test_a_cells_own_definitions() -> None:
    assert list(definitions("import math\nprint(1)\ndef f():\n    return 2\n").values()) == [
        "import math",
        "def f():\n    return 2",
    ]


def test_a_definition_keeps_its_decorator_and_may_be_deep() -> None:
    decorated = "@torch.no_grad()\ndef f():\n    return 2"
    deep = "def g():\n    return " + "+".join("x" * 900)
    assert list(definitions(f"{decorated}\n{deep}\n").values()) == [decorated, deep]
