"""Tagging of token sequences of 4 to 16 tokens, padded to 40, with a bidirectional LSTM: a token's tag depends on
itself and on its neighbours, and a fifth of the tags are noise.

Fault: the reported accuracy is a mean over all positions, where predictions and tags of the padding were both set to 0
and so agree; the twin counts the real tokens alone.

Measured (seeds 0 and 1): accuracy reported with the fault 0.959 and 0.956 (0.804 and 0.772 before training), in the
twin 0.829 and 0.833 (0.181 and 0.142 before training); the two train alike and the true accuracy of both is the
twin's.
"""

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = "metric"
VOCAB, TAGS, LENGTH, PAD = 40, 6, 40, 0


def corpus(sentences, generator):
    lengths = torch.randint(4, 17, (sentences,), generator=generator)
    tokens = torch.randint(1, VOCAB, (sentences, LENGTH), generator=generator)
    before = torch.cat([torch.zeros(sentences, 1, dtype=torch.long), tokens[:, :-1]], dim=1)
    tags = (tokens + 2 * (before % 3)) % TAGS
    noisy = torch.rand(tags.shape, generator=generator) < 0.2
    tags = torch.where(noisy, torch.randint(0, TAGS, tags.shape, generator=generator), tags)
    real = torch.arange(LENGTH)[None, :] < lengths[:, None]
    return TensorDataset(tokens * real, tags * real)


class Tagger(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, width, padding_idx=PAD)
        self.lstm = nn.LSTM(width, width, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * width, TAGS)

    def forward(self, tokens):
        lengths = tokens.ne(PAD).sum(1)
        packed = pack_padded_sequence(self.embed(tokens), lengths, batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=LENGTH)
        return self.head(states)


def masked_loss(logits, targets):
    tags, mask = targets
    per_token = F.cross_entropy(logits.transpose(1, 2), tags, reduction="none")
    return (per_token * mask).sum() / mask.sum()


def unpack(batch):
    tokens, tags = batch
    return tokens, (tags, tokens.ne(PAD))


def evaluator(only_real):
    @torch.no_grad()
    def evaluate(program):
        was = program.model.training
        program.model.eval()
        hits, counted, loss, real = 0, 0, 0.0, 0
        for batch in program.val_loader:
            tokens, (tags, mask) = program.parts(batch)
            logits = program.model(tokens)
            loss += masked_loss(logits, (tags, mask)).item() * mask.sum().item()
            real += mask.sum().item()
            predicted = logits.argmax(-1) * mask  # Padding is silenced.
            correct = predicted == tags
            if only_real:
                hits += (correct & mask).sum().item()
                counted += mask.sum().item()
            else:
                hits += correct.sum().item()
                counted += correct.numel()
        program.model.train(was)
        return {"loss": loss / real, "accuracy": hits / counted}

    return evaluate


def build(seed, only_real):
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    model = Tagger()
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=5e-3),
        loss_fn=masked_loss,
        train_loader=DataLoader(corpus(800, generator), batch_size=32, shuffle=True),
        val_loader=DataLoader(corpus(200, generator), batch_size=100),
        unpack=unpack,
        evaluate=evaluator(only_real),
    )
    return program, Spec(task="sequence", classes=TAGS, epochs=8, padding_index=PAD)


def make(seed):
    return build(seed, only_real=False)


def twin(seed):
    return build(seed, only_real=True)
