# SPDX-License-Identifier: Apache-2.0
"""PyTorch as its users run it: eager (pytorch) or torch.compile (pytorch-compile); gradients by its own autograd."""
import ctypes
import os
import shutil
import sys
import time

import d5_worker
from d5_worker import Unsupported

try:
    import torch
    import torch.nn.functional as F
    from torch.utils._python_dispatch import TorchDispatchMode
except Exception as error:  # not there, or it does not load
    d5_worker.serve(None, "", {}, "PyTorch is not importable by %s: %s" % (sys.executable, error))

COMPILED = sys.argv[1] == "pytorch-compile"
DTYPES = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i8": torch.int8,
          "i16": torch.int16, "i32": torch.int32, "i64": torch.int64, "u8": torch.uint8, "bool": torch.bool}


# ---- operators as ONNX means them: f(attributes, inputs...). Inputs whose values are known beforehand come as lists.
def gemm(a, x, w, c=None):
    x, w = x.t() if a.get("transA") else x, w.t() if a.get("transB") else w
    alpha, beta = a.get("alpha", 1), a.get("beta", 1)
    if c is None:
        return torch.mm(x, w) if alpha == 1 else alpha * torch.mm(x, w)
    return torch.addmm(c, x, w, alpha=alpha, beta=beta)


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
    shape, eps, keep = x.shape, a.get("epsilon", 1e-5), a.get("momentum", 0.9)
    x = x if x.dim() > 1 else x[:, None]
    if not a.get("training_mode"):
        return F.batch_norm(x, mean, var, scale, bias, False, 0, eps).reshape(shape)
    y, now, inverse = torch.native_batch_norm(x, scale, bias, None, None, True, 0, eps)
    if a["outputs"] == 1:
        return y.reshape(shape)
    # The running variance: ONNX keeps that of the batch, nn.BatchNorm that of a sample.
    return y.reshape(shape), keep * mean + (1 - keep) * now, keep * var + (1 - keep) * (inverse.pow(-2) - eps)


def normalized_shape(a, x):
    return x.shape[a.get("axis", -1) % x.dim():]


def reduction(f):
    def reduce(a, x, axes=None):
        axes = a.get("axes") if axes is None else axes
        if not axes and a.get("noop_with_empty_axes"):
            return x.clone()
        return f(x, list(axes or range(x.dim())), bool(a.get("keepdims", 1)))
    return reduce


def product(x, axes, keep):
    for axis in sorted((axis % x.dim() for axis in axes), reverse=True):
        x = x.prod(axis, keep)
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


OPERATORS = {
    "Gemm": gemm,
    "MatMul": lambda a, x, y: torch.matmul(x, y),
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "MaxPool": max_pool,
    "AveragePool": average_pool,
    "GlobalAveragePool": lambda a, x: x.mean(list(range(2, x.dim())), True),
    "GlobalMaxPool": lambda a, x: x.amax(list(range(2, x.dim())), True),
    "BatchNormalization": batch_norm,
    "LayerNormalization": lambda a, x, s, b=None: F.layer_norm(x, normalized_shape(a, x), s, b, a.get("epsilon", 1e-5)),
    "RMSNormalization": lambda a, x, s: F.rms_norm(x, normalized_shape(a, x), s, a.get("epsilon", 1e-5)),
    "InstanceNormalization": lambda a, x, s, b: F.instance_norm(x, weight=s, bias=b, eps=a.get("epsilon", 1e-5)),
    "GroupNormalization": lambda a, x, s, b: F.group_norm(x, a["num_groups"], s, b, a.get("epsilon", 1e-5)),
    "Softmax": lambda a, x: F.softmax(x, a.get("axis", -1)),
    "LogSoftmax": lambda a, x: F.log_softmax(x, a.get("axis", -1)),
    "Relu": lambda a, x: F.relu(x),
    "LeakyRelu": lambda a, x: F.leaky_relu(x, a.get("alpha", 0.01)),
    "PRelu": lambda a, x, slope: torch.where(x < 0, slope * x, x),
    "Elu": lambda a, x: F.elu(x, a.get("alpha", 1.0)),
    "Gelu": lambda a, x: F.gelu(x, approximate=a.get("approximate", "none")),
    "HardSigmoid": lambda a, x: (x * a.get("alpha", 0.2) + a.get("beta", 0.5)).clamp(0, 1),
    "HardSwish": lambda a, x: F.hardswish(x),
    "Mish": lambda a, x: F.mish(x),
    "Softplus": lambda a, x: F.softplus(x),
    "Softsign": lambda a, x: F.softsign(x),
    "Add": lambda a, x, y: x + y,
    "Sub": lambda a, x, y: x - y,
    "Mul": lambda a, x, y: x * y,
    "Div": lambda a, x, y: x / y if x.is_floating_point() else torch.div(x, y, rounding_mode="trunc"),
    "Pow": lambda a, x, y: torch.pow(x, y),
    "Where": lambda a, condition, x, y: torch.where(condition, x, y),
    "Sum": fold(torch.add),
    "Min": fold(torch.minimum),
    "Max": fold(torch.maximum),
    "Mean": lambda a, *x: fold(torch.add)(a, *x) / len(x),
    "ReduceSum": reduction(torch.sum),
    "ReduceMean": reduction(torch.mean),
    "ReduceMax": reduction(torch.amax),
    "ReduceMin": reduction(torch.amin),
    "ReduceProd": reduction(product),
    "ReduceL1": reduction(lambda x, axes, keep: x.abs().sum(axes, keep)),
    "ReduceL2": reduction(lambda x, axes, keep: torch.linalg.vector_norm(x, 2, axes, keep)),
    "ReduceLogSumExp": reduction(torch.logsumexp),
    "Transpose": lambda a, x: x.permute(a.get("perm") or list(reversed(range(x.dim())))).contiguous(),
    "Reshape": lambda a, x, sizes: x.reshape([x.shape[i] if s == 0 and not a.get("allowzero") else s
                                              for i, s in enumerate(sizes)]).clone(),
    "Concat": lambda a, *x: torch.cat(x, a["axis"]),
    "Gather": gather,
    "Identity": lambda a, x: x.clone(),
    "RNN": recurrent(torch.rnn_tanh, [0], ["tanh"]),
    "GRU": recurrent(torch.gru, [1, 0, 2], ["sigmoid", "tanh"]),
    "LSTM": recurrent(torch.lstm, [0, 2, 3, 1], ["sigmoid", "tanh", "tanh"]),
    "SoftmaxCrossEntropyLoss": loss(F.cross_entropy),
    "NegativeLogLikelihoodLoss": loss(F.nll_loss),
}
for op in ("Abs Neg Exp Log Sqrt Reciprocal Erf Sign Floor Ceil Round Sigmoid Sin Cos Tan Asin Acos Atan Sinh Cosh "
           "Tanh Asinh Acosh Atanh").split():
    OPERATORS[op] = lambda a, x, f=getattr(torch, op.lower()): f(x)
# Operators of channels and places: the fast layout has the channels last.
SPATIAL = {"Conv", "ConvTranspose", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool",
           "BatchNormalization", "InstanceNormalization", "GroupNormalization"}


# ---- a case
class Recorder(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.append(str(function.overloadpacket))
        return function(*args, **(kwargs or {}))


class TorchCase(d5_worker.Case):
    def __init__(self, fields):
        self.fields, self.backward = fields, fields["pass"] == "backward"
        self.device = torch.device(fields["device"])
        self.refuse()
        self.fast = fields["layout"] == "fast" and fields["operator"] in SPATIAL
        self.given = [i for i in fields["inputs"] if i and "value" not in i]
        self.function = self.make_function()
        used = self.try_once()
        self.details = {"kernels": {fields["operator"]: "torch.compile of " + used if COMPILED else used}}
        if COMPILED:
            torch._dynamo.reset()
            self.function = torch.compile(self.function, fullgraph=True, dynamic=False)

    def refuse(self):
        fields = self.fields
        for name, legal in {"operator": OPERATORS, "math": ("strict", "tf32", "bf16"), "gradients": ("dense",),
                            "kernel": ("builtin",)}.items():
            if fields[name] not in legal:
                raise Unsupported("the PyTorch worker has no %s %s" % (name, fields[name]))
        for tensor in filter(None, fields["inputs"] + fields["outputs"]):
            if tensor["dtype"] not in DTYPES:
                raise Unsupported("the PyTorch worker has no %s" % tensor["dtype"])
        if self.device.type == "cuda" and not torch.cuda.is_available():
            raise Unsupported("PyTorch %s sees no CUDA device" % torch.__version__)
        if COMPILED and not hasattr(torch, "compile"):
            raise Unsupported("torch.compile needs PyTorch 2; here is %s" % torch.__version__)
        if COMPILED and self.device.type == "cpu" and not shutil.which(os.environ.get("CXX", "g++")):
            raise Unsupported("torch.compile needs a C++ compiler, and there is no %s" % os.environ.get("CXX", "g++"))

    def make_function(self):
        operator, fields = OPERATORS[self.fields["operator"]], self.fields
        attributes = dict(fields["attributes"], outputs=len(fields["outputs"]))
        known = [i and i.get("value") for i in fields["inputs"]]
        places = [place for place, i in enumerate(fields["inputs"]) if i and "value" not in i]
        reorders = self.fast and fields["reorders"] == "timed"

        def function(*tensors):
            arguments = list(known)
            for place, tensor in zip(places, tensors):
                arguments[place] = channels_last(tensor) if reorders else tensor
            results = operator(attributes, *arguments)
            results = results if isinstance(results, tuple) else (results,)
            return tuple(r.contiguous() for r in results) if reorders else results
        return function

    def try_once(self):
        """What PyTorch has no kernel for shows only when it runs; so before anything is compiled it does, on zeros.
        Says what a step consists of."""
        try:
            self.start({i["name"]: torch.zeros(i["shape"], dtype=DTYPES[i["dtype"]]) for i in self.given}, {})
            with Recorder() as recorder:
                self.step()
            return ", ".join(recorder.names)
        except (RuntimeError, AttributeError) as error:  # an older PyTorch has not every function
            if isinstance(error, (NotImplementedError, AttributeError)) or "not implemented for" in str(error):
                raise Unsupported("PyTorch %s: %s" % (torch.__version__, str(error).splitlines()[0]))
            raise

    def enter(self):  # what PyTorch keeps for the whole process
        math = self.fields["math"]
        torch.set_num_threads(self.fields["threads"])
        torch.set_grad_enabled(self.backward)
        torch.set_float32_matmul_precision({"strict": "highest", "tf32": "high", "bf16": "medium"}[math])
        torch.use_deterministic_algorithms(self.fields["deterministic"])
        if self.device.type == "cuda":
            torch.backends.cudnn.allow_tf32 = math != "strict"
            torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
            torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False

    def start(self, values, seeds):
        """The inputs in their places, forward once; and backward once where gradients are wanted."""
        self.enter()
        placed = channels_last if self.fast and self.fields["reorders"] == "untimed" else torch.Tensor.contiguous
        inputs = [placed(values[i["name"]].to(self.device)).requires_grad_(i["gradient"]) for i in self.given]
        self.results = {}

        def forward():
            outputs = self.function(*inputs)
            self.results = {y["name"]: output for y, output in zip(self.fields["outputs"], outputs)}
        forward()
        self.step = forward
        if self.backward:
            names = list(seeds) or [y for y, output in self.results.items() if output.requires_grad]
            outputs = [self.results[y] for y in names]
            seeds = seeds or {y: torch.ones_like(self.results[y]) for y in names}
            gradients = [placed(seeds[y].to(self.device)) for y in names]
            wanted = [i for i in inputs if i.requires_grad]
            labels = ["gradient " + i["name"] for i in self.given if i["gradient"]]

            def backward():
                self.results = dict(zip(labels, torch.autograd.grad(outputs, wanted, gradients, retain_graph=True)))
            backward()
            self.step = backward
        self.synchronize()

    def load(self, tensors):
        values = {name: as_torch(tensor) for name, tensor in tensors.items()}
        seeds = {name[len("gradient "):]: values[name] for name in values if name.startswith("gradient ")}
        begin = time.perf_counter()
        self.start(values, seeds)
        self.details.setdefault("compile_s" if COMPILED else "first_run_s", time.perf_counter() - begin)

    def run(self, *arguments):
        self.enter()
        return super().run(*arguments)

    def mark(self):
        if self.device.type == "cpu":
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def seconds(self, begin, end):
        return end - begin if self.device.type == "cpu" else begin.elapsed_time(end) * 1e-3

    def synchronize(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def fetch(self, name):
        tensor = self.results[name].detach().cpu().contiguous()
        names = {dtype: name for name, dtype in DTYPES.items()}
        size = tensor.numel() * tensor.element_size()
        data = ctypes.string_at(tensor.data_ptr(), size) if size else b""
        return d5_worker.Tensor(names[tensor.dtype], tensor.shape, data)


def channels_last(tensor):
    layouts = {4: torch.channels_last, 5: torch.channels_last_3d}
    return tensor.contiguous(memory_format=layouts.get(tensor.dim(), torch.contiguous_format))


def as_torch(tensor):
    if not tensor.data:
        return torch.empty(tensor.shape, dtype=DTYPES[tensor.dtype])
    return torch.frombuffer(tensor.data, dtype=DTYPES[tensor.dtype]).reshape(tensor.shape)


torch.set_num_interop_threads(1)
if COMPILED and hasattr(torch, "compile"):
    import torch._functorch.config
    import torch._inductor.config
    torch._functorch.config.donated_buffer = False  # backward alone is timed: what it reads must stay
    torch._inductor.config.compile_threads = 1
d5_worker.serve(TorchCase, torch.__version__, {
    "library": "PyTorch " + torch.__version__, "python": "%s (%s)" % (sys.version.split()[0], sys.executable),
    "oneDNN": str(torch.backends.mkldnn.is_available()), "CUDA": str(torch.version.cuda)})
