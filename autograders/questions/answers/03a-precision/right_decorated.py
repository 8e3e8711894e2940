# points: 6
# about: autocast as a decorator, gradients set to zero one by one, dtypes as text; float32 numbers
@torch.autocast(device_type="cpu", dtype=torch.bfloat16)
def forward(model, loss_fn, x, y):
    output = model(x)
    return output, loss_fn(output, y)


def autocast_step(model, optimizer, loss_fn, x, y):
    for parameter in model.parameters():
        parameter.grad = None
    output, loss = forward(model, loss_fn, x, y)
    loss.backward()
    seen = {"output": output, "loss": loss}
    for parameter in model.parameters():
        seen["parameter"], seen["gradient"] = parameter, parameter.grad.clone()
    optimizer.step()
    optimizer.zero_grad()
    seen["momentum"] = next(iter(optimizer.state.values()))["momentum_buffer"]
    return {name: str(tensor.dtype) for name, tensor in seen.items()}


def fate(number, dtype):
    after = torch.tensor(number).to(dtype).item()
    if math.isinf(after):
        return "overflow"
    if after == number:
        return "exact"
    return "rounded" if after else "underflow"
