# points: 0
# misconception: nothing-registered
# about: runs, and owns nothing: the answer that only computes
class Scaled(nn.Module):
    def __init__(self, layers, mean, temperature):
        super().__init__()
        self.layers = tuple(layers)
        self.running_mean = mean
        self.temperature = temperature

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.running_mean.lerp_(x.mean(dim=0), 0.1)
        x = x - self.running_mean
        for layer in self.layers:
            x = layer(x)
        return x / self.temperature
