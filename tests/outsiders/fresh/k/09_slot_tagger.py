"""Slot tagging of short commands: a BiLSTM gives each token one of five tags; sentences are padded to 24 tokens.

Fault: the accuracy counts the padded positions, whose label -100 no prediction can equal, so that the reported number
is too low. The twin counts words only. Training is the same in both.

Measured (seeds 0 and 1): reported accuracy 0.545 and 0.569; twin 0.977 and 0.979, which is right for both.
"""

import random

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("metric",)

PAD, IGNORE, MAX_LEN = 0, -100, 24
TAGS = ["O", "B-CITY", "I-CITY", "B-DATE", "I-DATE"]
PREPOSITIONS = {"to": 1, "on": 2}
SHARED = range(3, 43)
PLAIN = range(43, 103)
VOCAB = 103


def sentence(rng):
    """Names after 'to' are cities and after 'on' are dates: the words themselves are shared, and so is their use."""
    tokens, tags = [], []
    length = rng.randint(5, MAX_LEN - 3)
    while len(tokens) < length:
        if rng.random() < 0.3:
            kind = rng.choice(["to", "on"])
            tokens.append(PREPOSITIONS[kind])
            tags.append(0)
            first = 1 if kind == "to" else 3
            for i in range(rng.randint(1, 3)):
                tokens.append(rng.choice(SHARED))
                tags.append(first + (i > 0))
        else:
            tokens.append(rng.choice(SHARED) if rng.random() < 0.25 else rng.choice(PLAIN))
            tags.append(0)
    return tokens[:MAX_LEN], tags[:MAX_LEN]


def padded(sentences):
    ids = torch.full((len(sentences), MAX_LEN), PAD)
    labels = torch.full((len(sentences), MAX_LEN), IGNORE)
    for row, (tokens, tags) in enumerate(sentences):
        ids[row, : len(tokens)] = torch.tensor(tokens)
        labels[row, : len(tags)] = torch.tensor(tags)
    return TensorDataset(ids, labels)


class Tagger(nn.Module):
    def __init__(self, width=24, hidden=32):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, width, padding_idx=PAD)
        self.lstm = nn.LSTM(width, hidden, batch_first=True, bidirectional=True)
        self.drop = nn.Dropout(0.2)
        self.out = nn.Linear(2 * hidden, len(TAGS))

    def forward(self, ids):
        lengths = (ids != PAD).sum(1)
        packed = pack_padded_sequence(self.embed(ids), lengths, batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=ids.size(1))
        return self.out(self.drop(states))


class TaggingLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.ce = nn.CrossEntropyLoss(ignore_index=IGNORE)

    def forward(self, logits, labels):
        return self.ce(logits.flatten(0, 1), labels.flatten())


def tag_accuracy(logits, labels):
    predictions = logits.argmax(-1)
    return (predictions == labels).float().mean().item()


def tag_accuracy_on_words(logits, labels):
    predictions = logits.argmax(-1)
    words = labels != IGNORE
    return (predictions[words] == labels[words]).float().mean().item()


def build(seed, metric):
    torch.manual_seed(seed)
    rng = random.Random(seed)
    data = [sentence(rng) for _ in range(1500)]
    train, val = padded(data[:1200]), padded(data[1200:])
    model = Tagger()
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=4e-3),
        loss_fn=TaggingLoss(),
        train_loader=DataLoader(train, 32, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(val, 100),
        metric=metric,
    )
    spec = Spec(task="sequence", classes=len(TAGS), epochs=8, ignore_index=IGNORE, padding_index=PAD)
    return program, spec


def make(seed):
    return build(seed, tag_accuracy)


def twin(seed):
    return build(seed, tag_accuracy_on_words)
