"""03b-debug: repair a script with an unknown number of faults, and say where each lies and which rung shows it.

The script is the answer cell itself. Its functions are observed one by one on hidden data. The visible check runs it
as a whole and says no more than a training log would.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from lecture_lib.data import TensorLoader, load_digits
from lecture_lib.debugging import Program

from ..observe import plain
from ..question import Functions, Inputs, PublicQuestion
from .fix import Dropping, linear, split_facts

SCRIPT = (
    "divide_rows",
    "standardise",
    "make_network",
    "make_optimizer",
    "loss_of_batch",
    "update",
    "train_once",
    "measure",
)
"""The script's functions, in the order in which it runs them."""
ROWS, FEATURES, CLASSES, RATE, BATCH, EPOCHS = 500, 64, 10, 0.005, 32, 10
NAMED = "up to three functions of the script, each with a rung from 1 to 7"
# What ten epochs of the repaired script give, whichever quarter is held out, and the usual word for it.
USUAL = {
    "training": {"loss of the first epoch": (1.7, 2.5), "loss of the last epoch": (0.2, 0.45)},
    "validation": {"loss": (0.05, 0.4), "accuracy": (0.88, 1.0)},
}
TWICE, SAME, OTHER = "measured again", "the same loss", "another loss"
Data = dict[str, Any]


def script_program(script: Functions, seed: int = 0) -> Program:
    """A script's functions, put together on 500 of the digits, in the form that the ladder takes.

    Args:
        script: the functions, by the names in `SCRIPT`.
        seed: draws the rows that are held out, the first weights and the order of the batches.

    """
    digits = load_digits()
    rows = digits.images[:ROWS].flatten(1), digits.labels[:ROWS]
    (x_train, y_train), (x_val, y_val) = script["divide_rows"](*rows, torch.Generator().manual_seed(seed))
    x_train, x_val = script["standardise"](x_train, x_val)
    # The first weights and dropout draw from the process's stream: without this no two runs would be the same.
    torch.manual_seed(seed)
    model = script["make_network"](FEATURES, CLASSES)
    optimizer, scheduler = script["make_optimizer"](model, RATE)

    def step(program: Program, batch: tuple[Tensor, Tensor]) -> Any:
        return script["update"](program.model, program.optimizer, program.loss_fn, *batch)

    return Program(
        model,
        optimizer,
        script["loss_of_batch"],
        TensorLoader(x_train, y_train, batch_size=BATCH, shuffle=True, seed=seed),
        TensorLoader(x_val, y_val, batch_size=BATCH),
        scheduler=scheduler,
        step=step,
        train_epoch=lambda program: script["train_once"](
            program.model, program.train_loader, lambda x, y: step(program, (x, y)), program.scheduler
        ),
        evaluate=lambda program: dict(zip(("loss", "accuracy"), _measured(script, program), strict=True)),
    )


def _measured(script: Functions, program: Program) -> tuple[float, float]:
    loss, accuracy = script["measure"](program.model, program.loss_fn, program.val_loader)
    return float(loss), float(accuracy)


def run_script(script: Functions, epochs: int = EPOCHS, seed: int = 0) -> list[tuple[float, float, float]]:
    """Training loss, validation loss and validation accuracy after each epoch of a script."""
    program = script_program(script, seed)
    assert program.train_epoch is not None
    return [(float(program.train_epoch(program)), *_measured(script, program)) for _ in range(epochs)]


def _unless_stub(observe: Callable[[Functions, Inputs], Data]) -> Callable[[Functions, Inputs], Data]:
    """The script runs as it is released. Only the diagnosis tells whether somebody has worked on it."""

    def observed(functions: Functions, inputs: Inputs) -> Data:
        # Asking for the function is enough: what a part asks for must not be a stub.
        functions["diagnosis"]
        return observe(functions, inputs)

    return observed


def _part(name: str, run: Callable[[Callable[..., Any], Data], Data]) -> Callable[[Functions, Inputs], Data]:
    """Observe one function of the script, where a case has inputs for it."""
    return _unless_stub(lambda functions, inputs: run(functions[name], inputs[name]) if name in inputs else {})


def _log(name: str, read: Callable[[Functions, int], Data]) -> Callable[[Functions, Inputs], Data]:
    """A line of the log, where a case asks for it: the usual range where the value lies in it, else the value."""

    def observe(functions: Functions, inputs: Inputs) -> Data:
        if "seed" not in inputs:
            return {}
        return {entry: as_logged(name, entry, value) for entry, value in read(functions, inputs["seed"]).items()}

    return _unless_stub(observe)


def as_logged(name: str, entry: str, value: Any) -> Any:
    """A value of the log in words."""
    if entry not in USUAL.get(name, {}):
        return value
    low, high = USUAL[name][entry]
    return f"from {low:g} to {high:g}" if low <= value <= high else f"{value:.2f}"


def _rows_log(functions: Functions, seed: int) -> Data:
    """How many rows there are, and how many different ones are used."""
    digits = load_digits()
    rows = torch.arange(ROWS, dtype=torch.float32)[:, None]
    parts = functions["divide_rows"](rows, digits.labels[:ROWS], torch.Generator().manual_seed(seed))
    return {"rows read": ROWS, "different rows used": len({row for x, _ in parts for row in x.flatten().tolist()})}


def _training_log(functions: Functions, seed: int) -> Data:
    log = run_script(functions, seed=seed)
    return {"loss of the first epoch": log[0][0], "loss of the last epoch": log[-1][0]}


def _validation_log(functions: Functions, seed: int) -> Data:
    program = script_program(functions, seed)
    for _ in range(EPOCHS):
        program.run_epoch()
    (loss, accuracy), (again, _) = _measured(functions, program), _measured(functions, program)
    return {"loss": loss, "accuracy": accuracy, TWICE: SAME if loss == again else OTHER}


def _diagnosis(functions: Functions, inputs: Inputs) -> Data:
    """What is named; a visible case only looks whether it is of the form that is asked for."""
    named = functions["diagnosis"]()
    if "seed" not in inputs:
        return {"named": {str(name): rung for name, rung in named.items()}}
    rungs = [plain(rung) for rung in named.values()]
    formed = set(named) <= set(SCRIPT) and 1 <= len(named) <= 3 and all(rung in range(1, 8) for rung in rungs)
    return {"form": NAMED if formed else repr(named)}


def _standardise(function: Callable[..., Any], data: Data) -> Data:
    x_train, x_val = function(torch.tensor(data["x_train"]), torch.tensor(data["x_val"]))
    return {"training": x_train, "validation": x_val}


def _network(function: Callable[..., Any], data: Data) -> Data:
    """The shapes of the parameters, the outputs for given weights, and how often a hidden unit is dropped."""
    model = function(data["features"], data["classes"]).double()
    parameters = list(model.parameters())
    observation: Data = {"parameters": [list(parameter.shape) for parameter in parameters]}
    for parameter, weight in zip(parameters, data["weights"], strict=True):
        parameter.data.copy_(torch.tensor(weight))
    x = torch.tensor(data["x"])
    observation["outputs"] = model.eval()(x)
    # Every hidden unit gives 1, and the outputs add up the first of them only.
    for parameter, weight in zip(parameters, (0.0, 1.0, 0.0, 0.0), strict=True):
        parameter.data.fill_(weight)
    parameters[2].data[:, 0] = torch.linspace(1, 2, data["classes"])
    outputs = model.train()(torch.zeros(4000, data["features"], dtype=torch.float64))
    dropped = (outputs == outputs[:, :1]).all(dim=1).double().mean().item()
    return {**observation, "a fifth dropped": abs(dropped - 0.2) < 0.04}


def _optimizer(function: Callable[..., Any], data: Data) -> Data:
    """Weights after one step on given gradients, and the rate after one step of the schedule."""
    model = _two_layers(data)
    optimizer, scheduler = function(model, data["rate"])
    for parameter, gradient in zip(model.parameters(), data["gradients"], strict=True):
        parameter.grad = torch.tensor(gradient)
    optimizer.step()
    scheduler.step()
    rates = [group["lr"] for group in optimizer.param_groups]
    return {"weights": [parameter.detach() for parameter in model.parameters()], "next rate": rates[0]}


def _two_layers(data: Data) -> nn.Sequential:
    return nn.Sequential(*(linear({"weight": weight}) for weight in data["weights"]))


def _loss(function: Callable[..., Any], data: Data) -> Data:
    outputs = torch.tensor(data["outputs"], requires_grad=True)
    loss = function(outputs, torch.tensor(data["y"]))
    loss.backward()
    return {"loss": loss, "gradient": outputs.grad}


def _batches(data: Data) -> list[tuple[Tensor, Tensor]]:
    return [(torch.tensor(x), torch.tensor(y)) for x, y in zip(data["x"], data["y"], strict=True)]


def _update(function: Callable[..., Any], data: Data) -> Data:
    model = _two_layers(data)
    optimizer = torch.optim.SGD(model.parameters(), lr=data["rate"])
    losses = [function(model, optimizer, nn.functional.cross_entropy, x, y) for x, y in _batches(data)]
    return {"weights": [parameter.detach() for parameter in model.parameters()], "losses": losses}


class _Counted:
    """A schedule that only writes down when it is stepped."""

    def __init__(self, events: list[str]) -> None:
        self.step = functools.partial(events.append, "schedule")


def _train_once(function: Callable[..., Any], data: Data) -> Data:
    """What happens in an epoch, in its order: batches with the model's mode, steps of the schedule."""
    model = nn.Sequential(nn.Sequential(nn.Dropout(0.5)))
    model.train(data["training"])
    events: list[str] = []
    losses = iter(data["losses"])

    def update_on(x: Tensor, y: Tensor) -> float:
        modes = {module.training for module in model.modules()}
        events.append(f"batch {int(x[0])}, {int(y[0])} in {'training' if modes == {True} else 'evaluation'} mode")
        return float(next(losses))

    batches = [(torch.tensor([index]), torch.tensor([index + 1])) for index in range(len(data["losses"]))]
    return {"loss": function(model, batches, update_on, _Counted(events)), "events": events}


def _measure(function: Callable[..., Any], data: Data) -> Data:
    model = Dropping(linear(data))
    kept: set[bool] = set()

    def loss_fn(outputs: Tensor, y: Tensor) -> Tensor:
        kept.add(outputs.requires_grad)
        return nn.functional.cross_entropy(outputs, y)

    loss, accuracy = function(model, loss_fn, _batches(data))
    return {"loss": loss, "accuracy": accuracy, "graph": True in kept}


_RUNS = (split_facts, _standardise, _network, _optimizer, _loss, _update, _train_once, _measure)

QUESTION = PublicQuestion(
    id="03b-debug",
    title="an unknown script",
    functions=(*SCRIPT, "diagnosis"),
    repeatable=("standardise", "loss_of_batch"),
    parts={
        **{name: _part(name, run) for name, run in zip(SCRIPT, _RUNS, strict=True)},
        "rows": _log("rows", _rows_log),
        "training": _log("training", _training_log),
        "validation": _log("validation", _validation_log),
        "diagnosis": _unless_stub(_diagnosis),
    },
    relative_tolerance=1e-6,
    look_at="what the ladder says about the script, in the cell below",
    heading="the log looks right, and the diagnosis has the right form",
    told={
        "rows": "every row is used",
        "training": "the losses are in the usual range",
        "validation": "loss and accuracy are in the usual range, and the same when measured again",
        "diagnosis": "has the form that is asked for; only hidden tests say whether it is right",
    },
)
