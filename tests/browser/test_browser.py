"""The released notebooks as a student has them: in JupyterLab, in a browser, by mouse and by keyboard."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import nbformat
import pytest
from helpers.accessibility import violations
from helpers.browser import THEMES, OpenNotebook, chromium, in_turns, jupyterlab
from nbformat import NotebookNode

from autograders import notebooks
from autograders.course import Course
from autograders.notebooks import assignments
from autograders.questions.question import answer_to
from lecture_lib import tape
from lecture_lib._common.pictures import image_tag
from lecture_lib._common.plotting import figure_and_axes
from lecture_lib.notebook.figures import as_png
from lecture_lib.tape.draw import draw

pytestmark = pytest.mark.slow

RECIPE, LADDER = assignments()[:2]
KERNEL = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
WIDTHS = (1366, 800)
ELSEWHERE = "A line from 0 to 1."
DRAWING = draw(tape.Tensor(2.0, requires_grad=True))
WIDGETS = {
    "live": """
        import torch
        from torch import nn
        from lecture_lib.data import TensorLoader
        from lecture_lib.notebook import train_live
        x = torch.randn(4000, 3)
        model = nn.Linear(3, 2)
        loaders = [TensorLoader(x, (x[:, 0] > 0).long(), batch_size=8) for _ in range(2)]
        sgd = torch.optim.SGD(model.parameters(), lr=0.1)
        run = train_live(model, *loaders, sgd, nn.CrossEntropyLoss(), epochs=1000)
    """,
    "stopped": "print(run.history.stopped)",
    "mistakes": """
        import torch
        from lecture_lib.notebook import label_mistakes
        names = ["blur", "background shortcut", "rare class", "ambiguous label", "threshold"]
        titles = ["circle, not square", "cross, not none", "none, not cross"]
        sorting = label_mistakes(torch.rand(3, 1, 16, 16), titles, names, interactive=True)
    """,
    "sorted": "print(sorting.labels)",
}


@pytest.fixture(scope="module")
def address(released_in_full: Course, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """JupyterLab on a folder with the released notebooks, and one that shows what no cell of theirs does."""
    folder = tmp_path_factory.mktemp("student")
    for name in assignments():
        shutil.copy(released_in_full.bundle / "notebooks" / f"{name}.ipynb", folder)
    nbformat.write(_widget_notebook(), folder / "widgets.ipynb")
    nbformat.write(_notebook_from_elsewhere(), folder / "elsewhere.ipynb")
    variables = {"PYTHONPATH": str(released_in_full.bundle), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    with jupyterlab(folder, tmp_path_factory.mktemp("settings"), **variables) as found:
        yield found


def _widget_notebook() -> NotebookNode:
    sources = [re.sub(r"\n {8}", "\n", source).strip() for source in WIDGETS.values()]
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources], metadata=KERNEL)


def _notebook_from_elsewhere() -> NotebookNode:
    """A figure and a drawing, as outputs that are saved in it."""
    figure, axes = figure_and_axes(None)
    axes.plot([0, 1])
    pages = [image_tag(as_png(figure), "png", ELSEWHERE), DRAWING._repr_mimebundle_()[0]["text/html"]]
    outputs = [nbformat.v4.new_output("display_data", data={"text/html": page}) for page in pages]
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("", outputs=outputs)], metadata=KERNEL)


@dataclass
class Executed:
    """A notebook whose cells were all run once, and the cells as they were then."""

    shown: OpenNotebook
    cells: list[dict[str, Any]]


@pytest.fixture(scope="module")
def browser(address: str) -> Iterator[Any]:
    with chromium() as started:
        yield started


def first_two(parameters: list[Any]) -> list[Any]:
    """Leaves the other notebooks to `make test-full`: these have the widgets, and nbval executes all in `make test`."""
    return [
        pytest.param(
            *each.values, marks=[*each.marks, *([] if each.values[0] in (RECIPE, LADDER) else [pytest.mark.full])]
        )
        for each in parameters
    ]


@pytest.fixture(scope="module")
def executed(address: str, browser: Any, request: pytest.FixtureRequest) -> dict[str, Executed]:
    """Notebooks that run at the same time."""
    names = assignments() if request.config.getoption("--full") else [RECIPE, LADDER]
    opened = {name: OpenNotebook.open(browser, address, f"{name}.ipynb") for name in names}
    for shown in opened.values():
        shown.start()
    for shown in opened.values():
        shown.wait_until_run()
    return {name: Executed(shown, shown.cells()) for name, shown in opened.items()}


@pytest.fixture
def recipe(executed: dict[str, Executed]) -> OpenNotebook:
    executed[RECIPE].shown.page.bring_to_front()
    return executed[RECIPE].shown


@pytest.fixture
def ladder(executed: dict[str, Executed]) -> OpenNotebook:
    executed[LADDER].shown.page.bring_to_front()
    return executed[LADDER].shown


@pytest.mark.parametrize("name", first_two([pytest.param(name) for name in assignments()]))
def test_all_cells_run_and_every_question_says_that_it_is_not_answered(
    executed: dict[str, Executed], name: str
) -> None:
    shown, checks = executed[name].shown, 0
    for cell in executed[name].cells:
        for output in cell.get("outputs", []):
            assert output["output_type"] != "error", output
            assert output.get("name") != "stderr", output
        if cell["cell_type"] == "code" and cell["source"].startswith("check("):
            checks += 1
            assert "not answered yet" in shown.cell(cell["source"]).locator(".jp-OutputArea").inner_text()
    master = notebooks.read(notebooks.master_path(name))
    assert checks == sum(cell.source.startswith("check(") for cell in master.cells) > 5


@pytest.mark.parametrize(("name", "theme", "width"), first_two(in_turns(assignments(), THEMES, WIDTHS)))
def test_no_output_is_wider_than_the_page(executed: dict[str, Executed], name: str, theme: str, width: int) -> None:
    shown = executed[name].shown
    shown.page.bring_to_front()
    shown.theme(theme)
    with shown.width(width):
        shown.keep_pictures(f"{name[:3]}-{theme}-{width}")
        assert shown.too_wide() == []


@pytest.mark.parametrize(("name", "theme"), first_two(in_turns(assignments(), THEMES)))
def test_outputs_and_widgets_can_be_read_by_everybody(executed: dict[str, Executed], name: str, theme: str) -> None:
    shown = executed[name].shown
    shown.page.bring_to_front()
    shown.theme(theme)
    assert violations(shown.page, ".jp-OutputArea") == []


@pytest.mark.parametrize("name", first_two([pytest.param(name) for name in assignments()]))
def test_every_picture_of_an_output_has_alternative_text(executed: dict[str, Executed], name: str) -> None:
    shown = executed[name].shown
    texts = shown.page.evaluate("() => [...document.querySelectorAll('.jp-OutputArea img')].map(img => img.alt)")
    assert len(texts) >= 5
    assert all(len(text) > 20 for text in texts), texts


def test_a_notebook_from_elsewhere_keeps_its_pictures_and_their_texts(address: str, browser: Any) -> None:
    """JupyterLab does not trust it and cleans its HTML."""
    pictures = OpenNotebook.open(browser, address, "elsewhere.ipynb").page.locator(".jp-OutputArea img")
    pictures.first.wait_for()
    assert pictures.evaluate_all("all => all.map(one => one.alt)") == [ELSEWHERE, DRAWING.alt]
    assert min(pictures.evaluate_all("all => all.map(one => one.naturalWidth)")) > 50


def test_the_tape_is_walked_by_mouse_and_by_keys(recipe: OpenNotebook) -> None:
    output = recipe.cell("show_walk(\n").locator(".jp-OutputArea")
    told = output.get_by_role("alert")
    last = int(re.search(r"Step 0 of (\d+)", told.inner_text())[1])
    output.get_by_role("button", name="Forward").click()
    told.get_by_text(f"Step 1 of {last}").wait_for()
    slider = output.get_by_role("slider")
    slider.focus()
    recipe.page.keyboard.press("ArrowRight")
    told.get_by_text(f"Step 2 of {last}").wait_for()
    tab_to(recipe, "Last")
    recipe.page.keyboard.press("Enter")
    told.get_by_text(f"Step {last} of {last}").wait_for()
    assert output.locator("svg").first.is_visible()
    recipe.page.keyboard.press("Shift+Tab")
    recipe.page.keyboard.press("Shift+Tab")
    recipe.page.keyboard.press("Space")
    told.get_by_text(f"Step {last - 1} of {last}").wait_for()


def tab_to(shown: OpenNotebook, button: str) -> None:
    """Press Tab until a button has the focus."""
    for _ in range(8):
        shown.page.keyboard.press("Tab")
        if shown.page.evaluate("() => document.activeElement.innerText") == button:
            return
    pytest.fail(f"Tab does not reach {button}")


def test_the_float_field_takes_numbers(recipe: OpenNotebook) -> None:
    output = recipe.cell("show_float_formats(").locator(".jp-OutputArea")
    field, table = output.get_by_role("textbox"), output.get_by_role("status")
    field.fill("65520")
    field.press("Enter")
    table.get_by_text("overflow").wait_for()
    field.click()
    recipe.page.keyboard.press("Control+A")
    recipe.page.keyboard.type("1e-8")
    recipe.page.keyboard.press("Tab")
    table.get_by_text("underflow").wait_for()


def test_the_rate_is_moved_by_mouse_and_by_keys(ladder: OpenNotebook) -> None:
    output = ladder.cell("choose_rate_by_hand(sweep)").locator(".jp-OutputArea")
    slider, picture = output.get_by_role("slider"), output.locator(".widget-html img")
    words = output.get_by_text("the rate of the lowest point")
    before, drawn = words.inner_text(), picture.get_attribute("src")
    slider.focus()
    ladder.page.keyboard.press("ArrowLeft")
    expect_change(ladder, words, before)
    before, box = words.inner_text(), slider.bounding_box()
    ladder.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    ladder.page.mouse.down()
    ladder.page.mouse.move(box["x"] - 200, box["y"] + box["height"] / 2, steps=4)
    ladder.page.mouse.up()
    expect_change(ladder, words, before)
    assert picture.get_attribute("src") != drawn
    assert picture.evaluate("image => image.clientWidth <= image.naturalWidth")


def expect_change(shown: OpenNotebook, element: Any, before: str) -> None:
    shown.page.wait_for_function(
        "([element, before]) => element.innerText !== before", arg=[element.element_handle(), before]
    )


def test_a_quiz_answers_and_remembers(ladder: OpenNotebook) -> None:
    first = ladder.cell('quiz("flat-loss", None, dict')
    ladder.write(first, 'quiz("flat-loss", "a", dict.fromkeys("abcd", "Kept."))')
    assert "You chose (a)." in ladder.run(first)
    again = ladder.cell('quiz("flat-loss", None, FLAT_LOSS)')
    ladder.write(again, 'quiz("flat-loss", "c", FLAT_LOSS)')
    assert "You chose (c); earlier it was (a)." in ladder.run(again)
    folded = again.locator("details").first
    folded.locator("summary").click()
    assert folded.evaluate("element => element.open")
    ladder.page.keyboard.press("Space")
    assert not folded.evaluate("element => element.open")


def test_predictions_and_answers_are_kept_when_the_page_is_loaded_again(recipe: OpenNotebook, address: str) -> None:
    asked = recipe.cell('predict("accumulation", None)')
    recipe.write(asked, 'predict("accumulation", 0.8)')
    assert "Recorded: 0.8" in recipe.run(asked)
    compared = recipe.cell('reveal("accumulation"')
    assert recipe.folded(compared)
    assert "You predicted 0.8: right" in recipe.run(compared)
    assert recipe.folded(compared)
    wrong, right = (answer_to("03a-clip", name) for name in WRONG_AND_RIGHT)
    answer, test = recipe.cell("def clip_by_global_norm"), recipe.cell('check("03a-clip"')
    recipe.write(answer, wrong)
    recipe.run(answer)
    assert "Look at" in recipe.run(test)
    recipe.write(answer, right)
    recipe.run(answer)
    assert "03a-clip · clip by the global norm: right" in recipe.run(test)
    words = recipe.cell("*Write your answer here.*")
    recipe.write(words, "The weights are the shares $n_i / N$.")
    recipe.save()
    recipe.page.reload()
    recipe.wait_for_kernel()
    sources = [cell["source"] for cell in recipe.cells()]
    assert {'predict("accumulation", 0.8)', right, "The weights are the shares $n_i / N$."} <= set(sources)
    assert "03a-clip · clip by the global norm: right" in recipe.cell('check("03a-clip"').inner_text()
    assert "You predicted 0.8: right" in recipe.cell('reveal("accumulation"').inner_text()


WRONG_AND_RIGHT = ("wrong_per_parameter", "right_concatenate")


@pytest.fixture(scope="module")
def widgets(address: str, browser: Any) -> OpenNotebook:
    return OpenNotebook.open(browser, address, "widgets.ipynb")


@pytest.mark.parametrize("by", ["mouse", "keys"])
def test_a_live_run_is_stopped_while_its_curves_grow(widgets: OpenNotebook, by: str) -> None:
    widgets.page.bring_to_front()
    cell, after = widgets.cell("train_live("), widgets.cell("run.history")
    widgets.run(cell)
    output = cell.locator(".jp-OutputArea")
    output.get_by_role("status").get_by_text(re.compile(r"epoch \d+, ")).wait_for()
    assert output.locator("img").evaluate("image => image.naturalWidth") > 300
    button = output.get_by_role("button", name="Stop the run")
    if by == "mouse":
        button.click()
    else:
        button.focus()
        widgets.page.keyboard.press("Enter")
    output.get_by_role("status").get_by_text("asked to stop").wait_for()
    assert button.is_disabled()
    assert "asked to stop after step" in widgets.run(after)


@pytest.mark.parametrize("by", ["mouse", "keys"])
def test_mistakes_are_sorted(widgets: OpenNotebook, by: str) -> None:
    widgets.page.bring_to_front()
    cell = widgets.cell("label_mistakes(torch")
    widgets.run(cell)
    output = cell.locator(".jp-OutputArea")
    if by == "mouse":
        for name in ("1 blur", "2 background shortcut", "0 back", "3 rare class", "5 threshold"):
            output.get_by_role("button", name=name).click()
    else:
        output.get_by_role("textbox").focus()
        widgets.page.keyboard.type("12035", delay=50)
    output.get_by_text("all 3 seen, 3 sorted").wait_for()
    assert widgets.too_wide() == []
    assert violations(widgets.page, ".jp-OutputArea") == []
    assert "['blur', 'rare class', 'threshold']" in widgets.run(widgets.cell("sorting.labels"))
