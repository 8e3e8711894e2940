# points: 2
# misconception: weights-lost
# about: the loaded weights are put into a dict that nobody keeps
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
    model.state_dict().update(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    scheduler.load_state_dict(saved["scheduler"])
    torch.set_rng_state(saved["random"])
    return saved["epoch"]
