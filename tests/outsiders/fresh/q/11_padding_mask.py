"""A small transformer reads short product reviews, padded to the longest of their batch, and says whether they are
favourable. Words of praise and blame count, and 'not' turns round the one that follows it.

Fault: the mask of the keys is the wrong way round, so every word attends to the padding alone, and what comes after or
before a word is never seen. The twin attends to the words.

Measured (seeds 0 and 1): on 4,000 fresh reviews the faulty program is right on 0.632 and 0.645, the twin on 0.899 and
0.861.
"""

import math

import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

from lecture_lib.debugging.program import Program, Spec

PART = "model"
SPEC = Spec(task="classification", classes=2, epochs=10, padding_index=0)
NOT, PRAISE, BLAME, WORDS = 1, range(2, 10), range(10, 18), 50


def review(rng):
    """Ids of the words, and whether praise outweighs blame."""
    while True:
        ids, score = [], 0
        for _ in range(rng.integers(3, 9)):
            kind = rng.random()
            if kind < 0.3:
                ids.append(int(rng.integers(18, WORDS)))
                continue
            negated = rng.random() < 0.45
            good = rng.random() < 0.5
            ids += [NOT] * negated + [int(rng.choice(PRAISE if good else BLAME))]
            score += 1 if good != negated else -1
        if score:
            return torch.tensor(ids), int(score > 0)


def collate(samples):
    ids = pad_sequence([ids for ids, _ in samples], batch_first=True, padding_value=0)
    return ids, torch.tensor([label for _, label in samples])


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x, mask):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(d // self.heads)
        scores = scores.masked_fill(mask[:, None, None, :], -1e9)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d))


class Reader(nn.Module):
    def __init__(self, swapped, width=48):
        super().__init__()
        self.swapped = swapped
        self.words = nn.Embedding(WORDS, width, padding_idx=0)
        self.places = nn.Parameter(torch.randn(24, width) * 0.5)
        self.attention = Attention(width, 4)
        self.norm1 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 96), nn.GELU(), nn.Linear(96, width))
        self.norm2 = nn.LayerNorm(width)
        self.head = nn.Linear(width, 2)

    def forward(self, ids):
        real = ids != 0
        x = self.words(ids) + self.places[: ids.shape[1]]
        x = self.norm1(x + self.attention(x, real if self.swapped else ~real))
        x = self.norm2(x + self.mlp(x))
        weight = real.unsqueeze(-1).float()
        return self.head((x * weight).sum(1) / weight.sum(1))


def accuracy(outputs, targets):
    return (outputs.argmax(1) == targets).float().mean().item()


def build(seed, faulty):
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    train, val = [review(rng) for _ in range(4000)], [review(rng) for _ in range(800)]
    model = Reader(faulty)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    generator = torch.Generator().manual_seed(seed)
    return Program(
        model=model,
        optimizer=optimizer,
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(train, 64, shuffle=True, collate_fn=collate, generator=generator),
        val_loader=DataLoader(val, 64, collate_fn=collate),
        scheduler=torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, SPEC.epochs),
        metric=accuracy,
    )


def make(seed):
    return build(seed, True), SPEC


def twin(seed):
    return build(seed, False), SPEC
