# points: 7
# about: ModuleList, register_buffer, a parameter without axes
class Scaled(nn.Module):
    def __init__(self, layers, mean, temperature):
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.register_buffer("running_mean", mean.clone())
        self.temperature = nn.Parameter(torch.tensor(temperature))

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.running_mean.lerp_(x.mean(dim=0), 0.1)
        x = x - self.running_mean
        for layer in self.layers:
            x = layer(x)
        return x / self.temperature
