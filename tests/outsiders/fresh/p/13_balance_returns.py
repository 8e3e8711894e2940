"""A value network for a stick that a weak controller keeps upright for a while: from a state's four figures it says
the discounted sum of the rewards to come, for staying upright until the stick falls. Validation is on episodes of
its own.

Fault: the returns are summed backwards over the whole buffer without a reset where an episode ends, so that the
next episode's rewards are added. The twin starts anew at each end.

Measured (seeds 0 and 1): R2 against the validation episodes' true returns -0.10 and 0.24 (mean absolute error 4.3
and 3.5), the twin's 0.70 and 0.73 (1.4 and 1.4). Against its own targets the faulty program reports 0.18 and 0.27.
"""

from dataclasses import replace

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = "labels"
SPEC = Spec(task="regression", epochs=15)
DISCOUNT = 0.97


def play(rng, episodes):
    """A buffer of steps: states, rewards, whether the episode ends with the step, and the episode's number."""
    states, rewards, ends, numbers = [], [], [], []
    for episode in range(episodes):
        angle, speed, load, fallen = rng.uniform(-0.4, 0.4), 0.3 * rng.normal(), rng.uniform(0, 1), False
        while not fallen:
            wind = rng.normal()
            states.append([angle, speed, load, wind])
            push = -0.9 * angle - 0.5 * speed
            speed += 0.5 * (1 + 0.5 * load) * angle + 0.5 * push + 0.05 * wind + 0.06 * rng.normal()
            angle += 0.5 * speed
            fallen = abs(angle) > 1
            rewards.append(1 - abs(angle) - 5.0 * fallen)
            ends.append(fallen)
            numbers.append(episode)
    return np.array(states), np.array(rewards), np.array(ends), np.array(numbers)


def returns(rewards, ends, faulty):
    """Discounted sums of the rewards to come."""
    found, running = np.zeros(len(rewards)), 0.0
    for index in reversed(range(len(rewards))):
        if ends[index] and not faulty:
            running = 0.0
        running = rewards[index] + DISCOUNT * running
        found[index] = running
    return found


def build(seed, faulty):
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    states, rewards, ends, numbers = play(rng, 800)
    targets, training = returns(rewards, ends, faulty), numbers < 640

    def dataset(rows):
        x = (states[rows] - states[training].mean(0)) / states[training].std(0)
        y = (targets[rows] - targets[training].mean()) / targets[training].std()
        return TensorDataset(torch.tensor(x, dtype=torch.float32), torch.tensor(y[:, None], dtype=torch.float32))

    model = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    stream = torch.Generator().manual_seed(seed)
    program = Program(
        model=model,
        optimizer=optimizer,
        loss_fn=nn.MSELoss(),
        train_loader=DataLoader(dataset(training), 128, shuffle=True, generator=stream),
        val_loader=DataLoader(dataset(~training), 500),
        scheduler=torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, SPEC.epochs),
        metric=lambda outputs, targets: 1 - ((outputs - targets) ** 2).mean().item() / targets.var().item(),
    )
    groups = {"train_groups": numbers[training].tolist(), "val_groups": numbers[~training].tolist()}
    return program, replace(SPEC, **groups)


def make(seed):
    return build(seed, True)


def twin(seed):
    return build(seed, False)
