"""A run that is killed at every point and resumed: a process of its own, for it forks and kills.

python tests/helpers/training_crashes.py FOLDER APART writes one line of JSON for each way to die (of 12, those that lie
so far APART): the point, and how far the resumed run ended from the one that was never stopped.
"""

from __future__ import annotations

import json
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
from torch.optim.lr_scheduler import OneCycleLR
from torch.utils.data import DataLoader, Dataset

from lecture_lib.training import train

EPOCHS, BATCHES, ACCUMULATE = 2, 5, 2


class Noisy(Dataset):
    """Draws from torch's and NumPy's random streams in the worker, as augmentations do."""

    def __len__(self) -> int:
        return BATCHES * 4 - 1  # the last batch is short

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        generator = torch.Generator().manual_seed(index)
        noise = torch.randn(6) + float(np.random.default_rng(int(torch.randint(2**31, ()))).normal())
        return torch.randn(6, generator=generator) + 0.1 * noise, index % 3


def run(folder: Path | None, die: Callable[[int, int], None], *, resume: bool) -> dict[str, Any]:
    """The whole program: dropout, BatchNorm, EMA, one-cycle, clipping, shuffling, two workers."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    loader = DataLoader(Noisy(), batch_size=4, shuffle=True, num_workers=2)
    forwards = {"train": 0}

    def loss_fn(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        if outputs.requires_grad:
            forwards["train"] += 1
            die(1, forwards["train"])
        return F.cross_entropy(outputs, labels)

    if resume:
        torch.manual_seed(99)  # what a new process draws before it resumes does not matter
        np.random.seed(99)
    history = train(
        model,
        loader,
        DataLoader(Noisy(), batch_size=8),
        optimizer,
        loss_fn,
        EPOCHS,
        accumulate=ACCUMULATE,
        max_norm=0.5,
        ema=0.9,
        schedule=lambda optimizer, total_steps: OneCycleLR(optimizer, max_lr=0.05, total_steps=total_steps),
        gradient_norms=True,
        checkpoints=folder,
        checkpoint_every=None if folder is None else 1,
        resume=resume,
        on_epoch=lambda row: die(2, row.epoch),
    )
    return {
        "model": model.state_dict(),
        "best": history.best_state,
        "optimizer": optimizer.state_dict()["state"],
        "rows": [[*row.values()] for row in history.as_rows()],
        "random": [torch.get_rng_state()],
    }


def numbers(value: Any) -> list[float]:
    """All numbers of a structure, in order."""
    if isinstance(value, dict):
        return [number for part in value.values() for number in numbers(part)]
    if isinstance(value, list | tuple):
        return [number for part in value for number in numbers(part)]
    return torch.as_tensor(value, dtype=torch.float64).flatten().tolist()


def forked(task: Callable[[], None]) -> int:
    """Run a task in a process of its own, and give its exit code: -9 when it was killed."""
    child = os.fork()
    if child == 0:
        task()
        sys.stdout.flush()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main(folder: Path, apart: int) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", UserWarning)  # accumulation with BatchNorm is meant here
    reference = folder / "reference.json"

    def write(path: Path, result: dict[str, Any]) -> None:
        path.write_text(json.dumps(numbers(result)), "utf-8")

    assert forked(lambda: write(reference, run(None, lambda *_: None, resume=False))) == 0
    expected = json.loads(reference.read_text("utf-8"))
    points = [(1, number) for number in range(1, EPOCHS * BATCHES + 1)] + [(2, epoch) for epoch in range(1, EPOCHS + 1)]
    for point in points[apart // 2 :: apart]:
        place = folder / f"run-{point[0]}-{point[1]}"

        def die(kind: int, number: int, point: tuple[int, int] = point) -> None:
            if (kind, number) == point:
                os.kill(os.getpid(), signal.SIGKILL)

        killed = forked(lambda place=place, die=die: run(place, die, resume=False))
        result = place / "result.json"
        code = forked(lambda place=place, result=result: write(result, run(place, lambda *_: None, resume=True)))
        found = json.loads(result.read_text("utf-8")) if code == 0 else []
        pairs = zip(found, expected, strict=False)
        worst = max((abs(a - b) for a, b in pairs), default=float("inf")) if len(found) == len(expected) else -1
        print(json.dumps({"point": point, "killed": killed, "resumed": code, "difference": worst}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
