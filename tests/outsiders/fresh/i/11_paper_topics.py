"""Graph: a graph convolutional network tells the topic of papers in a synthetic citation network, from words and links.

Fault: The graph layers are kept in a plain Python list: they are not registered, model.parameters() has the head only,
and the layers stay at their random start (and are missing in a checkpoint). The twin uses nn.ModuleList.

Measured (seeds 0 and 1): validation accuracy 0.257 and 0.253 with the fault, 0.773 and 0.797 in the twin (loss 1.586
and 1.592, 0.642 and 0.626); 165 parameters instead of 2533.
"""

import itertools

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("layers", "model")
EPOCHS = 20
PAPERS, TOPICS, WORDS = 500, 5, 40


def citations(seed):
    random = np.random.default_rng(seed)
    topics = random.integers(0, TOPICS, PAPERS)
    same = topics[:, None] == topics[None, :]
    links = np.triu(random.random((PAPERS, PAPERS)) < np.where(same, 0.022, 0.005), 1)
    adjacency = torch.tensor(links | links.T, dtype=torch.float32) + torch.eye(PAPERS)
    scale = adjacency.sum(1).rsqrt()
    profiles = random.normal(0, 0.35, (TOPICS, WORDS))
    words = profiles[topics] + random.normal(0, 1, (PAPERS, WORDS))
    adjacency = scale[:, None] * adjacency * scale[None, :]
    return torch.tensor(words, dtype=torch.float32), adjacency, torch.from_numpy(topics)


class GraphLayer(nn.Module):
    def __init__(self, width_in, width_out):
        super().__init__()
        self.linear = nn.Linear(width_in, width_out)

    def forward(self, hidden, adjacency):
        return torch.relu(adjacency @ self.linear(hidden))


class GraphNetwork(nn.Module):
    def __init__(self, words, adjacency, width=32, depth=2):
        super().__init__()
        self.register_buffer("words", words)
        self.register_buffer("adjacency", adjacency)
        widths = [WORDS] + [width] * depth
        self.layers = [GraphLayer(*pair) for pair in itertools.pairwise(widths)]
        self.dropout = nn.Dropout(0.5)
        self.head = nn.Linear(width, TOPICS)

    def forward(self, papers):
        hidden = self.words
        for layer in self.layers:
            hidden = self.dropout(layer(hidden, self.adjacency))
        return self.head(hidden)[papers]


class GraphNetworkTwin(GraphNetwork):
    def __init__(self, words, adjacency, width=32, depth=2):
        super().__init__(words, adjacency, width, depth)
        self.layers = nn.ModuleList(self.layers)


def accuracy(outputs, targets):
    return float((outputs.argmax(1) == targets).float().mean())


def build(seed, network):
    torch.manual_seed(seed)
    words, adjacency, topics = citations(seed)
    train, val = torch.randperm(PAPERS).split([200, 300])
    model = network(words, adjacency)
    shuffle = torch.Generator().manual_seed(seed)
    program = Program(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.05),
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(TensorDataset(train, topics[train]), batch_size=50, shuffle=True, generator=shuffle),
        val_loader=DataLoader(TensorDataset(val, topics[val]), batch_size=100),
        metric=accuracy,
    )
    return program, Spec(task="classification", classes=TOPICS, epochs=EPOCHS)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, GraphNetwork)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, GraphNetworkTwin)
