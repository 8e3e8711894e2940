# points: 18
# about: written anew: negative log-likelihood by hand, gradients cleared after the step, the mode restored, lists
def repaired():
    def loss(model, x, y):
        logarithms = model(x).log_softmax(dim=-1)
        return -sum(logarithms[i, int(label)] for i, label in enumerate(y)) / len(y)

    def step(model, optimizer, x, y):
        loss(model, x, y).backward()
        optimizer.step()
        for parameter in model.parameters():
            parameter.grad = None

    def split(x, y, generator):
        order = torch.randperm(len(y), generator=generator).tolist()
        held_out = len(order) // 5
        return [[x[order[:-held_out]], y[order[:-held_out]]], [x[order[-held_out:]], y[order[-held_out:]]]]

    def labels(x, y):
        keep = [i for i in range(len(y)) if y[i] != -1]
        return [x[keep], y[keep]]

    def evaluation(model, x, y):
        was = model.training
        model.train(False)
        try:
            return loss(model, x, y).detach()
        finally:
            model.train(was)

    def schedule(step, scheduler, batches):
        for number, (x, y) in enumerate(batches, 1):
            step(x, y)
            if number == len(batches):
                scheduler.step()

    return {
        "loss": [loss, 3],
        "step": [step, 3.0],
        "split": [split, 1],
        "labels": [labels, 4],
        "evaluation": [evaluation, 6],
        "schedule": [schedule, 5],
    }
