"""Supervised contrastive embeddings of digits, judged by the nearest training neighbours of each validation digit.

Fault: the evaluation does not put the model into evaluation mode: embeddings are made with dropout and with batch
statistics, and the running statistics see validation digits. The twin calls eval() before and train() after.

Measured (seeds 0 and 1): reported k-NN accuracy 0.956 and 0.952, where the same weights in evaluation mode give 0.981
and 0.976; twin 0.983 and 0.967.
"""

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("layers", "metric")


class Encoder(nn.Module):
    def __init__(self, width=128, dim=16):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(64, width),
            nn.BatchNorm1d(width),
            nn.ReLU(),
            nn.Dropout(0.4),
            nn.Linear(width, width),
            nn.BatchNorm1d(width),
            nn.ReLU(),
            nn.Dropout(0.4),
            nn.Linear(width, dim),
        )

    def forward(self, x):
        return F.normalize(self.net(x), dim=1)


def supcon(z, labels, temperature=0.2):
    similarity = z @ z.T / temperature
    itself = torch.eye(len(z), dtype=torch.bool)
    similarity = similarity.masked_fill(itself, -1e9)
    log_probability = similarity - similarity.logsumexp(1, keepdim=True)
    positive = (labels[:, None] == labels[None]) & ~itself
    counts = positive.sum(1)
    per_anchor = -(log_probability * positive).sum(1) / counts.clamp(min=1)
    return per_anchor[counts > 0].mean()


@torch.no_grad()
def embed(model, loader):
    pairs = [(model(x), y) for x, y in loader]
    return torch.cat([z for z, _ in pairs]), torch.cat([y for _, y in pairs])


def knn_accuracy(model, gallery_loader, query_loader, k=5):
    gallery, gallery_labels = embed(model, gallery_loader)
    queries, labels = embed(model, query_loader)
    nearest = (queries @ gallery.T).topk(k, dim=1).indices
    return (gallery_labels[nearest].mode(dim=1).values == labels).float().mean().item()


def evaluate(program):
    return {"knn_accuracy": knn_accuracy(program.model, program.plain_loader, program.val_loader)}


def evaluate_in_eval_mode(program):
    program.model.eval()
    score = knn_accuracy(program.model, program.plain_loader, program.val_loader)
    program.model.train()
    return {"knn_accuracy": score}


def build(seed, evaluation):
    torch.manual_seed(seed)
    x, y = load_digits(return_X_y=True)
    x = torch.tensor(x, dtype=torch.float32) / 16
    y = torch.tensor(y)
    x_train, x_val, y_train, y_val = train_test_split(x, y, test_size=0.3, stratify=y, random_state=seed)
    train = TensorDataset(x_train, y_train)
    model = Encoder()
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=2e-3),
        loss_fn=supcon,
        train_loader=DataLoader(train, batch_size=128, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        plain_loader=DataLoader(train, batch_size=128),
        val_loader=DataLoader(TensorDataset(x_val, y_val), batch_size=128),
        evaluate=evaluation,
    )
    return program, Spec(epochs=12, couples_samples=True)


def make(seed):
    return build(seed, evaluate)


def twin(seed):
    return build(seed, evaluate_in_eval_mode)
