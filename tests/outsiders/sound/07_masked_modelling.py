"""Fill in the hidden tokens of modular counting sequences: masked modelling with a bidirectional transformer.

Unusual: the targets are the inputs themselves, at the places that the mask hides; everywhere else the label is -100
and the loss leaves it out. The model looks at later positions (no causal mask), as it must to fill gaps. The mask is
drawn anew for each batch by the collate function of training, so that no two epochs are alike; one place in ten of
the chosen ones keeps its token and one in ten gets a random one, so that a label may equal the input. Validation has
one fixed mask. The output layer is the token embedding (tied), and the mask's id 12 is never a class.

Metric: accuracy at the hidden places of validation (chance 1/12 = 0.083).
Measured after 12 epochs: seed 0: loss 0.05124, metric 0.9837; seed 1: loss 0.02478, metric 0.9955.
"""

import torch
from torch import nn
from torch.nn.functional import cross_entropy, linear
from torch.utils.data import DataLoader

from lecture_lib.debugging.program import Program, Spec

TOKENS, MASK, LENGTH, IGNORE = 12, 12, 14, -100


class Filler(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.tokens = nn.Embedding(TOKENS + 1, width)
        self.places = nn.Parameter(0.1 * torch.randn(LENGTH, width))
        layer = nn.TransformerEncoderLayer(width, 4, 96, dropout=0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(width)
        self.bias = nn.Parameter(torch.zeros(TOKENS))
        nn.init.normal_(self.tokens.weight, std=0.15)

    def forward(self, ids):
        hidden = self.norm(self.encoder(self.tokens(ids) + self.places))
        return linear(hidden, self.tokens.weight[:TOKENS], self.bias)


def simulate(count, generator):
    start = torch.randint(TOKENS, (count, 1), generator=generator)
    stride = torch.randint(1, 4, (count, 1), generator=generator)
    return (start + stride * torch.arange(LENGTH)) % TOKENS


def hide(sequences, generator):
    """BERT's recipe: a quarter of the places is to be told; 80 % masked, 10 % random, 10 % kept."""
    chosen = torch.rand(sequences.shape, generator=generator) < 0.25
    kind = torch.rand(sequences.shape, generator=generator)
    random = torch.randint(TOKENS, sequences.shape, generator=generator)
    inputs = torch.where(chosen & (kind < 0.8), MASK, sequences)
    inputs = torch.where(chosen & (kind >= 0.9), random, inputs)
    return inputs, torch.where(chosen, sequences, IGNORE)


def loss_fn(logits, labels):
    return cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORE)


def metric(logits, labels):
    hidden = labels != IGNORE
    return (logits.argmax(-1) == labels)[hidden].float().mean().item()


def train_epoch(program):
    program.model.train()
    for batch in program.train_loader:
        program.run_step(batch)
        program.scheduler.step()


def make(seed):
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(700 + seed)
    train, val = simulate(1500, generator), simulate(256, generator)
    val_inputs, val_labels = hide(val, generator)
    masks = torch.Generator().manual_seed(seed)
    loader = DataLoader(
        train, 50, shuffle=True, generator=torch.Generator().manual_seed(seed),
        collate_fn=lambda rows: hide(torch.stack(rows), masks),
    )  # fmt: skip
    model, epochs = Filler(), 12
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.01)
    program = Program(
        model=model,
        optimizer=optimizer,
        loss_fn=loss_fn,
        train_loader=loader,
        val_loader=[(val_inputs, val_labels)],
        scheduler=torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=epochs * len(loader) + 1),
        train_epoch=train_epoch,
        metric=metric,
    )
    return program, Spec(task="sequence", classes=TOKENS, epochs=epochs, ignore_index=IGNORE, scheduler_steps="batch")
