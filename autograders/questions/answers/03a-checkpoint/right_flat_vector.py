# points: 8
# about: the weights as one flat vector, the rest of the model's description beside it; an open file instead of a path
def save_run(path, model, optimizer, scheduler, epoch):
    flat = nn.utils.parameters_to_vector(model.parameters()).detach()
    rest = [optimizer.state_dict(), scheduler.state_dict()]
    with open(path, "wb") as file:
        torch.save({"flat": flat, "rest": rest, "epoch": epoch, "stream": torch.default_generator.get_state()}, file)


def resume_run(path, model, optimizer, scheduler):
    with open(path, "rb") as file:
        saved = torch.load(file, weights_only=True)
    nn.utils.vector_to_parameters(saved["flat"], model.parameters())
    for part, state in zip([optimizer, scheduler], saved["rest"]):
        part.load_state_dict(state)
    torch.default_generator.set_state(saved["stream"])
    return saved["epoch"]
