"""The bias that shall keep the LSTM's forget gate open is written for the gate order of another library (i, g, f, o):
in PyTorch it falls on the candidate state, which is saturated, and the memory fades.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging import Program, Spec

PART = ("initialisation",)
STEPS, CODES, MAX_NORM = 50, 8, 1.0


def commands(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Telegrams: one of eight codes at the start, then idle noise on the line; the code is asked at the end."""
    y = torch.randint(CODES, (count,), generator=generator)
    x = 0.3 * torch.randn(count, STEPS, 4, generator=generator)
    bits = torch.stack([(y >> bit & 1).float() for bit in range(3)], dim=1)
    start = torch.randint(0, 4, (count,), generator=generator)
    rows = torch.arange(count)
    x[rows, start, :3] += 2 * bits - 1
    x[rows, start, 3] += 2.0
    return x, y


def open_gates(lstm: nn.LSTM, chunk: int, value: float) -> None:
    """Start with gates that keep the memory: the bias of one chunk of four is raised."""
    width = lstm.hidden_size
    with torch.no_grad():
        for name, bias in lstm.named_parameters():
            if name.startswith("bias_ih"):
                bias[chunk * width : (chunk + 1) * width].fill_(value)


class CommandNet(nn.Module):
    def __init__(self, forget_chunk: int, width: int = 24) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, width, batch_first=True)
        self.head = nn.Linear(width, CODES)
        open_gates(self.lstm, forget_chunk, 3.0)

    def forward(self, x: Tensor) -> Tensor:
        _, (hidden, _) = self.lstm(x)
        return self.head(hidden[-1])


def accuracy(outputs: Tensor, targets: Tensor) -> float:
    return float((outputs.argmax(1) == targets).float().mean())


def clipped_step(program: Program, batch: tuple[Tensor, Tensor]) -> None:
    program.optimizer.zero_grad()
    program.loss_fn(program.model(batch[0]), batch[1]).backward()
    nn.utils.clip_grad_norm_(program.model.parameters(), MAX_NORM)
    program.optimizer.step()


def build(seed: int, forget_chunk: int) -> tuple[Program, Spec]:
    generator = torch.Generator().manual_seed(seed)
    x, y = commands(1900, generator)
    x = (x - x[:1500].mean((0, 1))) / x[:1500].std((0, 1))
    torch.manual_seed(seed)
    model = CommandNet(forget_chunk)
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=3e-3),
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(TensorDataset(x[:1500], y[:1500]), batch_size=50, shuffle=True, generator=generator),
        val_loader=DataLoader(TensorDataset(x[1500:], y[1500:]), batch_size=200),
        step=clipped_step,
        metric=accuracy,
    )
    return program, Spec(task="classification", classes=CODES, epochs=25, max_norm=MAX_NORM)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, forget_chunk=2)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, forget_chunk=1)
