"""Sentiment of short reviews of 20 tokens with a transformer encoder; a mark of irony turns a review's sense around.

Fault: TransformerEncoderLayer is made without batch_first=True and fed (batch, tokens, width): it attends over the
reviews of a batch and not over the tokens of a review. The twin passes batch_first=True.

Measured (seeds 0 and 1): accuracy 0.598 and 0.549; twin 0.993 and 0.931.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("layers",)

LENGTH, VOCAB = 20, 60
IRONY = 1
GOOD = range(2, 12)
BAD = range(12, 22)


def reviews(n, generator):
    """Token ids of neutral words and opinions; in a third of the reviews a mark of irony stands somewhere."""
    ids = torch.randint(22, VOCAB, (n, LENGTH), generator=generator)
    opinion = torch.rand(n, LENGTH, generator=generator) < 0.3
    ids = torch.where(opinion, torch.randint(2, 22, (n, LENGTH), generator=generator), ids)
    ironic = torch.rand(n, generator=generator) < 0.35
    place = torch.randint(0, LENGTH, (n,), generator=generator)
    ids[ironic, place[ironic]] = IRONY
    good = ((ids >= GOOD.start) & (ids < GOOD.stop)).sum(1)
    bad = ((ids >= BAD.start) & (ids < BAD.stop)).sum(1)
    keep = good != bad
    return ids[keep], ((good > bad) ^ ironic)[keep].long()


class SentimentEncoder(nn.Module):
    def __init__(self, width=32, heads=4, depth=1, **layer_options):
        super().__init__()
        self.words = nn.Embedding(VOCAB, width)
        self.places = nn.Parameter(torch.randn(LENGTH, width) * 0.1)
        layer = nn.TransformerEncoderLayer(width, heads, dim_feedforward=64, dropout=0.1, **layer_options)
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.classifier = nn.Linear(width, 2)

    def forward(self, ids):
        h = self.encoder(self.words(ids) + self.places)
        return self.classifier(h.mean(1))


def build(seed, **layer_options):
    torch.manual_seed(seed)
    g = torch.Generator().manual_seed(seed)
    train = TensorDataset(*reviews(3200, g))
    val = TensorDataset(*reviews(1000, g))
    model = SentimentEncoder(**layer_options)
    return (
        Program(
            model=model,
            optimizer=torch.optim.Adam(model.parameters(), lr=2e-3),
            loss_fn=nn.CrossEntropyLoss(),
            train_loader=DataLoader(train, batch_size=32, shuffle=True, generator=g),
            val_loader=DataLoader(val, batch_size=32),
            metric=lambda out, y: (out.argmax(-1) == y).double().mean().item(),
        ),
        Spec(task="classification", classes=2, epochs=10),
    )


def make(seed):
    return build(seed)


def twin(seed):
    return build(seed, batch_first=True)
