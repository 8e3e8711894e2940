# points: 8
# about: gradients by torch.autograd.grad, kept in lists of its own and put into .grad in place
def accumulate_epoch(model, micro_batches, optimizer, loss_fn, accumulate):
    parameters = list(model.parameters())

    def windows():
        for start in range(0, len(micro_batches), accumulate):
            yield micro_batches[start : start + accumulate]

    for window in windows():
        count = sum(x.size(0) for x, _ in window)
        sums = [torch.zeros_like(parameter) for parameter in parameters]
        for x, y in window:
            loss = loss_fn(model(x), y)
            for total, gradient in zip(sums, torch.autograd.grad(loss, parameters)):
                total += gradient * (x.size(0) / count)
        for parameter, total in zip(parameters, sums):
            parameter.grad = total
        optimizer.step()
    optimizer.zero_grad(set_to_none=True)
