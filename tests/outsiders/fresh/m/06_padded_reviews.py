"""Sentiment of short made-up reviews: token ids of 6 to 30 words, filled up with 0 to 30, through embedding and GRU.

Fault: the classifier reads the GRU's output at the last column, which for nearly every review is padding, up to 24
steps after its last word. The twin reads the output at each review's own last word.

Measured (seeds 0 and 1): accuracy in validation 0.27 and 0.39 (chance 0.33); the twin's 0.99 and 1.00.
"""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = "model"
SPEC = Spec(task="classification", classes=3, epochs=8, padding_index=0)
VOCABULARY, LONGEST = 120, 30


def reviews(n, rng):
    """Padded ids and classes: the last praise or blame counts, turned round where a "not" stands before it."""
    ids, labels = np.zeros((n, LONGEST), np.int64), np.empty(n, np.int64)
    for i in range(n):
        length = min(6 + int(rng.exponential(8)), LONGEST)
        words = rng.integers(40, VOCABULARY, length)
        labels[i] = rng.integers(0, 3)
        if labels[i] < 2:
            at, negated = rng.integers(1, length), rng.random() < 0.3
            good = bool(labels[i]) != negated
            words[at] = rng.integers(2, 21) if good else rng.integers(21, 40)
            if negated:
                words[at - 1] = 1
        ids[i, :length] = words
    return torch.from_numpy(ids), torch.from_numpy(labels)


class ReviewClassifier(nn.Module):
    def __init__(self, at_last_word, size=24, hidden=48):
        super().__init__()
        self.at_last_word = at_last_word
        self.embedding = nn.Embedding(VOCABULARY, size, padding_idx=0)
        self.gru = nn.GRU(size, hidden, batch_first=True)
        self.classifier = nn.Linear(hidden, 3)

    def forward(self, ids):
        outputs, _ = self.gru(self.embedding(ids))
        if self.at_last_word:
            last = (ids != 0).sum(1) - 1
            summary = outputs[torch.arange(len(ids)), last]
        else:
            summary = outputs[:, -1]
        return self.classifier(summary)


def build(seed, faulty):
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    train, val = TensorDataset(*reviews(1400, rng)), TensorDataset(*reviews(500, rng))
    model = ReviewClassifier(at_last_word=not faulty)
    return Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=4e-3),
        loss_fn=nn.functional.cross_entropy,
        train_loader=DataLoader(train, batch_size=32, shuffle=True),
        val_loader=DataLoader(val, batch_size=100),
        metric=lambda outputs, targets: (outputs.argmax(-1) == targets).float().mean().item(),
    )


def make(seed):
    return build(seed, faulty=True), SPEC


def twin(seed):
    return build(seed, faulty=False), SPEC
