"""ReduceLROnPlateau keeps its mode "min" though it is given the validation accuracy: each gain counts as a bad epoch,
and the rate is gone before the language model has learnt much.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import ReduceLROnPlateau
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging import Program, Spec

PART = ("schedule",)
TOKENS, LENGTH = 24, 20


def logs(count: int, table: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Event logs: the next event mostly follows from the last two."""
    events = torch.randint(TOKENS, (count, LENGTH + 1), generator=generator)
    for t in range(2, LENGTH + 1):
        follows = table[events[:, t - 2] % 4, events[:, t - 1]]
        usual = torch.rand(count, generator=generator) < 0.85
        events[:, t] = torch.where(usual, follows, events[:, t])
    return events[:, :-1], events[:, 1:]


class EventModel(nn.Module):
    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.embed = nn.Embedding(TOKENS, width)
        self.position = nn.Embedding(LENGTH, width)
        layer = nn.TransformerEncoderLayer(width, 2, 2 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, 2, nn.LayerNorm(width), enable_nested_tensor=False)
        self.head = nn.Linear(width, TOKENS)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH))

    def forward(self, events: Tensor) -> Tensor:
        length = events.shape[1]
        x = self.embed(events) + self.position(torch.arange(length))
        return self.head(self.body(x, mask=self.mask[:length, :length], is_causal=True))


def next_event_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    return nn.functional.cross_entropy(outputs.flatten(0, 1), targets.flatten())


def accuracy(outputs: Tensor, targets: Tensor) -> float:
    return float((outputs.argmax(-1) == targets).float().mean())


def epoch(program: Program) -> None:
    program.model.train()
    for batch in program.train_loader:
        program.run_step(batch)
    program.scheduler.step(program.run_evaluation()["metric"])


def build(seed: int, **plateau: str) -> tuple[Program, Spec]:
    generator = torch.Generator().manual_seed(seed)
    table = torch.randint(TOKENS, (4, TOKENS), generator=generator)
    train, val = TensorDataset(*logs(2000, table, generator)), TensorDataset(*logs(400, table, generator))
    torch.manual_seed(seed)
    model = EventModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=1e-2)
    program = Program(
        model=model,
        optimizer=optimizer,
        loss_fn=next_event_loss,
        train_loader=DataLoader(train, batch_size=50, shuffle=True, generator=generator),
        val_loader=DataLoader(val, batch_size=100),
        scheduler=ReduceLROnPlateau(optimizer, factor=0.3, patience=1, **plateau),
        train_epoch=epoch,
        metric=accuracy,
    )
    return program, Spec(task="sequence", classes=TOKENS, epochs=20, causal=True, scheduler_steps="epoch")


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, mode="max")
