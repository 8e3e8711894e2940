"""Subjects of papers in one citation graph: 800 papers of seven subjects, noisy bags of features, citations mostly
within a subject. A graph convolution net of two layers, trained on the whole graph at once with three in ten labels.

Fault: Adam's weight decay is 0.1 on all parameters, a hundred times what was meant: it outweighs the loss's gradient,
and the weights shrink towards nothing. The twin decays with 0.001.

Measured (seeds 0 and 1): validation accuracy 0.56 and 0.43, the twin 0.86 and 0.77; loss 1.56 and 1.67, the twin 0.50
and 0.81.
"""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from lecture_lib.debugging.program import Program, Spec

PART = "optimizer"
PAPERS, SUBJECTS, FEATURES = 800, 7, 40
SPEC = Spec(task="classification", classes=SUBJECTS, epochs=250)


def citations(rng):
    subject = rng.integers(0, SUBJECTS, PAPERS)
    same = subject[:, None] == subject[None]
    linked = np.triu(rng.random((PAPERS, PAPERS)) < np.where(same, 0.02, 0.0025), 1)
    centre = rng.normal(0, 0.35, (SUBJECTS, FEATURES))
    features = centre[subject] + rng.normal(size=(PAPERS, FEATURES))
    adjacency = (linked | linked.T).astype(np.float32) + np.eye(PAPERS, dtype=np.float32)
    degree = adjacency.sum(1)
    adjacency = adjacency / np.sqrt(degree[:, None] * degree[None])
    features = (features - features.mean(0)) / features.std(0)
    features, adjacency = (torch.tensor(array, dtype=torch.float32) for array in (features, adjacency))
    return features, adjacency, torch.tensor(subject)


class GraphNet(nn.Module):
    def __init__(self, adjacency):
        super().__init__()
        self.register_buffer("adjacency", adjacency)
        self.first = nn.Linear(FEATURES, 32)
        self.second = nn.Linear(32, SUBJECTS)

    def forward(self, features):
        hidden = torch.relu(self.adjacency @ self.first(F.dropout(features, 0.3, self.training)))
        return self.adjacency @ self.second(F.dropout(hidden, 0.5, self.training))


def build(seed, faulty):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    features, adjacency, subject = citations(rng)
    order = torch.tensor(rng.permutation(PAPERS))
    train, val = order[:240], order[240:520]
    model = GraphNet(adjacency)

    def train_epoch(program):
        program.model.train()
        program.optimizer.zero_grad()
        loss = program.loss_fn(program.outputs(features)[train], subject[train])
        loss.backward()
        program.optimizer.step()

    def evaluate(program):
        was_training = program.model.training
        program.model.eval()
        with torch.no_grad():
            outputs = program.outputs(features)[val]
        program.model.train(was_training)
        accuracy = (outputs.argmax(1) == subject[val]).float().mean().item()
        return {"loss": program.loss_fn(outputs, subject[val]).item(), "accuracy": accuracy}

    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=1e-1 if faulty else 1e-3),
        loss_fn=nn.CrossEntropyLoss(),
        train_epoch=train_epoch,
        evaluate=evaluate,
    )
    return program, SPEC


def make(seed):
    return build(seed, faulty=True)


def twin(seed):
    return build(seed, faulty=False)
