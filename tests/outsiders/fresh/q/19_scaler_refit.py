"""A small network foretells the days a patient stays in hospital from twelve measurements on admission. It is trained
on two hospitals and validated on a third, whose patients are older and sicker.

Fault: the measurements of validation are standardised by their own mean and deviation (fit_transform once more), so the
third hospital's sicker patients look like average ones. The twin uses training's scaler.

Measured (seeds 0 and 1): the faulty program reports an R2 of -0.264 and -0.260, while on 10,000 fresh patients of the
third hospital, standardised as they would be in service, it has 0.645 and 0.656; the twin is the same network and
reports 0.645 and 0.637.
"""

import numpy as np
import torch
from sklearn.preprocessing import StandardScaler
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = "inputs"
SPEC = Spec(task="regression", epochs=15, shift_expected=True)  # Another hospital, on purpose.
UNITS = np.geomspace(0.3, 150, 12)
LEVELS = np.linspace(5, 400, 12)


def admissions(rng, n, sicker):
    """Measurements in their own units and log-days of stay."""
    z = rng.normal(size=(n, 12))
    z[:, :4] += sicker * np.array([0.9, 0.7, 0.8, 0.6])
    z[:, :4] *= 1 - 0.25 * sicker
    days = 1.6 + 0.35 * z[:, 0] + 0.3 * np.maximum(z[:, 1], 0) + 0.25 * z[:, 2] + 0.15 * z[:, 3] * z[:, 5]
    days = days - 0.2 * z[:, 6]
    return z * UNITS + LEVELS, days + rng.normal(scale=0.3, size=n)


def tensors(x, y):
    return TensorDataset(torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32).unsqueeze(1))


def r2(outputs, targets):
    return 1 - ((outputs - targets) ** 2).sum().item() / ((targets - targets.mean()) ** 2).sum().item()


def build(seed, faulty):
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    x_train, y_train = admissions(rng, 4000, 0)
    x_val, y_val = admissions(rng, 1000, 1)
    scaler = StandardScaler()
    x_train = scaler.fit_transform(x_train)
    x_val = scaler.fit_transform(x_val) if faulty else scaler.transform(x_val)
    model = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    generator = torch.Generator().manual_seed(seed)
    return Program(
        model=model,
        optimizer=optimizer,
        loss_fn=nn.MSELoss(),
        train_loader=DataLoader(tensors(x_train, y_train), 64, shuffle=True, generator=generator),
        val_loader=DataLoader(tensors(x_val, y_val), 500),
        scheduler=torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, SPEC.epochs),
        metric=r2,
    )


def make(seed):
    return build(seed, True), SPEC


def twin(seed):
    return build(seed, False), SPEC
