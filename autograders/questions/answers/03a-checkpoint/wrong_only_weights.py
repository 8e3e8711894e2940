# points: 5
# misconception: only-weights
# about: the weights, the epoch and the random stream
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
    torch.set_rng_state(saved["random"])
    return saved["epoch"]
