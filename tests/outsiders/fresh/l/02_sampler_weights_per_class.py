"""A small CNN on long-tailed digits (the higher the digit, the rarer it is), drawn evenly over the classes with a
WeightedRandomSampler.

Fault: the sampler is given one weight for each class where it expects one for each example, so that it only ever draws
the first ten images of the training set; the twin looks the weight of each example's class up.

Measured (seeds 0 and 1): macro recall on validation 0.394 and 0.403 with the fault (loss 9.1 and 7.1), 0.952 and 0.947
in the twin.
"""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

from lecture_lib.debugging.program import Program, Spec

PART = "inputs"
N_CLASSES = 10
EPOCHS = 15


def long_tailed_digits(generator):
    raw = load_digits()
    images = torch.tensor(raw.images, dtype=torch.float32).unsqueeze(1) / 16.0
    labels = torch.tensor(raw.target)
    order = torch.randperm(len(labels), generator=generator)
    images, labels = images[order], labels[order]
    val_images, val_labels = images[:500], labels[:500]
    images, labels = images[500:], labels[500:]
    kept = []
    for digit in range(N_CLASSES):
        of_digit = torch.nonzero(labels == digit).flatten()
        kept.append(of_digit[: int(len(of_digit) * 0.82**digit)])
    kept = torch.cat(kept)
    kept = kept[torch.randperm(len(kept), generator=generator)]
    mean, std = images[kept].mean(), images[kept].std()
    return (
        TensorDataset((images[kept] - mean) / std, labels[kept]),
        TensorDataset((val_images - mean) / std, val_labels),
    )


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)
        )
        self.classifier = nn.Sequential(nn.Flatten(), nn.Linear(32 * 16, 64), nn.ReLU(), nn.Linear(64, N_CLASSES))

    def forward(self, x):
        return self.classifier(self.features(x))


def macro_recall(logits, y):
    hits = logits.argmax(1) == y
    return torch.stack([hits[y == c].float().mean() for c in y.unique()]).mean().item()


def build(seed, per_example):
    torch.manual_seed(seed)
    train_set, val_set = long_tailed_digits(torch.Generator().manual_seed(seed))
    labels = train_set.tensors[1]
    weights = 1.0 / torch.bincount(labels, minlength=N_CLASSES).double()
    if per_example:
        weights = weights[labels]
    sampler = WeightedRandomSampler(weights, num_samples=len(train_set), replacement=True)
    model = Net()
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=1e-3),
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(train_set, batch_size=32, sampler=sampler),
        val_loader=DataLoader(val_set, batch_size=250),
        metric=macro_recall,
    )
    # The sampler evens the classes out in training on purpose; validation has them as they come.
    return program, Spec(task="classification", classes=N_CLASSES, epochs=EPOCHS, shift_expected=True)


def make(seed):
    return build(seed, per_example=False)


def twin(seed):
    return build(seed, per_example=True)
