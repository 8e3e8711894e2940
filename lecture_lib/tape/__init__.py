"""Part 1 of the lecture: a tiny reverse-mode autograd on NumPy, to read, to step through and to train digits with.

`tensor` says what is recorded and how gradients flow back, `operations` holds every operation with its backward rules.
"""

from .draw import Drawing, draw, picture
from .gradcheck import GradientError, gradcheck
from .graph import no_grad
from .layers import Linear, ReLU, Sequential
from .operations.arithmetic import linear, matmul
from .operations.functions import cross_entropy, exp, log, log_softmax, relu, sigmoid, sqrt, tanh
from .operations.shapes import concatenate
from .optimizers import SGD, Adam
from .tensor import Tensor, record
from .trace import Trace, trace

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
