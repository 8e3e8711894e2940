# points: 3
# misconception: mean-as-parameter
# about: a parameter without a gradient
class Scaled(nn.Module):
    def __init__(self, layers, mean, temperature):
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.running_mean = nn.Parameter(mean, requires_grad=False)
        self.temperature = nn.Parameter(torch.tensor(temperature))

    def forward(self, x):
        if self.training:
            old, new = self.running_mean.data, x.detach().mean(0)
            old.copy_(0.9 * old + 0.1 * new)
        hidden = x - self.running_mean
        for step in self.layers:
            hidden = step(hidden)
        return hidden / self.temperature
