"""Topic of short texts from few labelled examples: a frozen encoder, pretrained on unlabelled texts, and a new head.

Fault: the checkpoint's names begin with 'encoder.', the code removes 'module.', and strict=False hides that no name
fits: the frozen encoder keeps its random weights. The twin removes the right prefix.

Measured (seeds 0 and 1): accuracy 0.409 and 0.381; twin 0.872 and 0.884.
"""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("initialisation", "model")

TOPICS, WORDS_PER_TOPIC, COMMON, LENGTH = 6, 60, 40, 12
VOCAB = TOPICS * WORDS_PER_TOPIC + COMMON


def texts(n, generator):
    topic = torch.randint(0, TOPICS, (n,), generator=generator)
    own = topic[:, None] * WORDS_PER_TOPIC + torch.randint(0, WORDS_PER_TOPIC, (n, LENGTH), generator=generator)
    other = torch.randint(0, VOCAB, (n, LENGTH), generator=generator)
    return torch.where(torch.rand(n, LENGTH, generator=generator) < 0.5, own, other), topic


class TextEncoder(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, width)
        self.mix = nn.Linear(width, width)

    def forward(self, ids):
        return torch.tanh(self.mix(self.embedding(ids).mean(1)))


class TopicModel(nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(encoder.mix.out_features, TOPICS)
        for parameter in self.encoder.parameters():
            parameter.requires_grad = False

    def forward(self, ids):
        return self.head(self.encoder(ids))


class MissingWordModel(nn.Module):
    """What pretraining trains: the encoder, and a decoder that guesses the word that was left out."""

    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder
        self.decoder = nn.Linear(encoder.mix.out_features, VOCAB)

    def forward(self, ids):
        return self.decoder(self.encoder(ids))


def pretrained_checkpoint(generator, epochs=6):
    ids, _ = texts(6000, generator)
    model = MissingWordModel(TextEncoder())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(epochs):
        for rows in torch.randperm(len(ids), generator=generator).split(128):
            optimizer.zero_grad()
            F.cross_entropy(model(ids[rows, 1:]), ids[rows, 0]).backward()
            optimizer.step()
    return {"model": model.state_dict(), "epoch": epochs}


def load_encoder(checkpoint, prefix):
    encoder = TextEncoder()
    state = {name.removeprefix(prefix): tensor for name, tensor in checkpoint["model"].items()}
    encoder.load_state_dict(state, strict=False)  # the decoder is not needed
    return encoder


def build(seed, prefix):
    torch.manual_seed(seed)
    g = torch.Generator().manual_seed(seed)
    checkpoint = pretrained_checkpoint(g)
    model = TopicModel(load_encoder(checkpoint, prefix))
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.head.parameters(), lr=1e-2),
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(TensorDataset(*texts(600, g)), batch_size=20, shuffle=True, generator=g),
        val_loader=DataLoader(TensorDataset(*texts(1000, g)), batch_size=200),
        metric=lambda out, topic: (out.argmax(1) == topic).float().mean().item(),
    )
    return program, Spec(task="classification", classes=TOPICS, epochs=10, frozen=["encoder.*"])


def make(seed):
    return build(seed, prefix="module.")


def twin(seed):
    return build(seed, prefix="encoder.")
