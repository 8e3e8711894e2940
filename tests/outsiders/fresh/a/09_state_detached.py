"""The hand-written recurrent loop detaches the state at each time step: gradients never reach what the cell did
earlier, and the network learns hardly anything that it must remember.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging import Program, Spec

PART = ("model", "step")
STEPS, GESTURES = 24, 6


def gestures(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Three channels of an accelerometer: two short pulses early in the recording, the pair is the gesture."""
    x = 0.5 * torch.randn(count, STEPS, 3, generator=generator)
    pairs = [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]
    y = torch.randint(GESTURES, (count,), generator=generator)
    for row, label in enumerate(y.tolist()):
        start = int(torch.randint(2, 6, (1,), generator=generator))
        gap = int(torch.randint(3, 6, (1,), generator=generator))
        first, second = pairs[label]
        x[row, start : start + 2, first] += 2.5
        x[row, start + gap : start + gap + 2, second] += 2.5
    return x, y


class GestureNet(nn.Module):
    def __init__(self, carry: Callable[[Tensor], Tensor], width: int = 24) -> None:
        super().__init__()
        self.carry, self.width = carry, width
        self.cell = nn.GRUCell(3, width)
        self.head = nn.Linear(width, GESTURES)

    def forward(self, x: Tensor) -> Tensor:
        state = x.new_zeros(x.shape[0], self.width)
        for step in range(x.shape[1]):
            state = self.cell(x[:, step], self.carry(state))
        return self.head(state)


def accuracy(outputs: Tensor, targets: Tensor) -> float:
    return float((outputs.argmax(1) == targets).float().mean())


def build(seed: int, carry: Callable[[Tensor], Tensor]) -> tuple[Program, Spec]:
    generator = torch.Generator().manual_seed(seed)
    x, y = gestures(2000, generator)
    mean, std = x[:1500].mean((0, 1)), x[:1500].std((0, 1))
    x = (x - mean) / std
    torch.manual_seed(seed)
    model = GestureNet(carry)
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=4e-3),
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(TensorDataset(x[:1500], y[:1500]), batch_size=50, shuffle=True, generator=generator),
        val_loader=DataLoader(TensorDataset(x[1500:], y[1500:]), batch_size=250),
        metric=accuracy,
    )
    return program, Spec(task="classification", classes=GESTURES, epochs=20)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, carry=Tensor.detach)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, carry=Tensor.contiguous)
