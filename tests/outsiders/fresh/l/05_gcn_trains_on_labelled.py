"""Node classification on one graph (a stochastic block model of 600 nodes in four communities, features of weak
signal) with a two-layer graph convolution over the dense adjacency matrix.

Fault: the training loss is taken over every node that has a label, which validation nodes have too; the twin takes it
over the training mask.

Measured (seeds 0 and 1): validation accuracy reported with the fault 0.960 and 0.940, of the same models on the nodes
without annotation 0.700 and 0.681 (on five fresh graphs 0.793 and 0.798); the twin reports 0.705 and 0.665, without
annotation 0.675 and 0.669 (fresh graphs 0.778 and 0.779).
"""

from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import nn

from lecture_lib.debugging.program import Program, Spec

PART = ("split", "step")
NODES, COMMUNITIES, FEATURES = 600, 4, 400


def community_graph(generator, centres):
    y = torch.randint(0, COMMUNITIES, (NODES,), generator=generator)
    same = y[:, None] == y[None, :]
    edge = torch.rand(NODES, NODES, generator=generator) < torch.where(same, 0.016, 0.007)
    a = torch.triu(edge, 1).float()
    a = a + a.T + torch.eye(NODES)
    d = a.sum(1).rsqrt()
    x = 0.2 * centres[y] + torch.randn(NODES, FEATURES, generator=generator)
    fold = torch.randperm(NODES, generator=generator)
    mask = {name: torch.zeros(NODES, dtype=torch.bool) for name in ("train", "val")}
    mask["train"][fold[:240]] = True
    mask["val"][fold[240:440]] = True
    labels = y.clone()
    labels[fold[440:]] = -1  # Nobody has annotated these.
    return SimpleNamespace(
        x=x, a_hat=d[:, None] * a * d[None, :], y=labels, full_y=y, train=mask["train"], val=mask["val"]
    )


class GCN(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.first = nn.Linear(FEATURES, hidden)
        self.second = nn.Linear(hidden, COMMUNITIES)
        self.drop = nn.Dropout(0.5)

    def forward(self, graph):
        h = F.relu(graph.a_hat @ self.first(graph.x))
        return graph.a_hat @ self.second(self.drop(h))


def build(seed, choose):
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(COMMUNITIES, FEATURES, generator=generator)
    graph = community_graph(generator, centres)
    model = GCN()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005, weight_decay=2e-2)

    def train_epoch(program):
        program.model.train()
        nodes = choose(graph)
        program.optimizer.zero_grad()
        program.loss_fn(program.model(graph)[nodes], graph.y[nodes]).backward()
        program.optimizer.step()

    @torch.no_grad()
    def evaluate(program):
        was = program.model.training
        program.model.eval()
        logits = program.model(graph)[graph.val]
        program.model.train(was)
        return {
            "loss": program.loss_fn(logits, graph.y[graph.val]).item(),
            "accuracy": (logits.argmax(1) == graph.y[graph.val]).float().mean().item(),
        }

    program = Program(
        model=model, optimizer=optimizer, loss_fn=F.cross_entropy, train_epoch=train_epoch, evaluate=evaluate
    )
    return program, Spec(task="classification", classes=COMMUNITIES, epochs=35, couples_samples=True)


def make(seed):
    return build(seed, lambda graph: graph.y >= 0)


def twin(seed):
    return build(seed, lambda graph: graph.train)
