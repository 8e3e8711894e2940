"""References against other programs: torch for network and sweep."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from autograders import notebooks
from autograders.questions.descriptions import lrfinder_cases as reference
from autograders.questions.descriptions.recipe import problem
from autograders.questions.question import answer_to
from lecture_lib.notebook.observe import plain
from lecture_lib.notebook.questions import recipe
from lecture_lib.notebook.questions.lrfinder import Centred


@pytest.mark.parametrize("modes", ["train", "eval", "mixed"])
def test_the_judges_sweep_is_torchs(modes: str) -> None:
    inputs = reference.problem(np.random.default_rng(3), "to the upper end", modes)
    model, losses = Centred(inputs), []
    for step, rate in enumerate(np.geomspace(inputs["start"], inputs["stop"], inputs["steps"])):
        x, y = (torch.tensor(inputs[name][step % len(inputs["x"])]) for name in ("x", "y"))
        optimizer = torch.optim.SGD(model.parameters(), lr=rate)
        optimizer.zero_grad()
        outputs = model(x)
        loss = nn.functional.mse_loss(outputs, y) + inputs["penalty"] * outputs.square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert reference.sweep(inputs)["losses"] == pytest.approx(losses, rel=1e-9)


def run(source: str, **changes: object) -> dict[str, bool]:
    """The facts of an answer's runs on a small case."""
    namespace: dict[str, object] = {"torch": torch, "nn": nn}
    exec(source, namespace)
    case = problem(np.random.default_rng(1), "small", 0.03, 3, 8, 4, 3)
    inputs = {**case.inputs, **changes, "held_out": case.key}
    return recipe.QUESTION.parts["training"]({"run_recipe": namespace["run_recipe"]}, inputs)


def test_the_network_of_the_facts_is_torchs() -> None:
    inputs = problem(np.random.default_rng(1), "small", 0.03, 3, 8, 4, 3).inputs
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, recipe.HIDDEN), nn.ReLU(), nn.Linear(recipe.HIDDEN, inputs["classes"]))
    rows = inputs["split"][1]
    outputs, labels = model(torch.tensor(inputs["x"][rows])), torch.tensor(inputs["y"][rows])
    loss, share = recipe.validation([parameter.detach().numpy() for parameter in model.parameters()], inputs)
    assert loss == pytest.approx(nn.functional.cross_entropy(outputs, labels).item(), rel=1e-5)
    assert share == pytest.approx((outputs.argmax(1) == labels).float().mean().item())


@pytest.mark.parametrize(
    ("old", "new", "fact"),
    [
        ('batch_size=config["batch_size"]', "batch_size=6", "batches of batch_size"),
        ('lr=config["learning_rate"]', 'lr=0.7 * config["learning_rate"]', "highest rate is learning_rate"),
        ('lr=config["learning_rate"]', 'lr=1.01 * config["learning_rate"]', "highest rate is learning_rate"),
        ('config["epochs"] + 1', 'config["epochs"]', "as many epochs as config says"),
        ("x[training], y[training]", "x, y", "only training rows"),
        ("shuffle=True", "shuffle=False", "a new order in each epoch"),
        ("shuffle=True", "shuffle=True, generator=torch.Generator()", "other seed, other order"),
        ("model = build_model()", "model = torch.manual_seed(0) and build_model()", "other seed, other first weights"),
    ],
)
def test_what_a_run_ignores_is_seen(old: str, new: str, fact: str) -> None:
    source = answer_to("03a-recipe", "right_by_hand")
    assert old in source
    assert run(source)[fact]
    assert not run(source.replace(old, new))[fact]


@pytest.mark.parametrize(("stuck", "right"), [(("run",), True), (("other",), True), (("run", "other"), False)])
def test_a_recipe_that_gets_stuck_in_one_of_two_runs_is_right(stuck: tuple[str, ...], right: bool) -> None:
    """Not by chance in both: about one run in a hundred on small data with wrong labels."""
    namespace: dict[str, object] = {"torch": torch, "nn": nn}
    exec(answer_to("03a-recipe", "right_by_hand"), namespace)
    case = problem(np.random.default_rng(1), "small", 0.03, 3, 8, 4, 3)
    runs = plain(recipe.QUESTION.parts["training"]({"run_recipe": namespace["run_recipe"]}, case.inputs))
    for name in stuck:
        *layers, last = runs[name]["weights"]
        runs[name]["weights"] = [*layers, last + 1e6 * (np.arange(len(last)) == 0)]  # it says class 0 of every point
    assert recipe.training_facts(runs, case.inputs, case.key)["right on new points"] is right


@pytest.mark.parametrize("untrue", [("run",), ("other",), ("run", "other")])
def test_a_loss_that_is_untrue_in_one_of_two_runs_is_untrue(untrue: tuple[str, ...]) -> None:
    """Noise of validation in train mode comes near the true loss by chance, in one run now and then."""
    namespace: dict[str, object] = {"torch": torch, "nn": nn}
    exec(answer_to("03a-recipe", "right_by_hand"), namespace)
    case = problem(np.random.default_rng(1), "small", 0.03, 3, 8, 4, 3)
    runs = plain(recipe.QUESTION.parts["training"]({"run_recipe": namespace["run_recipe"]}, case.inputs))
    fact = "the weights have the lowest recorded val_loss"
    assert recipe.training_facts(runs, case.inputs, case.key)[fact] not in (recipe.NO_ROW, recipe.OTHER_ROW)
    for name in untrue:
        runs[name]["val_loss"] = runs[name]["val_loss"] + 0.1
    assert recipe.training_facts(runs, case.inputs, case.key)[fact] == recipe.NO_ROW


def test_a_smaller_last_batch_may_be_left_out() -> None:
    source = answer_to("03a-recipe", "right_by_hand").replace("shuffle=True", "shuffle=True, drop_last=True")
    facts = run(source)
    assert all(facts[fact] for fact in ("as many epochs as config says", "batches of batch_size"))


@pytest.mark.parametrize("returned", ["[model]", "{}", "nn.Linear(8, 6)"])
def test_what_is_not_the_network_is_refused(returned: str) -> None:
    source = answer_to("03a-recipe", "right_by_hand").replace("return best[1], record", f"return {returned}, record")
    with pytest.raises(TypeError, match="not the network of build_model"):
        run(source)


@pytest.mark.parametrize(
    "number",
    [
        "100 rates from 1e-7 to 10: a factor of 1.2045",
        "1e-7 after 100 steps of 1.05: 1.3e-05",
        "It is 131 times.",
        "lowest loss at 0.1, one decade before it 0.01",
        "largest fall between neighbours ends at 0.01",
        "steepest central difference at 0.001",
        "nothing drawn in between: largest difference 0\n",
        "(0.1 + 0.2) + 0.3 = 0.6000000000000001",
    ],
)
def test_the_notebook_shows_the_lectures_numbers(number: str) -> None:
    nb = notebooks.read(notebooks.notebook_path(notebooks.text_paths()[0]))
    shown = [output.get("text", "") for cell in nb.cells for output in cell.get("outputs", [])]
    assert number in "\n".join(map(str, shown))
