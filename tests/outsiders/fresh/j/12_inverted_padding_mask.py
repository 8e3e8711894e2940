"""Sentiment of short reviews with a one-layer transformer over padded word sequences.

Words have a hidden polarity, and one of a few negating words anywhere in a review turns its sentiment around. Reviews
have 5 to 16 words and are filled up to 20 with word 0. The words' outputs are averaged and classified.

Fault: the mask given as src_key_padding_mask is True for words, as in other libraries, where PyTorch wants True for
padding: each word looks at the padding only. The twin gives tokens == 0.

Measured (seeds 0 and 1): accuracy 0.685 and 0.610 with the fault, 0.957 and 0.950 in the twin.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from lecture_lib.debugging.program import Program, Spec

PART = ("layers", "model")
WORDS, LENGTH, NEGATORS = 60, 20, (1, 2, 3)


class Reviews(Dataset):
    def __init__(self, rng, count, polarity):
        self.tokens = torch.zeros(count, LENGTH, dtype=torch.long)
        self.sentiment = torch.zeros(count, dtype=torch.long)
        for i in range(count):
            length = rng.integers(5, 17)
            words = rng.integers(4, WORDS, size=length)
            while abs(polarity[words].sum()) < 1.5:
                words = rng.integers(4, WORDS, size=length)
            positive = polarity[words].sum() > 0
            if rng.random() < 0.35:
                words[rng.integers(length)] = rng.choice(NEGATORS)
                positive = not positive
            self.tokens[i, :length] = torch.from_numpy(words)
            self.sentiment[i] = int(positive)

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, i):
        return {"tokens": self.tokens[i], "sentiment": self.sentiment[i]}


class Classifier(nn.Module):
    def __init__(self, inverted: bool, width=32):
        super().__init__()
        self.inverted = inverted
        self.embedding = nn.Embedding(WORDS, width, padding_idx=0)
        self.position = nn.Parameter(torch.randn(LENGTH, width) * 0.02)
        self.layer = nn.TransformerEncoderLayer(width, nhead=4, dim_feedforward=64, dropout=0.1, batch_first=True)
        self.head = nn.Linear(width, 2)

    def forward(self, tokens):
        words = tokens != 0
        mask = words if self.inverted else ~words
        hidden = self.layer(self.embedding(tokens) + self.position, src_key_padding_mask=mask)
        weight = words.unsqueeze(-1).float()
        return self.head((hidden * weight).sum(1) / weight.sum(1))


def build(seed: int, inverted: bool) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    polarity = rng.normal(size=WORDS)
    polarity[:4] = 0
    train, val = Reviews(rng, 2000, polarity), Reviews(rng, 400, polarity)
    model = Classifier(inverted)
    program = Program(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.01),
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(train, batch_size=64, shuffle=True),
        val_loader=DataLoader(val, batch_size=100),
        unpack=lambda batch: (batch["tokens"], batch["sentiment"]),
        metric=lambda out, target: float((out.argmax(1) == target).float().mean()),
    )
    return program, Spec(task="classification", classes=2, epochs=7, padding_index=0)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, inverted=True)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, inverted=False)
