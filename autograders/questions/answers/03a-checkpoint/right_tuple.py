# points: 8
# about: a tuple, written beside its place and moved; every stream of random numbers; the epoch as a tensor
def save_run(path, model, optimizer, scheduler, epoch):
    import os
    import random

    states = tuple(part.state_dict() for part in (model, optimizer, scheduler))
    torch.save((states, torch.tensor(epoch), torch.random.get_rng_state(), random.getstate()), path + ".new")
    os.replace(path + ".new", path)


def resume_run(path, model, optimizer, scheduler):
    import random

    states, epoch, stream, python = torch.load(path, map_location="cpu", weights_only=True)
    for part, state in zip((model, optimizer, scheduler), states):
        part.load_state_dict(state)
    torch.random.set_rng_state(stream)
    random.setstate(python)
    return epoch
