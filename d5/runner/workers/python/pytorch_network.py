# SPDX-License-Identifier: Apache-2.0
"""A network of ONNX's operators as the module that a user of PyTorch would write: one line for each node, and values are
forgotten after their last use. For pytorch.py."""
import torch
import torch.nn.functional as F
from d5_worker import Unsupported
from pytorch_operators import OPERATORS

ONNX_TYPES = {1: torch.float32, 6: torch.int32, 7: torch.int64, 9: torch.bool, 10: torch.float16, 11: torch.float64,
              16: torch.bfloat16}


def attention(a, q, k, v, mask=None, *more):
    if any(m is not None for m in more) or a["outputs"] > 1 or a.get("softcap") or (a.get("is_causal") and mask is not None) \
            or max(a.get("left_window_size", -1), a.get("right_window_size", -1)) >= 0:
        raise Unsupported("Attention with past keys, windows, softcap, or causal with a mask")
    heads, kv_heads, flat = a.get("q_num_heads"), a.get("kv_num_heads"), q.dim() == 3
    if flat:
        q, k, v = [t.unflatten(2, (n, -1)).transpose(1, 2) for t, n in ((q, heads), (k, kv_heads), (v, kv_heads))]
    more = {"enable_gqa": True} if q.shape[1] != k.shape[1] else {}
    y = F.scaled_dot_product_attention(q, k, v, mask, 0.0, bool(a.get("is_causal")), scale=a.get("scale") or None, **more)
    return y.transpose(1, 2).flatten(2) if flat else y


def dropout(a, x, ratio=0.5, training=False):
    if training and ratio > 0:
        raise Unsupported("Dropout that drops: its mask is not PyTorch's; set the network's dropout to 0")
    return x if a["outputs"] == 1 else (x, torch.ones_like(x, dtype=torch.bool))


def shaped(a, x, sizes):
    return x.reshape([x.shape[i] if s == 0 and not a.get("allowzero") else s for i, s in enumerate(sizes)])


def sliced(a, x, starts, ends, axes=None, steps=None):
    places = [slice(None)] * x.dim()
    for i, (start, end) in enumerate(zip(starts, ends)):
        step = steps[i] if steps else 1
        if step < 1:
            raise Unsupported("Slice backwards")
        places[axes[i] if axes else i] = slice(start, end, step)
    return x[tuple(places)]


def split(a, x, sizes=None):
    axis = a.get("axis", 0)
    return x.split(sizes, axis) if sizes else x.chunk(a["outputs"], axis)


def padded(a, x, pads, value=0.0, axes=None):
    if a.get("mode", "constant") != "constant" or axes:
        raise Unsupported("Pad with mode %s or axes" % a.get("mode"))
    n = x.dim()
    ends = [pad for axis in reversed(range(n)) for pad in (pads[axis], pads[n + axis])]
    return F.pad(x, ends, value=value or 0.0)


def gathered(a, x, at):
    axis = a.get("axis", 0)
    if isinstance(at, int):
        return x.select(axis, at)
    return x.index_select(axis, torch.tensor(at, device=x.device)) if isinstance(at, list) else OPERATORS["Gather"](a, x, at)


def squeezed(a, x, axes=None):
    return x.squeeze(tuple(axes)) if axes else x.squeeze()


def unsqueezed(a, x, axes):
    for axis in sorted(axis % (x.dim() + len(axes)) for axis in axes):
        x = x.unsqueeze(axis)
    return x


def layer(operator):
    def run(a, *inputs):
        results = OPERATORS[operator](a, *inputs)
        return results if a["outputs"] > 1 else results[0]
    return run


# Views where an operator alone must copy, and what only networks need.
IN_NETWORKS = dict(
    OPERATORS, Attention=attention, Dropout=dropout, Reshape=shaped, Slice=sliced, Split=split, Pad=padded,
    Squeeze=squeezed, Unsqueeze=unsqueezed, Identity=lambda a, x: x,
    Flatten=lambda a, x: x.flatten(1) if a.get("axis", 1) == 1 else x.reshape(x.shape[:a["axis"]].numel(), -1),
    Transpose=lambda a, x: x.permute(a.get("perm") or list(reversed(range(x.dim())))),
    Clip=lambda a, x, low=None, high=None: x.clamp(low, high), Gather=gathered,
    Cast=lambda a, x: x.to(ONNX_TYPES[a["to"]]), Expand=lambda a, x, sizes: x.expand(torch.broadcast_shapes(x.shape, sizes)))
IN_NETWORKS.update({operator: layer(operator) for operator in ("RNN", "GRU", "LSTM")})
# Their real numbers come as numbers, those of others as tensors.
TAKE_NUMBERS = {"Clip", "Dropout", "Pad"}


class Network(torch.nn.Module):
    """Parameters and constants belong to it, data are the arguments of forward. `values`: tensors by name."""

    def __init__(self, fields, values):
        super().__init__()
        self.held, names, arguments = {}, {}, ["self"]
        for i, tensor in enumerate(fields["inputs"]):
            name = tensor["name"]
            if tensor["parameter"] or tensor.get("constant"):
                self.held[name] = "held_%d" % i
                names[name] = "self.held_%d" % i
                if tensor["parameter"] and values[name].is_floating_point():
                    self.register_parameter("held_%d" % i, torch.nn.Parameter(values[name], tensor["gradient"]))
                else:
                    self.register_buffer("held_%d" % i, values[name])
            else:
                names[name] = "given_%d" % i
                arguments.append(names[name])
        exec_names = {}
        lines = list(self.lines(fields, names, exec_names))
        code = "def forward(%s):\n%s\n" % (", ".join(arguments), "\n".join("    " + line for line in lines))
        exec(compile(code, "<network>", "exec"), exec_names)
        self.run = exec_names["forward"]

    def lines(self, fields, names, space):
        known, results = fields["known"], [y["name"] for y in fields["outputs"]]
        last = {value: i for i, node in enumerate(fields["nodes"]) for value in node["inputs"] + node["outputs"]}
        for i, node in enumerate(fields["nodes"]):
            space["f%d" % i] = IN_NETWORKS[node["operator"]]
            space["a%d" % i] = dict(node["attributes"], outputs=len(node["outputs"]))
            words = ["a%d" % i]
            for value in node["inputs"]:
                numbers = known.get(value)
                whole = numbers is not None and (node["operator"] in TAKE_NUMBERS or value not in names)
                words.append(repr(numbers) if whole else names[value] if value else "None")
            for j, value in enumerate(node["outputs"]):
                names[value] = "v%d_%d" % (i, j)
            made = ", ".join(names[value] for value in node["outputs"])
            yield "%s = f%d(%s)" % (made, i, ", ".join(words))
            gone = [names[value] for value in dict.fromkeys(node["inputs"] + node["outputs"])
                    if value and last[value] == i and value not in results and names.get(value, "").startswith("v")]
            if gone:
                yield "del " + ", ".join(gone)
        yield "return (%s,)" % ", ".join(names[value] for value in results)

    def forward(self, *given):
        return self.run(self, *given)

    def parameter(self, name):
        return getattr(self, self.held[name])
