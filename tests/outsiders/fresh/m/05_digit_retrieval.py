"""Metric learning on sklearn's digits with noise: embeddings by a batch-all triplet loss, judged by whether an image's
nearest neighbour among the validation images is of its class. Loop and evaluation are hand-written.

Fault: the evaluation looks for each image's nearest neighbour among all images, itself included, so recall@1 is 1 for
any network. The twin sets the distance of an image to itself to infinity.

Measured (seeds 0 and 1): recall@1 reported 1.00 and 1.00, before any training too; without the image itself it is 0.68
and 0.75 (0.34 and 0.33 before training), which the twin reports. Training is the same in both.
"""

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = "metric"
SPEC = Spec(epochs=8, couples_samples=True)


class Embedder(nn.Module):
    def __init__(self, size=16):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU()
        )
        self.project = nn.Linear(32 * 16, size)

    def forward(self, x):
        return F.normalize(self.project(self.conv(x).flatten(1)), dim=1)


def triplet_loss(embeddings, labels, margin=0.3):
    """Batch-all: mean over the triplets of an anchor, another image of its class, and one of another class."""
    distances = 2 - 2 * embeddings @ embeddings.T
    same = labels[:, None] == labels
    others = same & ~torch.eye(len(labels), dtype=torch.bool)
    violated = F.relu(distances[:, :, None] - distances[:, None, :] + margin)
    triplets = others[:, :, None] & ~same[:, None, :]
    return (violated * triplets).sum() / triplets.sum()


def train_epoch(program):
    program.model.train()
    for images, labels in program.train_loader:
        embeddings = program.model(images)
        loss = program.loss_fn(embeddings, labels)
        program.optimizer.zero_grad()
        loss.backward()
        program.optimizer.step()


def retrieval(exclude_self):
    """The evaluation: recall@1 over the validation images."""

    @torch.no_grad()
    def evaluate(program):
        program.model.eval()
        pairs = [(program.model(images), labels) for images, labels in program.val_loader]
        embeddings, labels = (torch.cat(part) for part in zip(*pairs, strict=True))
        distances = torch.cdist(embeddings, embeddings, compute_mode="donot_use_mm_for_euclid_dist")
        if exclude_self:
            distances.fill_diagonal_(float("inf"))
        return {"recall@1": (labels[distances.argmin(1)] == labels).float().mean().item()}

    return evaluate


def build(seed, faulty):
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    digits = load_digits()
    images = digits.images[:, None] / 16 + rng.normal(0, 0.35, (len(digits.images), 1, 8, 8))
    images, labels = torch.tensor(images, dtype=torch.float32), torch.tensor(digits.target)
    order = torch.from_numpy(rng.permutation(len(labels)))
    train, val = order[:1000], order[1000:]
    model = Embedder()
    return Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=1e-3),
        loss_fn=triplet_loss,
        train_loader=DataLoader(
            TensorDataset(images[train], labels[train]),
            batch_size=60,
            shuffle=True,
            drop_last=True,
            generator=torch.Generator().manual_seed(seed),
        ),
        val_loader=DataLoader(TensorDataset(images[val], labels[val]), batch_size=256),
        train_epoch=train_epoch,
        evaluate=retrieval(exclude_self=not faulty),
    )


def make(seed):
    return build(seed, faulty=True), SPEC


def twin(seed):
    return build(seed, faulty=False), SPEC
