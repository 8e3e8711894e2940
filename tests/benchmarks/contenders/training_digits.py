"""A small network on the digits, trained with the tape until it is good enough."""

from __future__ import annotations

import time

import numpy as np

from lecture_lib.data import load_digits, stratified_split
from lecture_lib.tape import Tensor, cross_entropy, linear, no_grad, relu

WIDTHS = (64, 128, 10)
BATCH_SIZE = 64
LEARNING_RATE = 0.2
Examples = tuple[np.ndarray, np.ndarray]  # float32 [examples, 64] and class indices [examples]


def split() -> tuple[Examples, Examples]:
    """Four fifths of the digits to train on, the others held out."""
    data = load_digits()
    x, labels = data.images.flatten(1).numpy(), data.labels.numpy()
    train, held_out = (part.numpy() for part in stratified_split(labels, (0.8, 0.2), seed=0))
    return (x[train], labels[train]), (x[held_out], labels[held_out])


def train(
    train: Examples, held_out: Examples, accuracy_wanted: float, most_epochs: int, seed: int
) -> tuple[float, float, float, int]:
    """Train until the accuracy is reached or the epochs are used up: accuracy, wall seconds, CPU seconds, epochs."""
    wall, cpu = time.perf_counter(), time.process_time()
    draw = np.random.default_rng(seed)
    inputs, hidden, classes = WIDTHS
    starts = [
        draw.normal(0, (2 / inputs) ** 0.5, (inputs, hidden)),
        np.zeros(hidden),
        draw.normal(0, (2 / hidden) ** 0.5, (hidden, classes)),
        np.zeros(classes),
    ]
    weights = [Tensor(start, dtype=np.float32, requires_grad=True) for start in starts]
    w1, b1, w2, b2 = weights

    def logits(x: np.ndarray) -> Tensor:
        return linear(relu(linear(Tensor(x), w1, b1)), w2, b2)

    accuracy, epoch = 0.0, 0
    while accuracy < accuracy_wanted and epoch < most_epochs:
        epoch += 1
        order = draw.permutation(len(train[1]))
        for rows in np.array_split(order, len(order) // BATCH_SIZE):
            for weight in weights:
                weight.zero_grad()
            cross_entropy(logits(train[0][rows]), train[1][rows]).backward()
            with no_grad():
                for weight in weights:
                    weight -= LEARNING_RATE * weight.grad
        with no_grad():
            accuracy = float((logits(held_out[0]).data.argmax(axis=1) == held_out[1]).mean())
    return accuracy, time.perf_counter() - wall, time.process_time() - cpu, epoch
