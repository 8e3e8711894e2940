"""Part 1 of the lecture: a tiny reverse-mode autograd on NumPy, to read, to step through and to train digits with.

`graph` defines nodes and the backward pass, `tensor` the Tensor and what is recorded, `operations` every operation with
its backward rules.
"""

from .draw import Drawing, draw, picture
from .gradcheck import GradientError, gradcheck
from .graph import no_grad
from .nn import Linear, ReLU, Sequential, cross_entropy, linear
from .optimizers import SGD, Adam
from .tensor import Tensor, concatenate, matmul, record
from .trace import Trace, trace

# relu(x) is x.relu().
exp, log, log_softmax, sqrt = Tensor.exp, Tensor.log, Tensor.log_softmax, Tensor.sqrt
relu, sigmoid, tanh = Tensor.relu, Tensor.sigmoid, Tensor.tanh

__all__ = [
    "SGD",
    "Adam",
    "Drawing",
    "GradientError",
    "Linear",
    "ReLU",
    "Sequential",
    "Tensor",
    "Trace",
    "concatenate",
    "cross_entropy",
    "draw",
    "exp",
    "gradcheck",
    "linear",
    "log",
    "log_softmax",
    "matmul",
    "no_grad",
    "picture",
    "record",
    "relu",
    "sigmoid",
    "sqrt",
    "tanh",
    "trace",
]
