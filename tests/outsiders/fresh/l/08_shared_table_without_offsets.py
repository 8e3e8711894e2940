"""Click prediction from four categorical fields (user, item, hour, device) with a factorisation machine that keeps all
fields in one embedding table.

Fault: the ids of the fields, which each begin at 0, index the shared table as they are, so that user 7, item 7 and
hour 7 are one row; the twin adds each field's offset.

Measured (seeds 0 and 1): validation AUC 0.693 and 0.724 with the fault, 0.829 and 0.849 in the twin.
"""

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("model", "inputs")
FIELD_DIMS = [150, 200, 24, 4]


class FactorizationMachine(nn.Module):
    def __init__(self, field_dims, rank, use_offsets):
        super().__init__()
        offsets = np.concatenate([[0], np.cumsum(field_dims)[:-1]]) if use_offsets else np.zeros(len(field_dims))
        self.register_buffer("offsets", torch.tensor(offsets, dtype=torch.long))
        self.linear = nn.Embedding(sum(field_dims), 1)
        self.factors = nn.Embedding(sum(field_dims), rank)
        self.bias = nn.Parameter(torch.zeros(1))
        nn.init.zeros_(self.linear.weight)
        nn.init.normal_(self.factors.weight, std=0.05)

    def forward(self, ids):
        ids = ids + self.offsets
        v = self.factors(ids)
        pairs = 0.5 * (v.sum(1) ** 2 - (v**2).sum(1)).sum(1)
        return self.bias + self.linear(ids).sum((1, 2)) + pairs


def impressions(count, seed):
    rng = np.random.default_rng(seed)
    main = [rng.normal(0, s, d) for d, s in zip(FIELD_DIMS, (0.8, 1.0, 0.6, 0.5), strict=True)]
    user, item = rng.normal(0, 0.9, (FIELD_DIMS[0], 3)), rng.normal(0, 0.9, (FIELD_DIMS[1], 3))
    ids = np.stack([rng.integers(0, d, count) for d in FIELD_DIMS], axis=1)
    logit = -0.8 + sum(m[ids[:, f]] for f, m in enumerate(main)) + (user[ids[:, 0]] * item[ids[:, 1]]).sum(1)
    clicks = rng.random(count) < 1 / (1 + np.exp(-logit))
    return torch.tensor(ids), torch.tensor(clicks, dtype=torch.float32)


def auc(logits, clicks):
    return float(roc_auc_score(clicks.numpy(), logits.detach().numpy()))


def build(seed, use_offsets):
    torch.manual_seed(seed)
    ids, clicks = impressions(60000, seed)
    cut = 50000
    model = FactorizationMachine(FIELD_DIMS, rank=4, use_offsets=use_offsets)
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=1e-5),
        loss_fn=nn.BCEWithLogitsLoss(),
        train_loader=DataLoader(TensorDataset(ids[:cut], clicks[:cut]), batch_size=256, shuffle=True),
        val_loader=DataLoader(TensorDataset(ids[cut:], clicks[cut:]), batch_size=1000),
        metric=auc,
    )
    return program, Spec(task="multi-label", epochs=6)


def make(seed):
    return build(seed, use_offsets=False)


def twin(seed):
    return build(seed, use_offsets=True)
