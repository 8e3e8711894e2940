"""Multi-label tagging of short messages with a small transformer; words get numbers by a vocabulary.

Fault: the dataset class builds its vocabulary from its own texts, by order of first appearance, and validation makes
its own dataset: the same word has another number there. All numbers are in range and nothing fails. The twin hands
the training vocabulary on.

Measured, micro F1 over the tags on validation (higher is better), faulty / twin: seed 0: 0.386 / 0.999; seed 1: 0.463
/ 0.998.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from lecture_lib.debugging.program import Program, Spec

PART = ("inputs",)
LENGTH, PAD, UNKNOWN = 12, 0, 1
TOPICS = {
    "billing": ["invoice", "refund", "charge", "price", "payment"],
    "login": ["password", "account", "reset", "locked", "email"],
    "shipping": ["parcel", "courier", "address", "late", "tracking"],
    "quality": ["broken", "scratch", "faulty", "loose", "noisy"],
    "thanks": ["great", "happy", "helpful", "quick", "friendly"],
}
FILLER = ["the", "a", "my", "please", "about", "with", "was", "is", "and", "today", "again", "still", "very"]


class Messages(Dataset):
    def __init__(self, texts, tags, vocabulary=None):
        if vocabulary is None:
            vocabulary = {"<pad>": PAD, "<unk>": UNKNOWN}
            for text in texts:
                for word in text.split():
                    vocabulary.setdefault(word, len(vocabulary))
        self.vocabulary = vocabulary
        self.texts, self.tags = texts, tags

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, index):
        ids = [self.vocabulary.get(word, UNKNOWN) for word in self.texts[index].split()][:LENGTH]
        return torch.tensor(ids + [PAD] * (LENGTH - len(ids))), self.tags[index]


class Tagger(nn.Module):
    def __init__(self, words):
        super().__init__()
        self.embed = nn.Embedding(words, 32, padding_idx=PAD)
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.head = nn.Linear(32, len(TOPICS))

    def forward(self, ids):
        padded = ids == PAD
        h = self.encoder(self.embed(ids), src_key_padding_mask=padded)
        kept = (~padded).float()[:, :, None]
        return self.head((h * kept).sum(1) / kept.sum(1).clamp_min(1))


def messages(count, generator):
    def pick(items):
        return items[int(torch.randint(len(items), (1,), generator=generator))]

    texts, tags = [], torch.zeros(count, len(TOPICS))
    topics = list(TOPICS.values())
    for row in range(count):
        tags[row] = (torch.rand(len(topics), generator=generator) < 0.3).float()
        words = [pick(topics[topic]) for topic in tags[row].nonzero()[:, 0].tolist()]
        words += [pick(FILLER) for _ in range(int(torch.randint(3, 8, (1,), generator=generator)))]
        order = torch.randperm(len(words), generator=generator).tolist()
        texts.append(" ".join(words[place] for place in order))
    return texts, tags


def micro_f1(logits, tags):
    found = (logits > 0).float()
    hits = (found * tags).sum()
    return float(2 * hits / (found.sum() + tags.sum()).clamp_min(1))


def build(seed: int, ok: bool) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(140 + seed)
    train = Messages(*messages(900, generator))
    val = Messages(*messages(400, generator), train.vocabulary if ok else None)
    model = Tagger(len(train.vocabulary))
    shuffle = torch.Generator().manual_seed(seed)
    program = Program(
        model,
        torch.optim.AdamW(model.parameters(), lr=3e-3),
        nn.BCEWithLogitsLoss(),
        train_loader=DataLoader(train, batch_size=30, shuffle=True, generator=shuffle),
        val_loader=DataLoader(val, batch_size=100),
        metric=micro_f1,
    )
    return program, Spec(task="multi-label", classes=len(TOPICS), epochs=8, padding_index=PAD)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, ok=False)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, ok=True)
