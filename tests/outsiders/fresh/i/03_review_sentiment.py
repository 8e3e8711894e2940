"""Sentiment of short reviews: a recurrent network reads word ids (synthetic, with negation words) and says good or bad.

Fault: Reviews are padded on the right to 30 words (their mean is 10) and the classifier takes the GRU's last hidden
state, which has run through all the padding after the review's end. padding_idx in the embedding does not stop that.
The twin packs the sequences, so that the last state is the last word's.

Measured (seeds 0 and 1): validation accuracy 0.850 and 0.938 with the fault, 0.980 and 0.980 in the twin (loss 0.381
and 0.162, 0.073 and 0.074); learning also begins later.
"""

import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("layers", "model")
EPOCHS = 8
PADDING = 0
LONGEST = 30
WORDS = 48


def review(random):
    while True:
        length = min(3 + random.geometric(0.15), LONGEST)
        kind = random.choice(4, size=length, p=[0.5, 0.2, 0.2, 0.1])
        low, high = np.array([1, 26, 35, 44]), np.array([26, 35, 44, WORDS])
        words = random.integers(low[kind], high[kind])
        polarity = np.array([0, 1, -1, 0])[kind]
        polarity[1:][kind[:-1] == 3] *= -1
        if polarity.sum() != 0:
            return words, int(polarity.sum() > 0)


def dataset(random, count):
    tokens, labels = np.full((count, LONGEST), PADDING), np.zeros(count, dtype=np.int64)
    for row in range(count):
        words, labels[row] = review(random)
        tokens[row, : len(words)] = words
    return TensorDataset(torch.from_numpy(tokens), torch.from_numpy(labels))


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(WORDS, 16, padding_idx=PADDING)
        self.gru = nn.GRU(16, 24, batch_first=True)
        self.head = nn.Linear(24, 2)

    def forward(self, tokens):
        _, hidden = self.gru(self.embed(tokens))
        return self.head(hidden[-1])


class ReaderTwin(Reader):
    def forward(self, tokens):
        lengths = (tokens != PADDING).sum(1).cpu()
        packed = pack_padded_sequence(self.embed(tokens), lengths, batch_first=True, enforce_sorted=False)
        _, hidden = self.gru(packed)
        return self.head(hidden[-1])


def accuracy(outputs, targets):
    return float((outputs.argmax(1) == targets).float().mean())


def build(seed, reader):
    torch.manual_seed(seed)
    random = np.random.default_rng(seed)
    train, val = dataset(random, 3000), dataset(random, 500)
    model = reader()
    shuffle = torch.Generator().manual_seed(seed)
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=5e-3),
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(train, batch_size=50, shuffle=True, generator=shuffle),
        val_loader=DataLoader(val, batch_size=100),
        metric=accuracy,
    )
    return program, Spec(task="classification", classes=2, epochs=EPOCHS, padding_index=PADDING)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, Reader)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, ReaderTwin)
