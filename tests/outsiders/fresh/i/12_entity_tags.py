"""Sequence labelling: a bidirectional LSTM tags persons and places in synthetic sentences, in micro-batches of eight.

Fault: A batch is run as four micro-batches whose gradients are to add up, but zero_grad() is called before each: only
the last one's gradient, a quarter of the whole, reaches the optimizer. The twin calls zero_grad() once for each batch.

Measured (seeds 0 and 1): validation accuracy 0.734 and 0.703 with the fault, 0.980 and 0.969 in the twin (loss 0.667
and 0.681, 0.102 and 0.110).
"""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("step",)
EPOCHS = 6
WORDS, LONGEST, PADDING, IGNORED = 80, 20, 0, -100
MICRO_BATCH = 8


def sentence(random):
    length = random.integers(8, LONGEST + 1)
    words, tags = [], []
    while len(words) < length:
        kind = random.choice(3, p=[0.6, 0.2, 0.2])
        if kind == 0:
            words += [random.integers(11, 50)]
            tags += [0]
        else:
            names = random.integers(1, 4)
            title = random.integers(5 * kind - 4, 5 * kind + 1)
            words += [title, *random.integers(50, WORDS, names), random.integers(11, 50)]
            tags += [0] + [kind] * names + [0]
    return words[:length], tags[:length]


def dataset(random, count):
    tokens = np.full((count, LONGEST), PADDING)
    labels = np.full((count, LONGEST), IGNORED)
    for row in range(count):
        words, tags = sentence(random)
        tokens[row, : len(words)], labels[row, : len(tags)] = words, tags
    return TensorDataset(torch.from_numpy(tokens), torch.from_numpy(labels))


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(WORDS, 16, padding_idx=PADDING)
        self.lstm = nn.LSTM(16, 20, batch_first=True, bidirectional=True)
        self.head = nn.Linear(40, 3)

    def forward(self, tokens):
        lengths = (tokens != PADDING).sum(1).cpu()
        packed = nn.utils.rnn.pack_padded_sequence(self.embed(tokens), lengths, batch_first=True, enforce_sorted=False)
        hidden, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=LONGEST)
        return self.head(hidden)


def loss(outputs, tags):
    return nn.functional.cross_entropy(outputs.flatten(0, 1), tags.flatten(), ignore_index=IGNORED)


def accuracy(outputs, tags):
    known = tags != IGNORED
    return float((outputs.argmax(-1) == tags)[known].float().mean())


def backward(program, tokens, tags, known):
    share = (tags != IGNORED).sum() / known
    (program.loss_fn(program.model(tokens), tags) * share).backward()


def step(program, batch):
    tokens, tags = batch
    known = (tags != IGNORED).sum()
    for part in zip(tokens.split(MICRO_BATCH), tags.split(MICRO_BATCH), strict=False):
        program.optimizer.zero_grad()
        backward(program, *part, known)
    program.optimizer.step()


def step_twin(program, batch):
    tokens, tags = batch
    known = (tags != IGNORED).sum()
    program.optimizer.zero_grad()
    for part in zip(tokens.split(MICRO_BATCH), tags.split(MICRO_BATCH), strict=False):
        backward(program, *part, known)
    program.optimizer.step()


def build(seed, training_step):
    torch.manual_seed(seed)
    random = np.random.default_rng(seed)
    train, val = dataset(random, 800), dataset(random, 300)
    model = Tagger()
    shuffle = torch.Generator().manual_seed(seed)
    program = Program(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
        loss_fn=loss,
        train_loader=DataLoader(train, batch_size=32, shuffle=True, generator=shuffle),
        val_loader=DataLoader(val, batch_size=100),
        step=training_step,
        metric=accuracy,
    )
    return program, Spec(task="sequence", classes=3, epochs=EPOCHS, ignore_index=IGNORED, padding_index=PADDING)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, step)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, step_twin)
