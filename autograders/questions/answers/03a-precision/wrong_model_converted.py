# points: 2
# misconception: model-converted
def autocast_step(model, optimizer, loss_fn, x, y):
    optimizer.zero_grad()
    model.bfloat16()
    output = model(x.bfloat16())
    loss = loss_fn(output, y.bfloat16())
    loss.backward()
    optimizer.step()
    weight = next(model.parameters())
    return {
        "parameter": weight.dtype,
        "output": output.dtype,
        "loss": loss.dtype,
        "gradient": weight.grad.dtype,
        "momentum": optimizer.state[weight]["momentum_buffer"].dtype,
    }


def fate(number, dtype):
    original = torch.tensor(number, dtype=torch.float64)
    stored = original.to(dtype).to(torch.float64)
    if stored.isinf():
        return "overflow"
    if stored == 0 and original != 0:
        return "underflow"
    return "exact" if stored == original else "rounded"
