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
            with torch.no_grad():
                self.running_mean.lerp_(x.mean(dim=0), 0.1)
        x = x - self.running_mean
        for layer in self.layers:
            x = layer(x)
        return x / self.temperature
