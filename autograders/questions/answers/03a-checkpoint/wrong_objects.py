# points: 6
# misconception: objects-pickled
# about: whole objects: goes on exactly, and loads nowhere safely
def save_run(path, model, optimizer, scheduler, epoch):
    torch.save({"model": model, "optimizer": optimizer, "scheduler": scheduler.state_dict(), "epoch": epoch,
                "random": torch.get_rng_state()}, path)


def resume_run(path, model, optimizer, scheduler):
    saved = torch.load(path, weights_only=False)
    model.load_state_dict(saved["model"].state_dict())
    optimizer.load_state_dict(saved["optimizer"].state_dict())
    scheduler.load_state_dict(saved["scheduler"])
    torch.set_rng_state(saved["random"])
    return saved["epoch"]
