# points: 8
# about: the weights as a list, copied in place; momentum and rate by hand; the library writes the file
def save_run(path, model, optimizer, scheduler, epoch):
    from lecture_lib.training import save_atomically

    group = optimizer.param_groups[0]
    buffers = [optimizer.state[p].get("momentum_buffer") for p in group["params"]]
    save_atomically(
        {
            "weights": [p.detach() for p in model.parameters()],
            "buffers": buffers,
            "rate": group["lr"],
            "count": scheduler.last_epoch,
            "done": epoch,
            "stream": torch.get_rng_state().tolist(),
        },
        path,
    )


def resume_run(path, model, optimizer, scheduler):
    from lecture_lib.training import load_checkpoint

    saved = load_checkpoint(path)
    group = optimizer.param_groups[0]
    with torch.no_grad():
        for p, weight, buffer in zip(model.parameters(), saved["weights"], saved["buffers"]):
            p.copy_(weight)
            if buffer is not None:
                optimizer.state[p]["momentum_buffer"] = buffer
    group["lr"] = saved["rate"]
    scheduler.last_epoch = saved["count"]
    torch.set_rng_state(torch.tensor(saved["stream"], dtype=torch.uint8))
    return int(saved["done"])
