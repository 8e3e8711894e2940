# points: 0
# misconception: values-ignored
# about: the lecture's lines as they stand: the same module whatever is given
class Scaled(nn.Module):
    def __init__(self, layers, mean, temperature):
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.register_buffer("running_mean", torch.zeros_like(mean))
        self.temperature = nn.Parameter(torch.ones(1))

    def forward(self, x):
        if self.training:
            old, new = self.running_mean.data, x.detach().mean(0)
            old.copy_(0.9 * old + 0.1 * new)
        hidden = x - self.running_mean
        for step in self.layers:
            hidden = step(hidden)
        return hidden / self.temperature
