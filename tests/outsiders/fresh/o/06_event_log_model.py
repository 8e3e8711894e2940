"""Language model of a machine's event log: twelve events, of which the next depends on the last two (with
exceptions). A transformer of two layers predicts the next event at each position; reported as the share of right
predictions.

Fault: the encoder gets no causal mask, so that each position sees the event that it is to predict. The twin passes
the mask.

Measured (seeds 0 and 1): reported accuracy 0.98 and 0.97, but 0.14 and 0.13 where an event is predicted from the
events before it alone; the twin 0.74 and 0.73 either way (the data allow 0.74, guessing 0.08).
"""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = "layers"
EVENTS, LENGTH, WIDTH = 12, 20, 48
SPEC = Spec(task="sequence", classes=EVENTS, epochs=10, causal=True)


def logs(rng, n, follower):
    log = np.zeros((n, LENGTH + 1), dtype=np.int64)
    log[:, :2] = rng.integers(0, EVENTS, (n, 2))
    for t in range(2, LENGTH + 1):
        usual = follower[log[:, t - 2], log[:, t - 1]]
        log[:, t] = np.where(rng.random(n) < 0.75, usual, rng.integers(0, EVENTS, n))
    log = torch.tensor(log)
    return TensorDataset(log[:, :-1], log[:, 1:])


class LogModel(nn.Module):
    def __init__(self, masked):
        super().__init__()
        self.events = nn.Embedding(EVENTS, WIDTH)
        self.places = nn.Parameter(torch.randn(LENGTH, WIDTH) * 0.1)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 96, dropout=0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, EVENTS)
        self.masked = masked

    def forward(self, log):
        length = log.shape[1]
        mask = torch.triu(torch.full((length, length), float("-inf")), diagonal=1) if self.masked else None
        hidden = self.encoder(self.events(log) + self.places[:length], mask=mask)
        return self.head(self.norm(hidden))


def build(seed, faulty):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    follower = rng.integers(0, EVENTS, (EVENTS, EVENTS))
    train, val = logs(rng, 2000, follower), logs(rng, 300, follower)
    model = LogModel(masked=not faulty)
    program = Program(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-2),
        loss_fn=lambda outputs, targets: F.cross_entropy(outputs.flatten(0, 1), targets.flatten()),
        train_loader=DataLoader(train, batch_size=32, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(val, batch_size=100),
        metric=lambda outputs, targets: (outputs.argmax(-1) == targets).float().mean().item(),
    )
    return program, SPEC


def make(seed):
    return build(seed, faulty=True)


def twin(seed):
    return build(seed, faulty=False)
