# points: 15
# misconception: cleared-too-early
# about: cleared between backward and step
def repaired():
    def batch_loss(model, x, y):
        return nn.functional.cross_entropy(model(x), y)

    def train_step(model, optimizer, x, y):
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.zero_grad()
        optimizer.step()

    def split_data(x, y, generator):
        order = torch.randperm(len(y), generator=generator)
        train, val = order[len(y) // 5 :], order[: len(y) // 5]
        return (x[train], y[train]), (x[val], y[val])

    def labelled_only(x, y):
        return x[y >= 0], y[y >= 0]

    def mean_loss(model, x, y):
        model.eval()
        with torch.no_grad():
            return nn.functional.cross_entropy(model(x), y).item()

    def train_epoch(step, scheduler, batches):
        for x, y in batches:
            step(x, y)
        scheduler.step()

    return {
        "loss": (batch_loss, 3),
        "step": (train_step, 3),
        "split": (split_data, 1),
        "labels": (labelled_only, 1),
        "evaluation": (mean_loss, 6),
        "schedule": (train_epoch, 6),
    }
