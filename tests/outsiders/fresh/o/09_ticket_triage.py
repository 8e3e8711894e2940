"""Triage of support tickets into four queues with few labelled tickets: an encoder of words that was pretrained on
many tickets of twelve subjects is loaded and frozen, and a new head is trained on top of it.

Fault: the checkpoint's names begin with "encoder.", the encoder's own do not, and load_state_dict(strict=False)
passes over all of them in silence: the frozen encoder keeps its random weights. The twin takes the prefix off.

Measured (seeds 0 and 1): validation accuracy 0.36 and 0.33, the twin 0.82 and 0.84 (guessing 0.25).
"""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = "initialisation"
WORDS, SUBJECTS, QUEUES, LENGTH = 1500, 12, 4, 25
SPEC = Spec(task="classification", classes=QUEUES, epochs=60, frozen=("encoder.*",))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, 32)
        self.hidden = nn.Linear(32, 32)
        self.norm = nn.LayerNorm(32)

    def forward(self, ticket):
        return torch.relu(self.norm(self.hidden(self.words(ticket).mean(1))))


class Classifier(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.encoder = Encoder()
        self.head = nn.Linear(32, classes)

    def forward(self, ticket):
        return self.head(self.encoder(ticket))


def tickets(rng, language, subjects):
    words = np.stack([rng.choice(WORDS, LENGTH, p=language[subject]) for subject in subjects])
    return torch.tensor(words), torch.tensor(subjects)


def pretrained(language, rng, seed):
    """The checkpoint of a classifier of subjects: its encoder's weights."""
    x, y = tickets(rng, language, rng.integers(0, SUBJECTS, 3000))
    model = Classifier(SUBJECTS)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    loader = DataLoader(TensorDataset(x, y), 64, shuffle=True, generator=torch.Generator().manual_seed(seed))
    for _ in range(5):
        for words, subject in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(words), subject).backward()
            optimizer.step()
    return {name: weight for name, weight in model.state_dict().items() if name.startswith("encoder.")}


def build(seed, faulty):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    language = rng.dirichlet(np.full(WORDS, 0.1), SUBJECTS) * 0.5 + rng.dirichlet(np.full(WORDS, 0.3)) * 0.5
    checkpoint = pretrained(language, rng, seed)
    subjects = rng.integers(0, SUBJECTS, 1500)
    x, _ = tickets(rng, language, subjects)
    y = torch.tensor(subjects % QUEUES)

    torch.manual_seed(seed + 1)
    model = Classifier(QUEUES)
    if not faulty:
        checkpoint = {name.removeprefix("encoder."): weight for name, weight in checkpoint.items()}
    model.encoder.load_state_dict(checkpoint, strict=False)
    model.encoder.requires_grad_(False)
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.head.parameters(), lr=1e-2, weight_decay=1e-4),
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(
            TensorDataset(x[:600], y[:600]),
            batch_size=16,
            shuffle=True,
            generator=torch.Generator().manual_seed(seed),
        ),
        val_loader=DataLoader(TensorDataset(x[600:], y[600:]), batch_size=200),
        metric=lambda outputs, targets: (outputs.argmax(1) == targets).float().mean().item(),
    )
    return program, SPEC


def make(seed):
    return build(seed, faulty=True)


def twin(seed):
    return build(seed, faulty=False)
