"""A small network on the digits, trained with the tape until it is good enough."""

from __future__ import annotations

import time

import numpy as np

from lecture_lib.data import load_digits, stratified_split
from lecture_lib.tape import SGD, Linear, ReLU, Sequential, Tensor, cross_entropy, no_grad

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
    layers = Linear(inputs, hidden, generator=draw, dtype=np.float32), ReLU()
    model = Sequential(*layers, Linear(hidden, classes, generator=draw, dtype=np.float32))
    optimizer = SGD(model.parameters(), LEARNING_RATE)
    accuracy, epoch = 0.0, 0
    while accuracy < accuracy_wanted and epoch < most_epochs:
        epoch += 1
        order = draw.permutation(len(train[1]))
        for rows in np.array_split(order, len(order) // BATCH_SIZE):
            optimizer.zero_grad()
            cross_entropy(model(Tensor(train[0][rows])), train[1][rows]).backward()
            optimizer.step()
        with no_grad():
            accuracy = float((model(Tensor(held_out[0])).data.argmax(axis=1) == held_out[1]).mean())
    return accuracy, time.perf_counter() - wall, time.process_time() - cpu, epoch
