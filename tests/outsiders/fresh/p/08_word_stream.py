"""A language model: a GRU reads a stream of simple sentences in pieces of 32 words and says the next word for each of
them. Gradients are clipped to a norm of 1.

Fault: the targets are not shifted, so that the model is asked for the word that it has just read. The twin's
targets are one word ahead.

Measured (seeds 0 and 1): the faulty program reports an accuracy of 1.00 and 1.00, but says the next word right in
0.00 and 0.00 of the places of validation (always the commonest word: 0.22); the twin reports 0.55 and 0.55.
"""

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = "labels"
PIECE, TOPICS = 32, 4
# Ids: 0 full stop, 1-2 articles, 3-5 prepositions, then for each topic 6 nouns, 4 verbs, 3 adjectives.
VOCABULARY = 6 + TOPICS * 13
SPEC = Spec(task="sequence", classes=VOCABULARY, epochs=8, causal=True, max_norm=1.0)


def stream(rng, words):
    """Sentences one after another; a sentence mostly keeps to its topic."""
    found = []

    def say(kind, topic):
        start, count = {"noun": (0, 6), "verb": (6, 4), "adjective": (10, 3)}[kind]
        topic = topic if rng.random() < 0.9 else rng.integers(TOPICS)
        # The first words of a kind are the more common ones.
        which = min(int(rng.exponential(0.9)), count - 1)
        found.append(6 + 13 * int(topic) + start + which)

    while len(found) < words:
        topic = rng.integers(TOPICS)
        for place in range(3):
            if place == 2:
                if rng.random() < 0.5:
                    break
                found.append(3 + int(rng.integers(3)))
            found.append(1 + int(rng.random() < 0.3))
            if rng.random() < 0.3:
                say("adjective", topic)
            say("noun", topic)
            if place == 0:
                say("verb", topic)
        found.append(0)
    return torch.tensor(found[:words])


class Reader(nn.Module):
    """Embedding, GRU, and a score for each word of the vocabulary."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, 48)
        self.gru = nn.GRU(48, 64, batch_first=True)
        self.out = nn.Linear(64, VOCABULARY)

    def forward(self, ids):
        return self.out(self.gru(self.words(ids))[0])


def step(program, batch):
    inputs, targets = batch
    program.optimizer.zero_grad()
    program.loss_fn(program.model(inputs), targets).backward()
    nn.utils.clip_grad_norm_(program.model.parameters(), 1.0)
    program.optimizer.step()


def build(seed, faulty):
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)

    def pieces(count):
        text = stream(rng, count * PIECE + 1)
        inputs = text[:-1].view(count, PIECE)
        targets = (text[:-1] if faulty else text[1:]).reshape(count, PIECE)
        return TensorDataset(inputs, targets)

    model = Reader()
    return Program(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.01),
        loss_fn=lambda outputs, targets: cross_entropy(outputs.flatten(0, 1), targets.flatten()),
        train_loader=DataLoader(pieces(1000), 32, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(pieces(200), 50),
        step=step,
        metric=lambda outputs, targets: (outputs.argmax(-1) == targets).float().mean().item(),
    )


def make(seed):
    return build(seed, True), SPEC


def twin(seed):
    return build(seed, False), SPEC
