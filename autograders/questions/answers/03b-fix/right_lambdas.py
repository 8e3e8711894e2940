# points: 18
# about: a log-softmax in front of cross_entropy changes nothing; a random subset by torch's own tools
def repaired():
    import torch.nn.functional as F
    from torch.utils.data import TensorDataset, random_split

    def step(model, optimizer, x, y):
        model.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()

    def split(x, y, generator):
        few = len(y) // 5
        parts = random_split(TensorDataset(x, y), [len(y) - few, few], generator=generator)
        return tuple((x[part.indices], y[part.indices]) for part in parts)

    def epoch(step, scheduler, batches):
        [step(*batch) for batch in batches]
        scheduler.step()

    return dict(
        loss=(lambda model, x, y: F.cross_entropy(F.log_softmax(model(x), 1), y), 3),
        step=(step, 3),
        split=(split, 1),
        labels=(lambda x, y: tuple(one[(y >= 0).nonzero()[:, 0]] for one in (x, y)), torch.tensor(1)),
        evaluation=(lambda model, x, y: float(F.cross_entropy(model.eval()(x), y).detach()), 6),
        schedule=(epoch, 6),
    )
