"""Classification of handwritten digits (8 x 8 pixels) by a small convolutional network with batch norm and dropout.

Fault: The evaluation has no_grad() but never calls model.eval(): dropout stays on, batch norm uses the statistics of
each validation batch and mixes them into its running ones. The training is sound; the reported numbers are too poor.
The twin switches to evaluation mode and back.

Measured (seeds 0 and 1): reported accuracy 0.876 and 0.918 with the fault, 0.984 and 0.984 in the twin (loss 0.41 and
0.28, 0.086 and 0.065). The faulty program's models, evaluated properly, reach 0.987 and 0.984.
"""

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("metric",)
EPOCHS = 12


def datasets(seed):
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(digits.target)
    train, val = train_test_split(range(len(labels)), test_size=0.25, random_state=seed, stratify=digits.target)
    mean, std = images[train].mean(), images[train].std()
    images = (images - mean) / std
    return TensorDataset(images[train], labels[train]), TensorDataset(images[val], labels[val])


def network():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1, bias=False),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.5),
        nn.Linear(128, 64),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(64, 10),
    )


@torch.no_grad()
def scores(program):
    loss, correct, count = 0.0, 0, 0
    for images, labels in program.val_loader:
        outputs = program.model(images)
        loss += float(program.loss_fn(outputs, labels)) * len(labels)
        correct += int((outputs.argmax(1) == labels).sum())
        count += len(labels)
    return {"loss": loss / count, "accuracy": correct / count}


def evaluate(program):
    return scores(program)


def evaluate_twin(program):
    program.model.eval()
    reported = scores(program)
    program.model.train()
    return reported


def build(seed, evaluation):
    torch.manual_seed(seed)
    train, val = datasets(seed)
    model = network()
    shuffle = torch.Generator().manual_seed(seed)
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=2e-3),
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(train, batch_size=64, shuffle=True, generator=shuffle),
        val_loader=DataLoader(val, batch_size=64),
        evaluate=evaluation,
    )
    return program, Spec(task="classification", classes=10, epochs=EPOCHS)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, evaluate)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, evaluate_twin)
