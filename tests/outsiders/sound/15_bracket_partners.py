"""Does each bracket of a string have a partner? A tagger for sequences of 6 to 24 tokens in dict batches.

Unusual: a batch is a dict of three tensors, filled up to its own longest sequence, so that shapes change from batch
to batch. Letters have no label (-100) and neither has the padding, so that many positions of each sequence do not
count. The network reads both ways: whether "(" is closed depends on what comes later, and a causal model would be
wrong. Packing keeps the padding out of the recurrent states. Loss and accuracy of the evaluation are means over
brackets, not over sequences. Gradients are clipped, as usual with recurrent networks.

Metric: accuracy over the brackets of validation (about 0.6 for a constant answer).
Measured after 7 epochs: seed 0: loss 0.0005232, accuracy 1; seed 1: loss 0.001334, accuracy 0.9997.
"""

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader

from lecture_lib.debugging.program import Program, Spec

PAD, OPEN, CLOSE, LETTER, IGNORE = 0, 1, 2, 3, -100
MAX_NORM = 1.0


class Tagger(nn.Module):
    def __init__(self, width=40):
        super().__init__()
        self.embed = nn.Embedding(4, 12, padding_idx=PAD)
        self.read = nn.GRU(12, width, batch_first=True, bidirectional=True)
        self.head = nn.Sequential(nn.Linear(2 * width, 32), nn.ReLU(), nn.Linear(32, 2))

    def forward(self, inputs):
        packed = pack_padded_sequence(
            self.embed(inputs["ids"]), inputs["lengths"], batch_first=True, enforce_sorted=False
        )
        hidden, _ = pad_packed_sequence(self.read(packed)[0], batch_first=True, total_length=inputs["ids"].shape[1])
        return self.head(hidden)


def label(ids):
    labels, waiting = [IGNORE] * len(ids), []
    for place, token in enumerate(ids):
        if token == OPEN:
            labels[place] = 0
            waiting.append(place)
        elif token == CLOSE:
            labels[place] = int(bool(waiting))
            if waiting:
                labels[waiting.pop()] = 1
    return labels


def simulate(count, generator, known):
    rows = []
    while len(rows) < count:
        length = int(torch.randint(6, 25, (1,), generator=generator))
        ids = torch.randint(OPEN, LETTER + 1, (length,), generator=generator).tolist()
        if tuple(ids) not in known and (OPEN in ids or CLOSE in ids):
            known.add(tuple(ids))
            rows.append((torch.tensor(ids), torch.tensor(label(ids))))
    return rows


def collate(rows):
    ids, labels = zip(*rows, strict=True)
    return {
        "ids": pad_sequence(ids, batch_first=True, padding_value=PAD),
        "lengths": torch.tensor([len(row) for row in ids]),
        "labels": pad_sequence(labels, batch_first=True, padding_value=IGNORE),
    }


def unpack(batch):
    return {"ids": batch["ids"], "lengths": batch["lengths"]}, batch["labels"]


def loss_fn(logits, labels):
    return cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORE)


def step(program, batch):
    inputs, labels = program.parts(batch)
    program.optimizer.zero_grad()
    program.loss_fn(program.outputs(inputs), labels).backward()
    nn.utils.clip_grad_norm_(program.model.parameters(), MAX_NORM)
    program.optimizer.step()


def evaluate(program):
    loss = right = count = 0
    program.model.eval()
    with torch.no_grad():
        for inputs, labels in map(program.parts, program.val_loader):
            logits, told = program.outputs(inputs), labels != IGNORE
            loss += program.loss_fn(logits, labels).item() * told.sum().item()
            right += (logits.argmax(-1) == labels)[told].sum().item()
            count += told.sum().item()
    program.model.train()
    return {"loss": loss / count, "accuracy": right / count}


def make(seed):
    torch.manual_seed(seed)
    generator, known = torch.Generator().manual_seed(1500 + seed), set()
    train, val = simulate(1200, generator, known), simulate(300, generator, known)
    model = Tagger()
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=5e-3),
        loss_fn=loss_fn,
        train_loader=DataLoader(
            train, 40, shuffle=True, collate_fn=collate, generator=torch.Generator().manual_seed(seed)
        ),
        val_loader=DataLoader(val, 100, collate_fn=collate),
        unpack=unpack,
        step=step,
        evaluate=evaluate,
    )
    return program, Spec(
        task="sequence", classes=2, epochs=7, max_norm=MAX_NORM, ignore_index=IGNORE, padding_index=PAD
    )
