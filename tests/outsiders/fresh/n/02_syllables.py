"""A transformer of two blocks learns a made-up language of eight symbols, in which each symbol depends on the two
before it, by predicting the next symbol.

Fault: the causal mask starts at the second diagonal above the main one, so each position attends to the one after
it, which holds its target. The twin's mask starts at the first.

Measured (seeds 0 and 1): reported validation accuracy 1.00 and 0.98 (loss 0.02 and 0.04). Given only the symbols
before the one to predict, as in generation (after at least four), the same network gets 0.60 and 0.24 (2.39 and
4.09), the twin 0.79 and 0.68 (0.58 and 0.84).
"""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = "layers"
SPEC = Spec(task="sequence", classes=8, epochs=12, causal=True, scheduler_steps="epoch", max_norm=1.0)
SYMBOLS, LENGTH, WIDTH = 8, 32, 48


def language(seed, sequences):
    """Sequences in which each symbol depends on the two before it."""
    rng = np.random.default_rng(seed)
    chances = rng.dirichlet(np.full(SYMBOLS, 0.12), size=(SYMBOLS, SYMBOLS)).cumsum(-1)
    text = rng.integers(0, SYMBOLS, (sequences, LENGTH + 1))
    for position in range(2, LENGTH + 1):
        row = chances[text[:, position - 2], text[:, position - 1]]
        text[:, position] = (rng.random((sequences, 1)) > row).sum(1).clip(max=SYMBOLS - 1)
    return torch.tensor(text)


class Block(nn.Module):
    def __init__(self, ahead, heads=4):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))
        self.register_buffer("hidden", torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(ahead))

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        weights = scores.masked_fill(self.hidden[:length, :length], float("-inf")).softmax(-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.mlp(self.norm2(x))


class Transformer(nn.Module):
    def __init__(self, ahead):
        super().__init__()
        self.symbols = nn.Embedding(SYMBOLS, WIDTH)
        self.positions = nn.Parameter(0.02 * torch.randn(LENGTH, WIDTH))
        self.blocks = nn.Sequential(Block(ahead), Block(ahead))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, SYMBOLS)

    def forward(self, text):
        return self.head(self.norm(self.blocks(self.symbols(text) + self.positions[: text.shape[1]])))


def cross_entropy(outputs, targets):
    return nn.functional.cross_entropy(outputs.flatten(0, 1), targets.flatten())


def accuracy(outputs, targets):
    return (outputs.argmax(-1) == targets).float().mean().item()


def step(program, batch):
    text, following = program.parts(batch)
    program.optimizer.zero_grad()
    program.loss_fn(program.outputs(text), following).backward()
    nn.utils.clip_grad_norm_(program.model.parameters(), SPEC.max_norm)
    program.optimizer.step()


def build(seed, ahead):
    torch.manual_seed(seed)
    text = language(seed, 1500)
    train, val = (TensorDataset(part[:, :-1], part[:, 1:]) for part in (text[:1200], text[1200:]))
    model = Transformer(ahead)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.01)
    program = Program(
        model=model,
        optimizer=optimizer,
        loss_fn=cross_entropy,
        train_loader=DataLoader(train, batch_size=40, shuffle=True),
        val_loader=DataLoader(val, batch_size=100),
        scheduler=torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=SPEC.epochs),
        step=step,
        metric=accuracy,
    )
    return program, SPEC


def make(seed):
    return build(seed, ahead=2)


def twin(seed):
    return build(seed, ahead=1)
