# points: 7
# about: Sequential, the mean replaced instead of changed in place, a temperature of shape [1] as in the lecture
class Scaled(nn.Module):
    def __init__(self, layers, mean, temperature):
        super(Scaled, self).__init__()
        self.layers = nn.Sequential(*layers)
        self.running_mean = nn.Buffer(mean)
        self.temperature = nn.Parameter(torch.ones(1) * temperature)

    def forward(self, x):
        if self.training:
            self.running_mean = (0.9 * self.running_mean + 0.1 * x.mean(0)).detach()
        return self.layers(x - self.running_mean) / self.temperature
