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
    from pytorch_network import IN_NETWORKS, Network
    from pytorch_operators import OPERATORS, SPATIAL, narrow_arithmetic
    from torch.utils._python_dispatch import TorchDispatchMode
except Exception as error:  # not there, or it does not load
    d5_worker.serve(None, "", {}, "PyTorch is not importable by %s: %s" % (sys.executable, error))

COMPILED = sys.argv[1] == "pytorch-compile"
DTYPES = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i8": torch.int8,
          "i16": torch.int16, "i32": torch.int32, "i64": torch.int64, "u8": torch.uint8, "bool": torch.bool}


class Recorder(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.append(str(function.overloadpacket))
        return function(*args, **(kwargs or {}))


class TorchCase(d5_worker.Case):
    """What operators and networks have in common: where PyTorch runs, how it is timed, and what comes back."""

    def __init__(self, fields):
        self.fields, self.backward = fields, fields["pass"] != "forward"
        self.device = torch.device(fields["device"])
        self.cuda = self.device.type == "cuda"
        self.refuse()
        self.build()

    def refuse(self):
        d5_worker.refuse_beyond("PyTorch", self.fields, {
            "math": ("strict", "tf32", "bf16"), "gradients": ("dense",), "kernel": ("builtin",)}, DTYPES)
        for operator in self.operators():
            if operator not in self.table:
                raise Unsupported("the PyTorch worker has no operator %s" % operator)
        compiler = os.environ.get("CXX", "g++")
        if self.cuda and not torch.cuda.is_available():
            raise Unsupported("PyTorch %s sees no CUDA device" % torch.__version__)
        if COMPILED and not hasattr(torch, "compile"):
            raise Unsupported("torch.compile needs PyTorch 2; here is %s" % torch.__version__)
        if COMPILED and not self.cuda and not shutil.which(compiler):
            raise Unsupported("torch.compile needs a C++ compiler, and there is no %s" % compiler)

    def enter(self):  # what PyTorch keeps for the whole process
        fields, math = self.fields, self.fields["math"]
        torch.set_num_threads(fields["threads"])
        torch.set_grad_enabled(self.backward)
        torch.set_float32_matmul_precision({"strict": "highest", "tf32": "high", "bf16": "medium"}[math])
        torch.use_deterministic_algorithms(fields["deterministic"])
        if self.cuda:
            torch.backends.cudnn.allow_tf32 = math != "strict"
            torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
            torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
            # No convolution by Winograd or Fourier transforms: see d5/backends/torch/library.cpp.
            direct = math == "strict" and fields["inputs"][0]["dtype"] in ("f32", "f64")
            if direct:
                os.environ.setdefault("TORCH_CUDNN_V8_API_DISABLED", "1")
            torch.backends.cudnn.deterministic = direct or fields["deterministic"]
            # cuDNN's activations of f32 are approximations.
            approximate = {"RNN", "GRU", "LSTM"} & self.operators() and fields["inputs"][0]["dtype"] == "f32"
            torch.backends.cudnn.enabled = not (math == "strict" and approximate)

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
        if not self.cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def seconds(self, begin, end):
        return begin.elapsed_time(end) * 1e-3 if self.cuda else end - begin

    def synchronize(self):
        if self.cuda:
            torch.cuda.synchronize(self.device)

    def fetch(self, name):
        tensor = self.results[name].detach().cpu().contiguous()
        names = {dtype: name for name, dtype in DTYPES.items()}
        size = tensor.numel() * tensor.element_size()
        data = ctypes.string_at(tensor.data_ptr(), size) if size else b""
        return d5_worker.Tensor(names[tensor.dtype], tensor.shape, data)


class OperatorCase(TorchCase):
    table = OPERATORS

    def operators(self):
        return {self.fields["operator"]}

    def build(self):
        fields = self.fields
        # On CUDA avg_pool2d's gradient with channels last loses windows where there is padding (2.11).
        wrong = fields["operator"] == "AveragePool" and self.cuda and self.backward
        self.fast = fields["layout"] == "fast" and fields["operator"] in SPATIAL and not wrong
        self.given = [i for i in fields["inputs"] if i and "value" not in i]
        self.function = self.make_function()
        used = self.try_once()
        self.details = {
            "kernels": {fields["operator"]: "torch.compile of " + used if COMPILED else used},
            "narrow_arithmetic": narrow_arithmetic(fields, self.fast and len(fields["inputs"][0]["shape"]) in (4, 5))}
        if COMPILED:
            torch._dynamo.reset()
            self.function = torch.compile(self.function, fullgraph=True, dynamic=False)

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
            if len(results) < attributes["outputs"]:
                raise Unsupported("the PyTorch worker has the first output of this operator alone")
            return tuple(r.contiguous() for r in results) if reorders else results
        return function

    def try_once(self):
        """What PyTorch has no kernel for shows only when it runs; so before anything is compiled it does, on no data.
        Says what a step consists of."""
        try:
            fill = torch.ones if self.fields["operator"] == "Div" else torch.zeros  # integers
            self.start({i["name"]: fill(i["shape"], dtype=DTYPES[i["dtype"]]) for i in self.given}, {})
            with Recorder() as recorder:
                self.step()
            return ", ".join(recorder.names)
        except (RuntimeError, AttributeError) as error:  # an older PyTorch has not every function
            if isinstance(error, (NotImplementedError, AttributeError)) or "not implemented for" in str(error):
                raise Unsupported("PyTorch %s: %s" % (torch.__version__, str(error).splitlines()[0]))
            raise

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


class NetworkCase(TorchCase):
    table = IN_NETWORKS

    def operators(self):
        return {node["operator"] for node in self.fields["nodes"]}

    def build(self):
        self.module = None
        self.details = {"kernels": {"network": "torch.compile" if COMPILED else "eager"}}
        values = {i["name"]: torch.empty(i["shape"], dtype=DTYPES[i["dtype"]], device="meta") for i in self.fields["inputs"]}
        try:  # shapes alone: shows what cannot be done
            with torch.no_grad():
                Network(self.fields, values)(*[values[name] for name in self.data()])
        except (NotImplementedError, AttributeError) as error:
            raise Unsupported("PyTorch %s: %s" % (torch.__version__, str(error).splitlines()[0]))

    def data(self):
        return [i["name"] for i in self.fields["inputs"] if not i["parameter"] and not i.get("constant")]

    def start(self, values, seeds):
        self.enter()
        fast = self.fields["layout"] == "fast" and SPATIAL & self.operators()
        placed = channels_last if fast else torch.Tensor.contiguous
        values = {name: placed(value.to(self.device)) for name, value in values.items()}
        if self.module is None:  # parameters of a module that is compiled stay where they are
            self.module = Network(self.fields, values).train(self.backward)
            self.function = torch.compile(self.module, fullgraph=True, dynamic=False) if COMPILED else self.module
        with torch.no_grad():
            for name in self.module.held:
                self.module.parameter(name).copy_(values[name])
        gradients = {i["name"] for i in self.fields["inputs"] if i["gradient"]}
        given = [values[name].requires_grad_(name in gradients) for name in self.data()]
        wanted = {name: self.module.parameter(name) for name in self.module.held if name in gradients}
        wanted.update({name: tensor for name, tensor in zip(self.data(), given) if name in gradients})
        labels, sources = ["gradient " + name for name in wanted], list(wanted.values())
        seeds = {y: placed(seed.to(self.device)) for y, seed in seeds.items()}

        def forward():
            self.results = {y["name"]: output for y, output in zip(self.fields["outputs"], self.function(*given))}

        def backward(**more):
            gradients = torch.autograd.grad([self.results[y] for y in seeds], sources, list(seeds.values()), **more)
            return dict(zip(labels, gradients))

        def step():
            forward()
            self.results.update(backward())

        def backward_alone():
            self.results.update(backward(retain_graph=True))
        if self.fields["pass"] == "backward":
            forward()
        self.step = {"forward": forward, "step": step, "backward": backward_alone}[self.fields["pass"]]
        self.step()
        self.synchronize()


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
d5_worker.serve(lambda fields: {"op": OperatorCase, "net": NetworkCase}[fields["kind"]](fields), torch.__version__, {
    "library": "PyTorch " + torch.__version__, "python": "%s (%s)" % (sys.version.split()[0], sys.executable),
    "oneDNN": str(torch.backends.mkldnn.is_available()), "CUDA": str(torch.version.cuda)})
