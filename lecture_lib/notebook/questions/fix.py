"""03b-fix: repair six short programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ..question import Functions, Inputs, PublicQuestion

PROGRAMS = ("loss", "step", "split", "labels", "evaluation", "schedule")
Data = dict[str, Any]


def _part(name: str, run: Callable[[Callable[..., Any], Data], Data]) -> Any:
    """Observe one program."""

    def observe(functions: Functions, inputs: Inputs) -> dict[str, Any]:
        programs = functions["repaired"]()
        if not isinstance(programs, dict) or name not in programs:
            raise KeyError(f"repaired() returned no program {name!r}")
        return run(programs[name], inputs[name])

    return observe


def _tensors(data: Data) -> tuple[Tensor, Tensor]:
    return torch.tensor(data["x"]), torch.tensor(data["y"])


def _batches(data: Data) -> list[tuple[Tensor, Tensor]]:
    return [(torch.tensor(x), torch.tensor(y)) for x, y in zip(data["x"], data["y"], strict=True)]


def linear(data: Data) -> nn.Linear:
    """The linear model without bias whose weights a case gives, [classes, features]."""
    weight = torch.tensor(data["weight"])
    model = nn.Linear(weight.shape[1], weight.shape[0], bias=False, dtype=weight.dtype)
    with torch.no_grad():
        model.weight.copy_(weight)
    return model


class Dropping(nn.Module):
    """A linear model whose inputs are dropped, all of them, where the model or its innermost layer is in train mode."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.inner, self.linear = nn.Sequential(nn.Sequential(nn.Dropout(1.0))), linear

    def forward(self, x: Tensor) -> Tensor:
        """Logits [N, classes] for inputs [N, features]."""
        logits: Tensor = self.linear(self.inner(nn.functional.dropout(x, 1.0, self.training)))
        return logits


def _loss(program: Callable[..., Any], data: Data) -> Data:
    model = linear(data)
    loss = program(model, *_tensors(data))
    loss.backward()
    return {"loss": loss, "gradient": model.weight.grad}


def _step(program: Callable[..., Any], data: Data) -> Data:
    model = linear(data)
    model.weight.grad = torch.ones_like(model.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=data["rate"])
    for x, y in _batches(data):
        program(model, optimizer, x, y)
    return {"weight": model.weight}


def split_facts(program: Callable[..., Any], data: Data) -> Data:
    """What is true of the splits by several seeds: many splits are right. All rows of the data are different."""
    rows = {(*row, label): index for index, (*row, label) in enumerate(_joined(*_tensors(data)))}
    drawn = []
    # The first seed once more at the end: the same generator must give the same split.
    for seed in [*data["seeds"], data["seeds"][0]]:
        torch.rand(seed % 5)  # the process's own stream goes on
        parts = program(*_tensors(data), torch.Generator().manual_seed(seed))
        drawn.append([[rows.get(tuple(row)) for row in _joined(x, y)] for x, y in parts])
    validation = [set(val) for _, val in drawn]
    return {
        "sizes": [len(part) for part in drawn[0]],
        "in both parts": max(len(set(train) & val) for (train, _), val in zip(drawn, validation, strict=True)),
        "rows with their labels": all(None not in [*train, *val] for train, val in drawn),
        "every row once": all(len({*train, *val}) == len(rows) for train, val in drawn),
        "another one for another seed": len(set(map(frozenset, validation))) > 1,
        "the same for the same seed": validation[0] == validation[-1],
    }


def _joined(x: Tensor, y: Tensor) -> list[list[float]]:
    """Each row of x with its label behind."""
    return [[*row, label] for row, label in zip(x.tolist(), y.tolist(), strict=True)]


def _labels(program: Callable[..., Any], data: Data) -> Data:
    arguments = _tensors(data)
    program(*arguments)  # the second call counts: the first one must leave its arguments as they are
    x, y = program(*arguments)
    return {"x": x, "y": y}


def _evaluation(program: Callable[..., Any], data: Data) -> Data:
    return {"loss": program(Dropping(linear(data)), *_tensors(data))}


def _schedule(program: Callable[..., Any], data: Data) -> Data:
    model = linear(data)
    optimizer = torch.optim.SGD(model.parameters(), lr=data["rate"])
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)

    def step(x: Tensor, y: Tensor) -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    for _ in range(data["epochs"]):
        program(step, scheduler, _batches(data))
    return {"weight": model.weight}


_RUNS = (_loss, _step, split_facts, _labels, _evaluation, _schedule)

QUESTION = PublicQuestion(
    id="03b-fix",
    title="six programs to repair",
    functions=("repaired",),
    parts={name: _part(name, run) for name, run in zip(PROGRAMS, _RUNS, strict=True)},
    relative_tolerance=1e-6,
)
