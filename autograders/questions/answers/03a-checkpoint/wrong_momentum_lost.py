# points: 6
# misconception: momentum-lost
# about: of the optimizer only the rate comes back
def save_run(path, model, optimizer, scheduler, epoch):
    saved = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
        "epoch": epoch,
        "random": torch.get_rng_state(),
    }
    torch.save(saved, path)


def resume_run(path, model, optimizer, scheduler):
    saved = torch.load(path, weights_only=True)
    model.load_state_dict(saved["model"])
    optimizer.param_groups[0]["lr"] = saved["optimizer"]["param_groups"][0]["lr"]
    scheduler.load_state_dict(saved["scheduler"])
    torch.set_rng_state(saved["random"])
    return saved["epoch"]
