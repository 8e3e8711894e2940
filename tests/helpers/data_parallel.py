"""Programs for one process and for several: torchrun --nproc-per-node 2 tests/helpers/data_parallel.py FOLDER NAME...

Each writes what a process ended with to FOLDER/NAME-RANK.pt.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler, TensorDataset

from lecture_lib.data import TensorLoader
from lecture_lib.training import join_processes, leave_processes, one_cycle, train

RANK = int(os.environ.get("RANK", "0"))


def data(examples: int, masked: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    x, y = torch.randn(examples, 6, generator=generator), torch.arange(examples) % 3
    y[:masked] = -100
    return x, y


def program(
    examples: int = 32,
    *,
    masked: int = 0,
    batch_size: int = 8,
    loader: str = "tensors",
    model: Callable[[], nn.Module] | None = None,
    epochs: int = 2,
    loss_fn: Callable[..., torch.Tensor] = F.cross_entropy,
    **options: Any,
) -> dict[str, Any]:
    """A small run; what it ended with."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)) if model is None else model()
    # As a careful program does; the order of the examples may not depend on it.
    torch.manual_seed(RANK)
    x, y = data(examples, masked)
    train_loader: Any = TensorLoader(x, y, batch_size=batch_size, shuffle=True, seed=3)
    if loader != "tensors":
        generator = torch.Generator().manual_seed(3 if loader == "seeded" else 10 + RANK)
        train_loader = DataLoader(
            TensorDataset(x, y), batch_size, shuffle=True, generator=generator, num_workers=2 * (loader == "workers")
        )
    validation = TensorLoader(*data(13), batch_size=4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    history = train(net, train_loader, validation, optimizer, loss_fn, epochs, **options)
    return {
        "model": net.state_dict(),
        "best": history.best_state,
        "rows": [list(row.values())[:5] for row in history.as_rows()],
        "stopped": history.stopped,
        "grads": [parameter.grad is None for parameter in net.parameters()],
    }


def gradient(*, examples: int = 5, masked: int = 0) -> dict[str, Any]:
    """The gradient of one uneven batch: the change of weights in one step at rate 1."""
    torch.manual_seed(0)
    net = nn.Linear(6, 3)
    x, y = data(examples, masked)
    before = net.weight.detach().clone()
    loader = TensorLoader(x, y, batch_size=examples)
    train(
        net, loader, TensorLoader(*data(9), batch_size=9), torch.optim.SGD(net.parameters(), lr=1.0), F.cross_entropy, 1
    )
    return {"gradient": before - net.weight.detach()}


class Partly(nn.Module):
    """A layer that no batch uses."""

    def __init__(self) -> None:
        super().__init__()
        self.used, self.unused = nn.Linear(6, 3), nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.used(x)


def normalised() -> nn.Module:
    """Running statistics, which every process takes of its own share."""
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))


class Recorded(Dataset):
    """Notes in a file which examples were read."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / f"read-{RANK}.txt"

    def __len__(self) -> int:
        return 11

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        with self.file.open("a", encoding="utf-8") as file:
            file.write(f"{index} ")
        return torch.full((6,), float(index)), index % 3


def reading(folder: Path) -> dict[str, Any]:
    """Which examples a process reads, and with which loss."""
    torch.manual_seed(0)
    net = nn.Linear(6, 3)
    loader = DataLoader(Recorded(folder), 3, shuffle=True)
    train(
        net, loader, TensorLoader(*data(9), batch_size=9), torch.optim.SGD(net.parameters(), lr=0.0), F.cross_entropy, 1
    )
    return {}


def spoiled(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """A loss that is NaN in the second process's third step."""
    loss = F.cross_entropy(outputs, labels)
    if outputs.requires_grad:
        spoiled.steps += 1  # type: ignore[attr-defined]
    if outputs.requires_grad and RANK == 1 and spoiled.steps == 3:  # type: ignore[attr-defined]
        return loss * float("nan")
    return loss


def refused(call: Callable[[], Any]) -> dict[str, Any]:
    """What a run was refused with."""
    try:
        call()
    except (ValueError, TypeError, FloatingPointError) as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return {"error": ""}


def dying() -> dict[str, Any]:
    """The second process is killed in the third step."""
    steps = 0

    def loss_fn(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        nonlocal steps
        if outputs.requires_grad:
            steps += 1
            if RANK == 1 and steps == 3:
                os.kill(os.getpid(), signal.SIGKILL)
        return F.cross_entropy(outputs, labels)

    torch.manual_seed(0)
    net = nn.Linear(6, 3)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    loader = TensorLoader(*data(32), batch_size=8)
    try:
        train(net, loader, loader, optimizer, loss_fn, 1)
    except RuntimeError as error:
        return {
            "error": f"{type(error).__name__}: {error}",
            "model": net.state_dict(),
            "grads": [parameter.grad is None for parameter in net.parameters()],
        }
    return {"error": ""}


def resuming(folder: Path) -> dict[str, Any]:
    """A run that is stopped in mid-epoch by one process and resumed, and the one that never was."""

    def run(name: str, **options: Any) -> dict[str, Any]:
        asked = 0

        def stop() -> bool:
            nonlocal asked
            asked += 1
            return name == "stopped" and RANK == 1 and asked == 6

        def model() -> nn.Module:
            return nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.3), nn.Tanh(), nn.Linear(8, 3))

        return program(
            30,
            model=model,
            loader="other",
            ema=0.9,
            schedule=one_cycle(0.1),
            checkpoints=folder / name,
            stop=stop,
            **options,
        )

    whole, first = run("whole"), run("stopped")
    return {"whole": whole, "first": first, "resumed": run("stopped", resume=True)}


def programs(folder: Path) -> dict[str, Callable[[], dict[str, Any]]]:
    """By name."""
    spoiled.steps = 0  # type: ignore[attr-defined]
    x, y = data(12)
    batches = [(x, y)]
    sampler: DistributedSampler[Any] = DistributedSampler(TensorDataset(x, y), 2, RANK)
    return {
        "even": program,
        "uneven": lambda: program(27),
        "last batch of one": lambda: program(25),
        "masked": lambda: program(30, masked=9),
        "accumulate": lambda: program(27, accumulate=2, batch_size=5),
        "clipping and EMA": lambda: program(30, max_norm=0.3, ema=0.9, schedule=one_cycle(0.1), patience=1),
        "bf16": lambda: program(32, precision="bf16"),
        "fp16": lambda: program(32, precision="fp16"),
        "DataLoader": lambda: program(27, loader="seeded"),
        "DataLoader, other seeds": lambda: program(27, loader="other"),
        "workers": lambda: program(27, loader="workers", checkpoints=folder / "workers"),
        "unused layer": lambda: program(27, model=Partly),
        "BatchNorm": lambda: program(28, model=normalised),
        "gradient": gradient,
        "gradient, masked": lambda: gradient(examples=7, masked=4),
        "reading": lambda: reading(folder),
        "not finite": lambda: refused(lambda: program(32, loss_fn=spoiled)),
        "skipped": lambda: program(32, loss_fn=spoiled, non_finite="skip", epochs=1),
        "list": lambda: refused(lambda: train_on(batches)),
        "sampler": lambda: refused(lambda: train_on(DataLoader(TensorDataset(x, y), 4, sampler=sampler))),
        "other settings": lambda: refused(lambda: program(32, accumulate=1 + RANK)),
        "other data": lambda: refused(lambda: program(30 + RANK)),
        "resuming": lambda: resuming(folder),
        "dying": dying,
    }


def train_on(loader: Any) -> None:
    net = nn.Linear(6, 3)
    train(net, loader, loader, torch.optim.SGD(net.parameters(), lr=0.1), F.cross_entropy, 1)


def main(folder: Path, names: list[str]) -> None:
    torch.set_num_threads(1)
    np.random.seed(0)
    join_processes()
    for name in names:
        spoiled.steps = 0  # type: ignore[attr-defined]
        result = programs(folder)[name]()
        torch.save(result, folder / f"{name}-{RANK}.pt")
    leave_processes()


if __name__ == "__main__":
    warnings.simplefilter("ignore", UserWarning)
    main(Path(sys.argv[1]), sys.argv[2:])
