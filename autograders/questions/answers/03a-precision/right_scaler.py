# points: 6
# about: a GradScaler that BF16 does not need but that does no harm, a second context for nothing; NumPy for FP16
def autocast_step(model, optimizer, loss_fn, x, y):
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
    optimizer.zero_grad(set_to_none=False)
    context = torch.amp.autocast("cpu", torch.bfloat16)
    with context:
        prediction = model(x)
        cost = loss_fn(prediction, y)
    scaler.scale(cost).backward()
    scaler.step(optimizer)
    scaler.update()
    p = optimizer.param_groups[0]["params"][0]
    (state,) = optimizer.state_dict()["state"].values()
    return dict(
        parameter=p.dtype, output=prediction.dtype, loss=cost.dtype, gradient=p.grad.dtype,
        momentum=state["momentum_buffer"].dtype,
    )


def fate(number, dtype):
    import numpy as np

    if dtype == torch.float16:
        with np.errstate(all="ignore"):
            kept = float(np.float16(number))
    else:
        kept = float(torch.as_tensor(number, dtype=torch.float32).type(dtype))
    if abs(kept) == float("inf"):
        return "overflow"
    if kept == 0.0 and abs(number) > 0.0:
        return "underflow"
    return ["rounded", "exact"][int(kept == number)]
