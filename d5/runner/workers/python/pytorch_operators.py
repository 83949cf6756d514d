# SPDX-License-Identifier: Apache-2.0
"""Which functions of PyTorch mean which operator of ONNX, and where they round on their way. For pytorch.py."""
import torch
import torch.nn.functional as F
from d5_worker import Unsupported


# An operator is f(attributes, inputs...), as ONNX means it. Inputs whose values are known beforehand come as lists.
def gemm(a, x, w, c=None):
    x, w = x.t() if a.get("transA") else x, w.t() if a.get("transB") else w
    alpha, beta = a.get("alpha", 1), a.get("beta", 1)
    if c is None and alpha == 1:
        return torch.mm(x, w)
    return torch.addmm(x.new_zeros(()) if c is None else c, x, w, alpha=alpha, beta=0 if c is None else beta)


def by_rank(name, x):
    return getattr(F, "%s%dd" % (name, x.dim() - 2))


def window(a, x, kernel, fill, most=lambda k: k):
    """(x, stride, padding, dilation). Padding that PyTorch does not do itself is put into x, with `fill`."""
    n = len(kernel)
    stride, dilation, pads = a.get("strides") or [1] * n, a.get("dilations") or [1] * n, a.get("pads") or [0] * 2 * n
    if a.get("auto_pad", "NOTSET").startswith("SAME"):
        total = [max(0, (-(-size // s) - 1) * s + (k - 1) * d + 1 - size)
                 for size, k, s, d in zip(x.shape[2:], kernel, stride, dilation)]
        less, more = [t // 2 for t in total], [t - t // 2 for t in total]
        pads = less + more if a["auto_pad"] == "SAME_UPPER" else more + less
    if pads[:n] == pads[n:] and all(p <= most(k) for p, k in zip(pads, kernel)):
        return x, stride, pads[:n], dilation
    if fill is None or a["outputs"] > 1:
        raise Unsupported("padding %s of this operator" % pads)
    ends = [pad for axis in reversed(range(n)) for pad in (pads[axis], pads[n + axis])]
    return F.pad(x, ends, value=fill), stride, [0] * n, dilation


def conv(a, x, w, b=None):
    x, stride, padding, dilation = window(a, x, w.shape[2:], 0.0)
    return by_rank("conv", x)(x, w, b, stride, padding, dilation, a.get("group", 1))


def conv_transpose(a, x, w, b=None):
    if a.get("output_shape") or a.get("auto_pad", "NOTSET") != "NOTSET":
        raise Unsupported("ConvTranspose with output_shape or auto_pad")
    x, stride, padding, dilation = window(a, x, w.shape[2:], None)
    more = a.get("output_padding") or 0
    return by_rank("conv_transpose", x)(x, w, b, stride, padding, more, a.get("group", 1), dilation)


def max_pool(a, x):
    if a.get("storage_order"):
        raise Unsupported("indices that count column-major")
    x, stride, padding, dilation = window(a, x, a["kernel_shape"], float("-inf"), lambda k: k // 2)
    indices = a["outputs"] > 1
    y = by_rank("max_pool", x)(x, a["kernel_shape"], stride, padding, dilation, bool(a.get("ceil_mode")), indices)
    if not indices:
        return y
    planes = torch.arange(x.shape[0] * x.shape[1], device=x.device).reshape(list(x.shape[:2]) + [1] * (x.dim() - 2))
    return y[0], y[1] + planes * x[0, 0].numel()  # PyTorch counts in a plane, ONNX in the whole tensor


def average_pool(a, x):
    include = bool(a.get("count_include_pad"))
    x, stride, padding, dilation = window(a, x, a["kernel_shape"], 0.0 if include else None, lambda k: k // 2)
    if max(dilation) > 1:
        raise Unsupported("AveragePool with dilations")
    return by_rank("avg_pool", x)(x, a["kernel_shape"], stride, padding, bool(a.get("ceil_mode")), include)


def batch_norm(a, x, scale, bias, mean, var):
    eps, keep, training = a.get("epsilon", 1e-5), a.get("momentum", 0.9), bool(a.get("training_mode"))
    line = x.dim() == 1  # N values of one channel
    x = x[:, None] if line else x
    moving = [t.detach().clone() for t in (mean, var)]
    moving = [None, None] if training and a["outputs"] == 1 else moving if training else [mean, var]
    y = torch.batch_norm(x, scale, bias, *moving, training, 1 - keep, eps, True)
    y = y[:, 0] if line else y
    n = max(1, x.numel() // max(1, x.shape[1]))
    # ONNX keeps the variance of the batch, torch var n / (n - 1).
    return y if a["outputs"] == 1 else (y, moving[0], moving[1] * ((n - 1) / n) + var * (keep / n))


def normalized(f):
    return lambda a, x, *weights: f(x, x.shape[a.get("axis", -1) % x.dim():], *weights, eps=a.get("epsilon", 1e-5))


def reduction(f, of_integers=False):
    """What integers do not have is computed in double and loses its fraction."""
    def reduce(a, x, axes=None):
        if not x.is_floating_point() and not of_integers:
            return reduce(a, x.double(), axes).to(x.dtype)
        axes = a.get("axes") if axes is None else axes
        if x.dim() == 0 or (not axes and a.get("noop_with_empty_axes")):  # of one element
            return f(x.unsqueeze(-1), [-1], False)
        return f(x, list(axes or range(x.dim())), bool(a.get("keepdims", 1)))
    return reduce


def product(x, axes, keep):
    for axis in sorted((axis % x.dim() for axis in axes), reverse=True):
        x = x.prod(axis, keep, dtype=x.dtype)
    return x


def recurrent(call, order, activations):
    def run(a, x, w, r, b=None, lengths=None, h=None, c=None, peepholes=None):
        directions, size = len(w), a["hidden_size"]
        asked = [f.lower() for f in a.get("activations") or activations * directions]
        if lengths is not None or peepholes is not None or a.get("clip") or a.get("layout") or \
                a.get("direction") == "reverse" or asked != activations * directions:
            raise Unsupported("lengths, peepholes, clip, layout 1, direction reverse or other activations")
        if call is torch.gru and not a.get("linear_before_reset"):
            raise Unsupported("linear_before_reset 0: PyTorch has the other form")

        def turned(t):  # PyTorch has the gates in another order
            return torch.cat([t[gate * size:(gate + 1) * size] for gate in order])
        weights = []
        for i in range(directions):
            weights += [turned(w[i]), turned(r[i])]
            weights += [turned(part) for part in b[i].chunk(2)] if b is not None else []
        state = [s if s is not None else x.new_zeros(directions, x.shape[1], size) for s in (h, c)]
        y, *last = call(x, state if call is torch.lstm else state[0], weights, b is not None, 1, 0.0, False,
                        directions == 2, False)
        return (y.reshape(len(x), x.shape[1], directions, size).transpose(1, 2), *last)[: a["outputs"]]
    return run


def gather(a, x, at):
    axis = a.get("axis", 0) % x.dim()
    rows = torch.where(at < 0, at + x.shape[axis], at).reshape(-1)
    return torch.index_select(x, axis, rows).reshape([*x.shape[:axis], *at.shape, *x.shape[axis + 1:]])


def fold(f):
    def run(a, x, *more):
        for y in more:
            x = f(x, y)
        return x if more else x.clone()
    return run


def loss(f):
    def run(a, x, target, weight=None):
        ignored = a.get("ignore_index", -100)
        return f(x, target.long(), weight, reduction=a.get("reduction", "mean"), ignore_index=ignored)
    return run


def plain(f):
    return lambda a, *x: f(*x)


OPERATORS = {
    "Gemm": gemm, "Conv": conv, "ConvTranspose": conv_transpose, "MaxPool": max_pool, "AveragePool": average_pool,
    "GlobalAveragePool": lambda a, x: x.mean(list(range(2, x.dim())), True),
    "GlobalMaxPool": lambda a, x: by_rank("adaptive_max_pool", x)(x, 1),
    "BatchNormalization": batch_norm, "LayerNormalization": normalized(F.layer_norm),
    "RMSNormalization": normalized(lambda x, shape, s, eps: F.rms_norm(x, shape, s, eps)),
    "InstanceNormalization": lambda a, x, s, b: F.instance_norm(x, weight=s, bias=b, eps=a.get("epsilon", 1e-5)),
    "GroupNormalization": lambda a, x, s, b: F.group_norm(x, a["num_groups"], s, b, a.get("epsilon", 1e-5)),
    "Softmax": lambda a, x: F.softmax(x, a.get("axis", -1)),
    "LogSoftmax": lambda a, x: F.log_softmax(x, a.get("axis", -1)),
    "LeakyRelu": lambda a, x: F.leaky_relu(x, a.get("alpha", 0.01)),
    "PRelu": lambda a, x, slope: torch.where(x > 0, x, slope * x),
    "Elu": lambda a, x: F.elu(x, a.get("alpha", 1.0)),
    "Gelu": lambda a, x: F.gelu(x, approximate=a.get("approximate", "none")),
    "HardSigmoid": lambda a, x: (x * a.get("alpha", 0.2) + a.get("beta", 0.5)).clamp(0, 1),
    # On CUDA PyTorch's own multiplies f64 by the 1/6 of f32.
    "HardSwish": lambda a, x: x * (x + 3).clamp(0, 6) / 6 if x.is_cuda and x.dtype == torch.float64 else F.hardswish(x),
    "Div": lambda a, x, y: x / y if x.is_floating_point() else torch.div(x, y, rounding_mode="trunc"),
    "Sum": fold(torch.add), "Min": fold(torch.minimum), "Max": fold(torch.maximum),
    "Mean": lambda a, *x: fold(torch.add)(a, *x) / len(x),
    "ReduceMax": reduction(torch.amax, True), "ReduceMin": reduction(torch.amin, True),
    "ReduceSum": reduction(lambda x, axes, keep: x.sum(axes, keep, dtype=x.dtype), True),
    "ReduceMean": reduction(torch.mean), "ReduceProd": reduction(product, True),
    "ReduceLogSumExp": reduction(torch.logsumexp),
    "ReduceL1": reduction(lambda x, axes, keep: x.abs().sum(axes, keep, dtype=x.dtype), True),
    "ReduceL2": reduction(lambda x, axes, keep: torch.linalg.vector_norm(x, 2, axes, keep)),
    "Transpose": lambda a, x: x.permute(a.get("perm") or list(reversed(range(x.dim())))).contiguous(),
    "Reshape": lambda a, x, sizes: x.reshape([x.shape[i] if s == 0 and not a.get("allowzero") else s
                                              for i, s in enumerate(sizes)]).clone(),
    "Concat": lambda a, *x: torch.cat(x, a["axis"]),
    "Gather": gather,
    "RNN": recurrent(torch.rnn_tanh, [0], ["tanh"]),
    "GRU": recurrent(torch.gru, [1, 0, 2], ["sigmoid", "tanh"]),
    "LSTM": recurrent(torch.lstm, [0, 2, 3, 1], ["sigmoid", "tanh", "tanh"]),
    "SoftmaxCrossEntropyLoss": loss(F.cross_entropy), "NegativeLogLikelihoodLoss": loss(F.nll_loss),
    "MatMul": plain(torch.matmul), "Relu": plain(F.relu), "Mish": plain(F.mish), "Softplus": plain(F.softplus),
    "Softsign": plain(F.softsign), "Identity": plain(torch.clone), "Where": plain(torch.where),
}
for op in ("Abs Neg Exp Log Sqrt Reciprocal Erf Sign Floor Ceil Round Sigmoid Sin Cos Tan Asin Acos Atan Sinh Cosh "
           "Tanh Asinh Acosh Atanh Add Sub Mul Pow").split():
    OPERATORS[op] = plain(getattr(torch, op.lower()))
# Operators of channels and places: the fast layout has the channels last.
SPATIAL = {"Conv", "ConvTranspose", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool",
           "BatchNormalization", "InstanceNormalization", "GroupNormalization"}
SEVERAL = set("HardSigmoid Softsign PRelu Sum Mean ReduceProd ReduceL1 ReduceL2 ReduceLogSumExp RNN GRU LSTM "
              "SoftmaxCrossEntropyLoss NegativeLogLikelihoodLoss".split())
MEET = {"MaxPool", "AveragePool", "Gather", "LayerNormalization", "InstanceNormalization"}


def narrow_arithmetic(fields, images):
    """Why results are rounded to the tensors' own type on their way; d5/backends/torch says the same."""
    op, a, inputs, outputs = (fields[name] for name in ("operator", "attributes", "inputs", "outputs"))
    forward, cuda, f16 = fields["pass"] == "forward", fields["device"] != "cpu", inputs[0]["dtype"] == "f16"
    bias = len(inputs) > 2 and inputs[2]
    stacks = [tensor["shape"][:-2] for tensor in inputs + outputs if tensor]
    inner = a.get("axis", -1) not in (-1, len(inputs[0]["shape"]) - 1)
    rules = {
        "several functions, each of which stores its result in the type of the tensors": op in SEVERAL,
        "gradients that meet in one element are added in the type of the tensors": op in MEET and not forward,
        "autograd scales products that were stored":
            op == "Gemm" and not forward and (a.get("alpha", 1), a.get("beta", 1)) != (1, 1),
        "cuBLAS stores the product of one row in f16 before it adds C":
            op == "Gemm" and forward and cuda and f16 and bias and outputs[0]["shape"][0] == 1,
        "the gradients of a broadcast operand are stored before they are summed":
            op == "MatMul" and not forward and stacks != stacks[:1] * 3,
        "PyTorch's own convolution on the CPU adds in f16":
            not cuda and f16 and (op == "ConvTranspose" or (op == "Conv" and not forward)),
        "cuDNN's result is stored before the bias is added":
            op in ("Conv", "ConvTranspose") and cuda and forward and bias,
        "the gradient's products and partial sums are rounded to the type of X":
            op == "BatchNormalization" and cuda and not forward and not images and not (a.get("training_mode") and f16),
        "softmax on the CPU stores exponentials in 16 bits along an inner axis":
            op == "Softmax" and not cuda and forward and inner,
        "log_softmax on the CPU stores the logarithm of the sum in the type of the tensors":
            op == "LogSoftmax" and not cuda and forward,
    }
    return next((why for why, holds in rules.items() if holds), "")
