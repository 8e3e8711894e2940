"""Audio-like: from four microphones' signals of 64 samples, from which of four sides the sound came.

Fault: the signals come as (batch, time, channel) and are brought to Conv1d's (batch, channel, time) by `view`, which
keeps the numbers' order and so mixes times and microphones; `transpose` was meant. The shapes are the same.

Measured (seeds 0 and 1): validation accuracy 0.43 and 0.40 faulty, 1.00 and 1.00 twin.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("layers",)
TIMES, MICROPHONES = 64, 4


def recordings(count, g):
    """A random sound that reaches the microphones at different times, the nearest one first."""
    side = torch.randint(0, 4, (count,), generator=g)
    sound = torch.randn(count, TIMES + 8, generator=g)
    sound = (sound[:, 2:] + sound[:, 1:-1] + sound[:, :-2]) / 3**0.5
    heard = torch.empty(count, TIMES, MICROPHONES)
    for microphone in range(MICROPHONES):
        away = (microphone - side) % 4
        delay = 2 * torch.minimum(away, 4 - away)
        at = torch.arange(TIMES)[None] + 4 - delay[:, None]
        heard[:, :, microphone] = sound.gather(1, at)
    return heard + 0.5 * torch.randn(heard.shape, generator=g), side


class SideNet(nn.Module):
    def __init__(self, ok):
        super().__init__()
        self.ok = ok
        self.conv1 = nn.Conv1d(MICROPHONES, 32, 7, padding=3)
        self.norm1 = nn.BatchNorm1d(32)
        self.conv2 = nn.Conv1d(32, 32, 5, padding=2)
        self.norm2 = nn.BatchNorm1d(32)
        self.head = nn.Linear(32, 4)

    def forward(self, x):
        batch, times, channels = x.shape
        x = x.transpose(1, 2) if self.ok else x.view(batch, channels, times)
        x = torch.relu(self.norm1(self.conv1(x)))
        x = torch.relu(self.norm2(self.conv2(x)))
        return self.head(x.mean(2))


def accuracy(out, y):
    return (out.argmax(1) == y).float().mean().item()


def build(seed: int, ok: bool):
    torch.manual_seed(seed)
    g = torch.Generator().manual_seed(seed)
    train, val = recordings(1500, g), recordings(400, g)
    model = SideNet(ok)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    program = Program(
        model=model,
        optimizer=optimizer,
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(TensorDataset(*train), 50, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(TensorDataset(*val), 200),
        scheduler=torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 12),
        metric=accuracy,
    )
    return program, Spec(task="classification", classes=4, epochs=12, scheduler_steps="epoch")


def make(seed: int):
    return build(seed, ok=False)


def twin(seed: int):
    return build(seed, ok=True)
