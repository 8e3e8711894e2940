"""Multi-label topics of short documents (30 tokens, eight topics of which several apply) with mean-pooled embeddings
and an MLP, trained with AdamW, linear warm-up and cosine decay, stepped after each batch.

Fault: the schedule's total number of steps is reckoned with the number of examples instead of batches, so that the
whole run lies in the first part of a warm-up that is 50 times too long; the twin reckons with the number of batches.

Measured (seeds 0 and 1): micro F1 on validation 0.693 and 0.672 with the fault, 0.857 and 0.850 in the twin.
"""

import math

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = "schedule"
VOCAB, TOPICS, TOKENS, EPOCHS, BATCH = 400, 8, 30, 12, 50


def documents(count, seed):
    g = torch.Generator().manual_seed(seed)
    style = torch.distributions.Dirichlet(torch.full((VOCAB,), 0.08))
    state = torch.get_rng_state()
    torch.manual_seed(seed + 500)
    topics = style.sample((TOPICS,))
    torch.set_rng_state(state)
    labels = (torch.rand(count, TOPICS, generator=g) < 0.25).float()
    mixture = labels @ topics + 0.6 / VOCAB
    tokens = torch.multinomial(mixture / mixture.sum(1, keepdim=True), TOKENS, replacement=True, generator=g)
    return TensorDataset(tokens, labels)


class TopicModel(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, width)
        self.mlp = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 64), nn.GELU(), nn.Linear(64, TOPICS))

    def forward(self, tokens):
        return self.mlp(self.embed(tokens).mean(1))


def micro_f1(logits, labels):
    predicted, true = logits > 0, labels > 0.5
    hit = (predicted & true).sum()
    return (2 * hit / (predicted.sum() + true.sum()).clamp(min=1)).item()


def warmup_cosine(optimizer, total, warmup=0.1):
    first = max(1, int(total * warmup))

    def factor(step):
        if step < first:
            return (step + 1) / first
        return 0.5 * (1 + math.cos(math.pi * min(1.0, (step - first) / max(1, total - first))))

    return LambdaLR(optimizer, factor)


def train_epoch(program):
    program.model.train()
    for batch in program.train_loader:
        program.run_step(batch)
        program.scheduler.step()


def build(seed, count_batches):
    torch.manual_seed(seed)
    data = documents(1500, seed)
    train_set = torch.utils.data.Subset(data, range(1200))
    val_set = torch.utils.data.Subset(data, range(1200, 1500))
    train_loader = DataLoader(train_set, batch_size=BATCH, shuffle=True)
    model = TopicModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=1e-2)
    per_epoch = len(train_loader) if count_batches else len(train_set)
    program = Program(
        model=model,
        optimizer=optimizer,
        loss_fn=nn.BCEWithLogitsLoss(),
        train_loader=train_loader,
        val_loader=DataLoader(val_set, batch_size=100),
        scheduler=warmup_cosine(optimizer, EPOCHS * per_epoch),
        train_epoch=train_epoch,
        metric=micro_f1,
    )
    return program, Spec(task="multi-label", classes=TOPICS, epochs=EPOCHS, scheduler_steps="batch")


def make(seed):
    return build(seed, count_batches=False)


def twin(seed):
    return build(seed, count_batches=True)
