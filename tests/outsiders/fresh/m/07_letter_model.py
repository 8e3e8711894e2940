"""A letter model: a small transformer with hand-written attention predicts each next letter of made-up sentences.

Fault: the attention's mask is made with `triu` in place of `tril`, so each position sees itself and what comes after
it (with the letter that it is to predict), and nothing before. The twin uses `tril`.

Measured (seeds 0 and 1): accuracy reported 0.978 and 0.978; asked for the next letter with nothing but the letters
before it, 0.18 and 0.15. The twin reports 0.80 and 0.80, and has 0.81 and 0.79 when asked so.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = "model"
SPEC = Spec(task="sequence", epochs=5, causal=True)
LETTERS = " abcdefghijklmnopqrstuvwxyz."
WHO = ["anna", "the dog", "my teacher", "a robot", "peter", "the old cat"]
DOES = ["sees", "follows", "paints", "forgets", "hears", "likes"]
WHAT = ["the moon", "a river", "some music", "her garden", "the blue door", "two birds"]
WHEN = ["today", "at night", "in spring", "again", "every week"]
LENGTH = 32


def text(sentences, rng):
    """So many sentences as ids of letters."""
    lines = (" ".join(str(rng.choice(words)) for words in (WHO, DOES, WHAT, WHEN)) + ". " for _ in range(sentences))
    return torch.tensor([LETTERS.index(letter) for letter in "".join(lines)])


def windows(ids):
    """Pieces of LENGTH letters, and the letter after each of them."""
    n = (len(ids) - 1) // LENGTH
    return TensorDataset(ids[: n * LENGTH].view(n, LENGTH), ids[1 : n * LENGTH + 1].view(n, LENGTH))


class Attention(nn.Module):
    def __init__(self, size, heads, mask):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(size, 3 * size)
        self.out = nn.Linear(size, size)
        self.register_buffer("mask", mask)

    def forward(self, x):
        n, length, size = x.shape
        q, k, v = (part.view(n, length, self.heads, -1).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        scores = scores.masked_fill(self.mask[:length, :length] == 0, float("-inf"))
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(n, length, size))


class Block(nn.Module):
    def __init__(self, size, heads, mask):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(size), nn.LayerNorm(size)
        self.attention = Attention(size, heads, mask)
        self.mlp = nn.Sequential(nn.Linear(size, 2 * size), nn.GELU(), nn.Linear(2 * size, size))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class LetterModel(nn.Module):
    def __init__(self, mask, size=48, heads=4, depth=2):
        super().__init__()
        self.letters = nn.Embedding(len(LETTERS), size)
        self.places = nn.Embedding(LENGTH, size)
        self.blocks = nn.Sequential(*(Block(size, heads, mask) for _ in range(depth)))
        self.norm = nn.LayerNorm(size)
        self.head = nn.Linear(size, len(LETTERS))

    def forward(self, ids):
        x = self.letters(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        return self.head(self.norm(self.blocks(x)))


def loss_fn(outputs, targets):
    return F.cross_entropy(outputs.flatten(0, 1), targets.flatten())


def accuracy(outputs, targets):
    return (outputs.argmax(-1) == targets).float().mean().item()


def build(seed, faulty):
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    train, val = windows(text(800, rng)), windows(text(150, rng))
    square = torch.ones(LENGTH, LENGTH)
    model = LetterModel(torch.triu(square) if faulty else torch.tril(square))
    return Program(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=3e-3),
        loss_fn=loss_fn,
        train_loader=DataLoader(train, batch_size=32, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(val, batch_size=64),
        metric=accuracy,
    )


def make(seed):
    return build(seed, faulty=True), SPEC


def twin(seed):
    return build(seed, faulty=False), SPEC
