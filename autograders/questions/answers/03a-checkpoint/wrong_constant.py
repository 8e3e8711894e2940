# points: 0
# misconception: no-weights
# about: the constant answer: an empty file of the right kind, and epoch 0
def save_run(path, model, optimizer, scheduler, epoch):
    torch.save({}, path)


def resume_run(path, model, optimizer, scheduler):
    return 0
