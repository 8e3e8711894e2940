"""A graph convolutional network finds the topic of papers from their words and citations, on one graph, trained on a
third of its papers.

Fault: ten plain graph convolutions in a row, without residual connections, smooth the papers until they look alike.
The twin has two.

Measured (seeds 0 and 1): validation accuracy 0.43 and 0.67 (loss 1.13 and 0.78), with the twin 0.95 and 0.94 (0.17
and 0.22).
"""

import itertools

import numpy as np
import torch
from torch import nn

from lecture_lib.debugging.program import Program, Spec

PART = "model"
PAPERS, TOPICS, WORDS = 1200, 5, 60
SPEC = Spec(task="classification", classes=TOPICS, epochs=120)


def citations(seed):
    """Papers with their words, topics and who cites whom."""
    rng = np.random.default_rng(seed)
    topic = rng.integers(0, TOPICS, PAPERS)
    chance = np.where(topic[:, None] == topic[None], 0.015, 0.0015)
    upper = np.triu(rng.random((PAPERS, PAPERS)) < chance, 1)
    adjacency = torch.tensor(upper | upper.T, dtype=torch.float32)
    use = rng.normal(size=(TOPICS, WORDS))
    words = 0.35 * use[topic] + rng.normal(size=(PAPERS, WORDS))
    return torch.tensor(words, dtype=torch.float32), torch.tensor(topic), adjacency


class GraphConvolution(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)
        nn.init.xavier_uniform_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, x, propagation):
        return propagation @ self.linear(x)


class GCN(nn.Module):
    def __init__(self, depth, width=32):
        super().__init__()
        sizes = [WORDS] + [width] * (depth - 1) + [TOPICS]
        self.layers = nn.ModuleList(GraphConvolution(a, b) for a, b in itertools.pairwise(sizes))
        self.dropout = nn.Dropout(0.5)

    def forward(self, graph):
        x, propagation = graph
        for layer in self.layers[:-1]:
            x = self.dropout(torch.relu(layer(x, propagation)))
        return self.layers[-1](x, propagation)


def build(seed, depth):
    torch.manual_seed(seed)
    words, topic, adjacency = citations(seed)
    order = torch.randperm(PAPERS)
    train, val = order[:400], order[400:800]
    looped = adjacency + torch.eye(PAPERS)
    scale = looped.sum(1).rsqrt()
    graph = (words - words[train].mean(0)) / words[train].std(0), scale[:, None] * looped * scale[None]

    def train_epoch(program):
        program.model.train()
        program.optimizer.zero_grad()
        program.loss_fn(program.outputs(graph)[train], topic[train]).backward()
        program.optimizer.step()

    def evaluate(program):
        program.model.eval()
        with torch.no_grad():
            outputs = program.outputs(graph)[val]
        return {
            "loss": program.loss_fn(outputs, topic[val]).item(),
            "accuracy": (outputs.argmax(1) == topic[val]).float().mean().item(),
        }

    model = GCN(depth)
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=5e-4),
        loss_fn=nn.CrossEntropyLoss(),
        train_epoch=train_epoch,
        evaluate=evaluate,
    )
    return program, SPEC


def make(seed):
    return build(seed, depth=10)


def twin(seed):
    return build(seed, depth=2)
