"""03b-debug: the script without faults, the faults as edits of it, and which three of them each variant has."""

from __future__ import annotations

from dataclasses import dataclass

PROGRAM = """\
def divide_rows(x, y, generator):
    order, few = torch.randperm(len(y), generator=generator), len(y) // 4
    return (x[order[few:]], y[order[few:]]), (x[order[:few]], y[order[:few]])


def standardise(x_train, x_val):
    mean, spread = x_train.mean(), x_train.std()
    return (x_train - mean) / spread, (x_val - mean) / spread


def make_network(features, classes):
    hidden = nn.Linear(features, 32), nn.ReLU(), nn.Dropout(0.2)
    return nn.Sequential(*hidden, nn.Linear(32, classes))


def make_optimizer(model, rate):
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    return optimizer, torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9)


def loss_of_batch(outputs, y):
    return nn.functional.cross_entropy(outputs, y)


def update(model, optimizer, loss_fn, x, y):
    optimizer.zero_grad()
    loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()


def train_once(model, batches, update_on, scheduler):
    model.train()
    losses = []
    for x, y in batches:
        losses.append(update_on(x, y))
    scheduler.step()
    return sum(losses) / len(losses)


def measure(model, loss_fn, batches):
    model.eval()
    loss = right = count = 0
    with torch.no_grad():
        for x, y in batches:
            outputs = model(x)
            loss += loss_fn(outputs, y).item() * len(y)
            right += (outputs.argmax(dim=1) == y).sum().item()
            count += len(y)
    return loss / count, right / count
"""

DIAGNOSIS = "\n\ndef diagnosis():  # the functions with a fault, each with the lowest rung that shows it\n    "


@dataclass(frozen=True)
class Fault:
    """An edit of the script that puts a fault into one of its functions; the rungs that count as the lowest."""

    function: str
    rungs: tuple[int, ...]
    old: str
    new: str

    def put_into(self, program: str) -> str:
        """A program with this fault. Raises ValueError when the lines to change are not there once."""
        if program.count(self.old) != 1:
            raise ValueError(f"the lines to change are there {program.count(self.old)} times: {self.old!r}")
        return program.replace(self.old, self.new)

    @property
    def diff(self) -> str:
        """The edit as the bank of answers writes it."""
        old, new = (
            [f"{sign}{line}" for line in text.splitlines()] for sign, text in (("-", self.old), ("+", self.new))
        )
        return "\n".join([*old, *new])


# Looking at the sum of a batch's losses is rung 3; its first value is far above ln C, which rung 2 asks for. A schedule
# belongs to the rate as well as to the full run.
FAULTS = {
    "rows-in-both": Fault(
        "divide_rows",
        (1,),
        "    order, few = torch.randperm(len(y), generator=generator), len(y) // 4\n"
        "    return (x[order[few:]], y[order[few:]]), (x[order[:few]], y[order[:few]])\n",
        "    train = torch.randperm(len(y), generator=generator)[len(y) // 4 :]\n"
        "    val = torch.randperm(len(y), generator=generator)[: len(y) // 4]\n"
        "    return (x[train], y[train]), (x[val], y[val])\n",
    ),
    "validation-unscaled": Fault(
        "standardise",
        (1,),
        "    return (x_train - mean) / spread, (x_val - mean) / spread\n",
        "    return (x_train - mean) / spread, x_val\n",
    ),
    "linear-network": Fault(
        "make_network",
        (2,),
        "    hidden = nn.Linear(features, 32), nn.ReLU(), nn.Dropout(0.2)\n",
        "    hidden = nn.Linear(features, 32), nn.Dropout(0.2)\n",
    ),
    "softmax-layer": Fault(
        "make_network",
        (3,),
        "    return nn.Sequential(*hidden, nn.Linear(32, classes))\n",
        "    return nn.Sequential(*hidden, nn.Linear(32, classes), nn.Softmax(dim=1))\n",
    ),
    "last-layer-only": Fault(
        "make_optimizer",
        (3,),
        "    optimizer = torch.optim.Adam(model.parameters(), lr=rate)\n",
        "    optimizer = torch.optim.Adam(model[-1].parameters(), lr=rate)\n",
    ),
    "softmax-in-loss": Fault(
        "loss_of_batch",
        (3,),
        "    return nn.functional.cross_entropy(outputs, y)\n",
        "    return nn.functional.cross_entropy(outputs.softmax(dim=1), y)\n",
    ),
    "loss-summed": Fault(
        "loss_of_batch",
        (2, 3),
        "    return nn.functional.cross_entropy(outputs, y)\n",
        '    return nn.functional.cross_entropy(outputs, y, reduction="sum")\n',
    ),
    "never-cleared": Fault(
        "update",
        (3,),
        "    optimizer.zero_grad()\n    loss = loss_fn(model(x), y)\n",
        "    loss = loss_fn(model(x), y)\n",
    ),
    "cleared-too-early": Fault(
        "update",
        (3,),
        "    optimizer.zero_grad()\n    loss = loss_fn(model(x), y)\n    loss.backward()\n",
        "    loss = loss_fn(model(x), y)\n    loss.backward()\n    optimizer.zero_grad()\n",
    ),
    "graph-cut": Fault(
        "update",
        (3,),
        "    loss = loss_fn(model(x), y)\n",
        "    loss = loss_fn(model[-1](model[:-1](x).detach()), y)\n",
    ),
    "schedule-per-batch": Fault(
        "train_once",
        (5, 6),
        "        losses.append(update_on(x, y))\n    scheduler.step()\n",
        "        losses.append(update_on(x, y))\n        scheduler.step()\n",
    ),
    "mode-not-set": Fault("train_once", (6,), "    model.train()\n    losses = []\n", "    losses = []\n"),
    "measured-with-dropout": Fault(
        "measure", (6,), "    model.eval()\n    loss = right = count = 0\n", "    loss = right = count = 0\n"
    ),
}

# The ladder, and a person, finds the first of three; the second shows when the first is repaired.
SCRIPTS = {
    "script 1": ("rows-in-both", "never-cleared", "measured-with-dropout"),
    "script 2": ("validation-unscaled", "softmax-layer", "schedule-per-batch"),
    "script 3": ("linear-network", "last-layer-only", "measured-with-dropout"),
    "script 4": ("rows-in-both", "softmax-in-loss", "mode-not-set"),
    "script 5": ("validation-unscaled", "cleared-too-early", "measured-with-dropout"),
    "script 6": ("rows-in-both", "graph-cut", "schedule-per-batch"),
    "script 7": ("validation-unscaled", "loss-summed", "mode-not-set"),
}


def faulty(names: tuple[str, ...]) -> str:
    """The script with these faults."""
    program = PROGRAM
    for name in names:
        program = FAULTS[name].put_into(program)
    return program


def with_diagnosis(program: str, body: str) -> str:
    """A script with its last function."""
    return f"{program}{DIAGNOSIS}{body}"
