# points: 0
# misconception: nothing-written
# about: nothing is written: what is kept lies in the process that stops
KEPT = {}


def save_run(path, model, optimizer, scheduler, epoch):
    KEPT[path] = (model.state_dict(), optimizer.state_dict(), scheduler.state_dict(), epoch)


def resume_run(path, model, optimizer, scheduler):
    model_state, optimizer_state, scheduler_state, epoch = KEPT[path]
    model.load_state_dict(model_state)
    optimizer.load_state_dict(optimizer_state)
    scheduler.load_state_dict(scheduler_state)
    return epoch
