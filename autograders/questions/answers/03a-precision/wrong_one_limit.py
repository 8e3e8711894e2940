# points: 4
# misconception: one-limit-for-both
def autocast_step(model, optimizer, loss_fn, x, y):
    optimizer.zero_grad()
    with torch.autocast(x.device.type, dtype=torch.bfloat16):
        output = model(x)
        loss = loss_fn(output, y)
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
    stored = original.half().to(torch.float64)
    if stored.isinf():
        return "overflow"
    if stored == 0 and original != 0:
        return "underflow"
    return "exact" if stored == original else "rounded"
