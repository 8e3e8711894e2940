"""REINFORCE on a small vectorised control task: push a cart on a line to its goal, left, not at all or right.

Fault: the rollout keeps the observations with `torch.from_numpy(obs)`, which shares memory with the environment's
state array. The environment moves the carts in place, so after the rollout all kept observations are the last one,
and the update pairs every action with the state at the episode's end. It came in when `torch.tensor(obs)` (a copy)
was replaced "to spare the copy". Acting is not concerned: the policy sees the right state at that moment.

Measured, mean greedy return over 256 fixed starts (higher is better; untrained -88 and -42), faulty / twin: seed 0:
-31.99 / -2.10; seed 1: -31.03 / -1.98.
"""

import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

from lecture_lib.debugging.program import Program, Spec

PART = ("step",)
HORIZON, CARTS, GAMMA, UPDATES = 20, 64, 0.95, 10


class Line:
    """Carts with position, speed and goal; actions 0, 1, 2 push by -0.1, 0, +0.1."""

    def reset(self, starts):
        self.state = np.ascontiguousarray(starts, dtype=np.float32)
        return self.state

    def step(self, action):
        state = self.state
        state[:, 1] = 0.9 * state[:, 1] + 0.1 * (action - 1)
        state[:, 0] += state[:, 1]
        return state, -np.abs(state[:, 0] - state[:, 2])


def draw_starts(count, generator=None):
    starts = torch.zeros(count, 3)
    starts[:, 0] = torch.rand(count, generator=generator) * 2 - 1
    starts[:, 2] = torch.rand(count, generator=generator) * 2 - 1
    return starts.numpy()


def build(seed: int, ok: bool) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    policy = nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 3))
    optimizer = torch.optim.Adam(policy.parameters(), lr=5e-3)
    fixed = draw_starts(256, torch.Generator().manual_seed(1000 + seed))
    keep = torch.tensor if ok else torch.from_numpy

    def train_epoch(program):
        program.model.train()
        env = Line()
        for _ in range(UPDATES):
            obs = env.reset(draw_starts(CARTS))
            states, actions, rewards = [], [], []
            for _ in range(HORIZON):
                with torch.no_grad():
                    action = Categorical(logits=program.model(torch.from_numpy(obs))).sample()
                states.append(keep(obs))
                actions.append(action)
                obs, reward = env.step(action.numpy())
                rewards.append(torch.tensor(reward))

            returns, running = [], torch.zeros(CARTS)
            for reward in reversed(rewards):
                running = reward + GAMMA * running
                returns.insert(0, running)
            returns = torch.stack(returns)
            # Each time step has its own baseline: the mean over the carts.
            advantage = returns - returns.mean(1, keepdim=True)
            advantage = advantage / (advantage.std() + 1e-6)

            dist = Categorical(logits=program.model(torch.stack(states)))
            loss = -(dist.log_prob(torch.stack(actions)) * advantage).mean() - 0.003 * dist.entropy().mean()
            program.optimizer.zero_grad()
            loss.backward()
            program.optimizer.step()

    def evaluate(program):
        was = program.model.training
        program.model.eval()
        env, total = Line(), 0.0
        obs = env.reset(fixed.copy())
        with torch.no_grad():
            for _ in range(HORIZON):
                obs, reward = env.step(program.model(torch.from_numpy(obs)).argmax(1).numpy())
                total += float(reward.mean())
        program.model.train(was)
        return {"return": total}

    program = Program(policy, optimizer, None, train_epoch=train_epoch, evaluate=evaluate)
    return program, Spec(epochs=14)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, ok=False)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, ok=True)
