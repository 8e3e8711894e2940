"""The notebooks: built from their texts, in the form that style asks for, with the lecture's numbers."""

from __future__ import annotations

import itertools
import re
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from conftest import ROOT

from autograders import notebooks
from autograders.course import STUB
from autograders.notebooks import (
    NotebookError,
    build,
    content_digest,
    from_text,
    notebook_path,
    number_of,
    separate_solutions,
    text_paths,
    to_text,
)
from autograders.questions.question import QUESTIONS, answers_to
from autograders.questions.stated_points import with_points
from autograders.sandbox.limits import Limits

pytestmark = pytest.mark.slow

TEXTS = text_paths()
IDS = [text.stem for text in TEXTS]
each_notebook = pytest.mark.parametrize("text", TEXTS, ids=IDS)


def outputs(nb) -> str:
    """Everything that a notebook's cells printed or displayed as text."""
    found = []
    for cell in nb.cells:
        for output in cell.get("outputs", []):
            found.append(output.get("text") or output.get("data", {}).get("text/plain", ""))
    return "\n".join(found)


@each_notebook
def test_the_notebook_is_built_from_its_text(text: Path) -> None:
    built, described = notebooks.read(notebook_path(text)), from_text(text)
    assert content_digest(built) == content_digest(described), "run `make notebooks`"
    assert [cell["id"] for cell in built.cells] == [cell["id"] for cell in described.cells]
    assert built.metadata["lecture"]["built"] == content_digest(built)


@each_notebook
def test_no_line_of_a_paragraph_begins_a_list(text: Path) -> None:
    """A sentence that ends with a number, "...with weights 1.", was shown as the first item of a list."""
    item = re.compile(r"(\d+[.)]|[-+*]) ")
    for cell in from_text(text).cells:
        if cell.cell_type == "markdown":
            lines = cell.source.splitlines()
            wrong = [
                line
                for before, line in itertools.pairwise(lines)
                if item.match(line) and before.strip() and not (item.match(before) or before.startswith("  "))
            ]
            assert not wrong


@each_notebook
def test_every_answer_cell_has_answers_in_the_bank(text: Path) -> None:
    """`autograde simulate`, and so `make run`, puts one into each; no other test reads those of 03c-p and its like."""
    for cell in notebooks.read(notebook_path(text)).cells:
        names = cell.metadata.get("nbgrader", {})
        if names.get("solution"):
            points = [answer.points for answer in answers_to(names["grade_id"])]
            if names.get("grade"):
                assert points == [names["points"], names["points"] / 2]
            else:
                assert points


@each_notebook
def test_the_text_with_a_line_for_each_cell_is_the_same_notebook(text: Path) -> None:
    nb = notebooks.read(notebook_path(text))
    nb.cells[0].source += "\n“quoted” \u2028 \ud83d\ude00"
    written = notebooks.as_text(nb)
    assert nbformat.reads(written, as_version=4) == nb
    assert len(written.split("\n")) == len(nb.cells) + 4
    nb.cells = []
    assert nbformat.reads(notebooks.as_text(nb), as_version=4) == nb


@each_notebook
def test_it_was_executed_without_an_error_or_warning(text: Path) -> None:
    nb = notebooks.read(notebook_path(text))
    for cell in nb.cells:
        if cell.cell_type == "code":
            assert cell.execution_count is not None
            for output in cell.outputs:
                assert output.output_type != "error"
                assert output.get("name") != "stderr", output.get("text")
    nbformat.validate(nb)


def graded_questions(text: Path) -> set[str]:
    """The questions of a notebook that a judge grades."""
    return {name for name in QUESTIONS if name.startswith(f"{number_of(text.stem)}-")}


def released(source: str) -> str:
    """A code cell as students get it."""
    return separate_solutions(source, STUB)[0].split("### BEGIN HIDDEN TESTS")[0]


@each_notebook
def test_it_is_in_the_form_that_style_asks_for(text: Path) -> None:
    nb = from_text(text)
    prose = [cell.source for cell in nb.cells if cell.cell_type == "markdown"]
    code = [released(cell.source).splitlines() for cell in nb.cells if cell.cell_type == "code"]
    lines = [sum(bool(line.strip()) for line in cell) for cell in code]
    assert statistics.median(lines) <= 5
    assert sum(count <= 10 for count in lines) >= 0.85 * len(lines)
    assert max(lines) <= 25
    read = sum(not cell[0].startswith("reveal(") for cell in code if cell)  # the others are folded
    assert 60 <= sum(len(part.split()) for part in prose) / read <= 120
    assert max(len(line) for cell in code for line in cell) <= 100
    levels = [len(match) for part in prose for match in re.findall(r"^(#+) ", part, re.MULTILINE)]
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


@each_notebook
def test_points_add_up_to_a_hundred_and_ids_are_in_order(text: Path) -> None:
    cells = [cell.metadata["nbgrader"] for cell in from_text(text).cells if "nbgrader" in cell.metadata]
    assert sum(meta["points"] for meta in cells if meta["grade"]) == 100
    answers = [meta["grade_id"] for meta in cells if meta["solution"]]
    assert all(answer.startswith(text.stem[:3] + "-") for answer in answers)
    tests = [meta["grade_id"] for meta in cells if meta["grade"] and not meta["solution"]]
    assert tests == [f"{answer}-test" for answer in answers if f"{answer}-test" in tests]
    assert set(answers) >= graded_questions(text)


@each_notebook
def test_the_points_that_it_states_are_those_of_its_questions(text: Path) -> None:
    stated = text.read_text("utf-8")
    assert with_points(stated) == stated, "run `autograde build --questions`"
    wrong = re.sub(r"(# ### Question \S+-(?!p\d?\b|note)\w+ · )\d+", r"\g<1>77", stated)
    wrong = re.sub(r'(-test", .*"points": )\d+', r"\g<1>77", wrong)
    wrong = re.sub(r"^(# \| (?:\d|, | to )+ .*\| )\d+ \|$", r"\g<1>77 |", wrong, flags=re.MULTILINE)
    assert wrong.count("77 |") >= 7
    assert wrong.count(" · 77 points") == len(graded_questions(text))
    assert with_points(wrong) == stated


@each_notebook
def test_every_link_within_it_leads_to_a_heading(text: Path) -> None:
    prose = "\n".join(cell.source for cell in from_text(text).cells if cell.cell_type == "markdown")
    headings = {match.strip().replace(" ", "-") for match in re.findall(r"^#+ (.*)$", prose, re.MULTILINE)}
    for target in re.findall(r"\]\(([^)]+)\)", prose):
        assert target.startswith("https://") or target.removeprefix("#") in headings, target


def test_the_words_are_spelled_right() -> None:
    checked = subprocess.run(
        [sys.executable, "-m", "codespell_lib", *map(str, TEXTS)], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout


@each_notebook
def test_every_picture_has_alt_text_and_a_caption(text: Path) -> None:
    nb = notebooks.read(notebook_path(text))
    pictures = 0
    for cell in nb.cells:
        for position, output in enumerate(cell.get("outputs", [])):
            if "image/png" in output.get("data", {}):
                pictures += 1
                assert len(output.metadata["image/png"]["alt"]) > 20
                assert cell.outputs[position + 1].data["text/markdown"].startswith("*")
    assert pictures >= 2


@each_notebook
def test_every_prediction_is_asked_before_it_is_revealed(text: Path) -> None:
    source = "\n".join(cell.source for cell in from_text(text).cells if cell.cell_type == "code")
    asked = re.findall(r'^predict\("(\w+)"', source, re.MULTILINE)
    revealed = re.findall(r'^reveal\("(\w+)"', source, re.MULTILINE)
    assert asked == revealed
    assert len(asked) == len(set(asked)) >= 3


@each_notebook
def test_its_own_answers_pass_their_visible_checks(text: Path) -> None:
    nb = notebooks.read(notebook_path(text))
    cells = [cell for cell in nb.cells if cell.source.startswith("check(")]
    states = {cell.source.split('"')[1]: outputs(nbformat.v4.new_notebook(cells=[cell])) for cell in cells}
    assert set(states) == graded_questions(text)
    assert {name: told for name, told in states.items() if not told.startswith("✓")} == {}


@each_notebook
def test_questions_have_hints_and_cells_that_only_show_are_marked(text: Path) -> None:
    nb = from_text(text)
    for position, cell in enumerate(nb.cells):
        meta = cell.metadata.get("nbgrader", {})
        if meta.get("solution"):
            above = nb.cells[position - 1].source
            assert f"Question {meta['grade_id']}" in above
            assert above.count("<details>") >= 1
        if cell.cell_type == "code" and not meta:
            assert {"demo", "setup"} & set(cell.metadata.get("tags", [])), cell.source


# facts.md, as the notebooks state and compute them.
NUMBERS = {
    "03a-training-recipe": [
        "It is -18.",
        "w = 2.18, b = 1.06",
        "loss 9.00 -> 5.76",
        "after (2, 1): w.grad = -2",
        "after (3, 2): w.grad = -8",
        "It is 0.8.",
        "cosine 0.9899",
        "It is 8.13 degrees.",
        "accuracy on 359 test digits: ≈ 0.99",
        "It is 2.",
        "values 6.0 7.0 49.0",
        "gradients of w, x, b: 28.0 42.0 14.0",
        "w1 = 0.5: loss 0.25, gradients [-1.0, -1.0]",
        "100 rates from 1e-7 to 10: a factor of 1.2045",
        "1e-7 after 100 steps of 1.05: 1.3e-05",
        "lowest loss at 0.1, one decade before it 0.01",
        "largest fall between neighbours ends at 0.01",
        "steepest central difference at 0.001",
        "batch 512: kept for backward -38%, total -18%",
        "unscale, then clip: norm 0.1000",
        "clip, then unscale: norm 9.8e-05",
        "It is 1024.",
        "accuracy with clipping: ≈ 0.9",
        "It is 10 %.",
        "It is 250,000 times.",
        "(0.1 + 0.2) + 0.3 = 0.6000000000000001",
    ],
    "03b-debug-ladder": [
        "It is 1.",
        "stratified: training ≈ 100 %, validation ≈ 100 %",
        "It is 2.303.",
        "inputs from 0 to 1: first loss ≈ 2.3",
        "It is 1.61 nats.",
        "It is 1.461.",
        "logits: loss after 300 steps ≈ 0.00, accuracy ≈ 100 %",
        "double softmax: loss after 300 steps ≈ 1.46, accuracy ≈ 100 %",
        "double softmax, 2 classes: 0.3133",
        "double softmax, 3 classes: 0.5514",
        "double softmax, 10 classes: 1.4612",
        "label smoothing 0.1, 10 classes: 0.5003",
        "by formula: 2.45, in a layer: 2.45",
        "augmentation: +2.1",
        "bigger model: +0.4",
        "both: +2.0",
        "mistakes: 100",
        "align: alone +9",
    ],
}


@pytest.mark.parametrize("name", NUMBERS)
def test_it_shows_the_lectures_numbers(name: str) -> None:
    shown = outputs(notebooks.read(notebooks.master_path(name)))
    for number in NUMBERS[name]:
        assert number in shown


LOOP = """
def my_loop(model, batches, val_batches, optimizer, schedule, loss_fn, epochs):
    val_losses, best_weights = [], {}
    for _ in range(epochs):
        model.train()
        for first in range(0, len(batches), 3):
            window = batches[first : first + 3]
            examples = sum(len(y) for _, y in window)
            optimizer.zero_grad()
            for x, y in window:
                (loss_fn(model(x), y) * len(y) / examples).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            schedule.step()
        model.eval()
        with torch.no_grad():
            loss_sum = sum(len(y) * loss_fn(model(x), y).item() for x, y in val_batches)
        val_losses.append(loss_sum / sum(len(y) for _, y in val_batches))
        if val_losses[-1] == min(val_losses):
            best_weights = copy.deepcopy(model.state_dict())
    return val_losses, best_weights
"""
"""What a student may write for the comparison with `train`. The notebook shows none: it would give answers away."""


def comparison_of_loops() -> dict[str, Any]:
    """What the cells define that 03a's comparison with a student's loop needs."""
    cells = [cell.source for cell in from_text(next(text for text in TEXTS if text.stem.startswith("03a"))).cells]
    names: dict[str, Any] = {}
    for begin, end in [
        ("import copy\n", None),
        ("import lecture_lib.data\n", None),
        ("digits = load_digits()\npixels", None),
        ("few, noisy", "\n\n\ndef"),
        ("def train_with(", None),
        ("def warm_up(", None),
    ]:
        source = next(source for source in cells if source.startswith(begin))
        exec(source.split(end)[0] if end else source, names)
    return names


@pytest.mark.parametrize(
    ("right", "slip", "smallest"),
    [
        ("examples", "examples", 0),
        (" * len(y) / examples", " / len(window)", 1e-2),
        ("nn.utils.clip_grad_norm_(model.parameters(), 0.5)", "pass", 1e-2),
        ("copy.deepcopy(model.state_dict())", "model.state_dict()", 1e-2),
        ("range(0, len(batches), 3)", "range(0, len(batches) - 2, 3)", 1e-2),
        ("            schedule.step()\n", "", 1e-2),
    ],
)
def test_a_right_loop_ends_with_the_weights_of_train_and_one_with_a_slip_does_not(
    right: str, slip: str, smallest: float
) -> None:
    names = comparison_of_loops()
    assert right in LOOP
    exec(LOOP.replace(right, slip), names)
    (losses, weights), (own_losses, own_weights) = map(
        names["train_with"], (names["reference_loop"], names["loop_with_schedule"])
    )
    gap = max(float((own_weights[name] - weights[name]).abs().max()) for name in weights)
    assert gap > smallest if smallest else gap < 1e-3
    assert smallest or own_losses == pytest.approx(losses, abs=1e-3)


def test_prose_does_not_repeat_the_claims_that_are_wrong() -> None:
    prose = "\n".join(text.read_text("utf-8") for text in TEXTS)
    for claim in (
        "never overflows",
        "2× faster",
        "ε/(C−1)",
        "multiply the rate by about 1.05",
        "4 × num",
        "halves memory",
    ):
        assert claim not in prose


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of notebooks with one short text, built."""
    folder = tmp_path / "notebooks"
    folder.mkdir()
    text = folder / "03z-short.py"
    header = (ROOT / "notebooks" / "03a-training-recipe.py").read_text("utf-8").split("# %%")[0]
    text.write_text(f'{header}# %% [markdown]\n# # Short\n\n# %% tags=["demo"]\nprint(1 + 1)\n', "utf-8")
    monkeypatch.setattr(notebooks, "NOTEBOOKS", folder)
    monkeypatch.setattr(notebooks, "ROOT", tmp_path)
    build(text)
    return text


def edit(text: Path, source: str) -> None:
    nb = notebooks.read(notebook_path(text))
    nb.cells[-1].source = source
    nbformat.write(nb, notebook_path(text))


def test_building_twice_gives_the_same_bytes(workshop: Path) -> None:
    first = notebook_path(workshop).read_bytes()
    build(workshop)
    assert notebook_path(workshop).read_bytes() == first


def test_a_build_refuses_to_overwrite_an_edit_and_make_text_brings_it_back(workshop: Path) -> None:
    edit(workshop, "print(1 + 2)")
    edited = notebook_path(workshop).read_bytes()
    with pytest.raises(NotebookError, match="make text"):
        build(workshop)
    assert notebook_path(workshop).read_bytes() == edited
    assert to_text(workshop) is True
    assert to_text(workshop) is False
    assert "print(1 + 2)" in workshop.read_text("utf-8")
    build(workshop)
    assert notebooks.read(notebook_path(workshop)).cells[-1].outputs[0].text == "3\n"


def test_an_edit_can_be_dropped(workshop: Path) -> None:
    before = notebook_path(workshop).read_bytes()
    edit(workshop, "print(1 + 2)")
    build(workshop, discard_edits=True)
    assert notebook_path(workshop).read_bytes() == before


def test_a_text_that_changed_is_built_without_asking(workshop: Path) -> None:
    workshop.write_text(workshop.read_text("utf-8").replace("1 + 1", "2 + 2"), "utf-8")
    build(workshop)
    assert notebooks.read(notebook_path(workshop)).cells[-1].outputs[0].text == "4\n"


def test_a_failing_cell_writes_nothing(workshop: Path) -> None:
    before = notebook_path(workshop).read_bytes()
    workshop.write_text(workshop.read_text("utf-8").replace("1 + 1", "1 / 0"), "utf-8")
    with pytest.raises(NotebookError, match="ZeroDivisionError"):
        build(workshop)
    assert notebook_path(workshop).read_bytes() == before


@each_notebook
def test_text_to_notebook_to_text_changes_nothing(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / text.name
    shutil.copy(text, copy)
    shutil.copytree(text.with_suffix(""), tmp_path / text.stem)
    monkeypatch.setattr(notebooks, "ROOT", tmp_path)
    assert to_text(copy) is False, "run `make text` and commit what it writes"


@each_notebook
def test_the_limits_that_it_states_are_those_of_the_sandbox(text: Path) -> None:
    limits = Limits()
    told = re.sub(r"\s+#?\s*", " ", text.read_text("utf-8"))
    clock = limits.wall_factor * limits.cell_seconds
    for wanted in (
        f"{limits.cell_seconds:g} s of CPU time, {clock:g} s of wall-clock time",
        f"{limits.memory_mb / 1000:g} GB of memory",
        f"{limits.processes} processes",
        f"{limits.disk_mb:g} MB of files",
        f"{limits.output_mb:g} MB of output",
    ):
        assert wanted in told


def test_the_guides_map_holds_every_question_with_its_points_and_every_section() -> None:
    guide = (ROOT / "autograders" / "guide" / "what-is-learned.md").read_text("utf-8")
    rows = [line.split("|")[1:-1] for line in guide.split("\n\n")[1].splitlines()[2:]]
    asked, headings = {}, {}
    for text in TEXTS:
        cells = from_text(text).cells
        for meta in (cell.metadata.get("nbgrader", {}) for cell in cells):
            if meta.get("grade"):
                asked[meta["grade_id"].removesuffix("-test")] = f"{meta['points']:g}"
        found = re.findall(r"^## (?:\d+ )?(.*)$", "\n".join(cell.source for cell in cells), re.MULTILINE)
        headings[text.stem[:3]] = found
    listed = re.findall(r"(\d\d[a-z]-\w+) (\d+)", " ".join(row[2] for row in rows))
    assert dict(listed) == asked
    assert len(listed) == len(asked)
    ideas = guide.split("| idea of the lecture |")[1].split("\n\n")[0].splitlines()[2:]
    sections = [row[1].strip() for row in rows] + [line.split("|")[2].strip() for line in ideas]
    assert len(ideas) > 30
    for notebook, named in re.findall(r"(\d\d[a-z]): ([^;|]+)", "; ".join(sections)):
        for name in named.split(", "):
            assert any(heading.startswith(name.strip()) for heading in headings[notebook]), name


@each_notebook
def test_answers_to_predictions_are_folded(text: Path) -> None:
    cells = [cell for cell in notebooks.read(notebook_path(text)).cells if cell.cell_type == "code"]
    revealing = [cell for cell in cells if any(line.startswith("reveal(") for line in cell.source.splitlines())]
    assert len(revealing) > 10
    for cell in revealing:
        assert cell.source.startswith("reveal("), cell.source
        assert cell.metadata["jupyter"] == {"source_hidden": True}
    assert not any("jupyter" in cell.metadata for cell in cells if cell not in revealing)
