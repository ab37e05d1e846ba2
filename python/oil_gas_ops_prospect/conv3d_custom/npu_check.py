# SPDX-License-Identifier: Apache-2.0
"""Which layers of a model the native backward of an NPU would refuse, found on the meta device: no data, no NPU."""

import torch
from torch import nn

from . import npu
from .problem import hashable, problem_of
from .transposed import transposed_problem_of


def _convolution(conv, x, _):
    return problem_of(
        hashable("stride", conv.stride), hashable("padding", conv.padding), hashable("dilation", conv.dilation),
        conv.groups, conv.padding_mode, None, _batched(x), tuple(conv.weight.shape), None, False, False,
    )  # fmt: skip


def _transposed(conv, x, output_size):
    """The convolution that is transposed, whose refusals are those of the layer."""
    axes = hashable("stride", conv.stride), hashable("padding", conv.padding), hashable("dilation", conv.dilation)
    stride, padding, dilation = axes
    more = conv._output_padding(x, output_size, stride, padding, conv.kernel_size, 3, dilation)
    return transposed_problem_of(
        stride, padding, hashable("output_padding", more), conv.groups, dilation, None, _batched(x),
        tuple(conv.weight.shape), None, False, False,
    )  # fmt: skip


def _batched(x):
    return (1, *x.shape) if x.dim() == 4 else tuple(x.shape)


_PROBLEMS = {nn.Conv3d: _convolution, nn.ConvTranspose3d: _transposed}


def check_model(model, *input_shapes, dtype=torch.float32):
    """(layers, refused): the number of torch.nn.Conv3d and ConvTranspose3d that a forward of the model runs, each
    counted once for each shape of its input, and a line for each of them that the native operators would refuse on an
    Ascend NPU: the layer's name, its shapes, the load in bytes against L1. Of a transposed layer the operators named
    are those of the convolution that it transposes, whose grad input is the layer's forward.

    model         an nn.Module that has its parameters on the meta device, where its forward runs; left in eval mode
    input_shapes  one for each argument of the model
    dtype         of the inputs, and what the layers compute in: float32, float16 or bfloat16

    Errors: what the model itself raises there."""
    refusals = {}

    def look(name, kind):
        def hook(conv, arguments, keywords):
            x = arguments[0] if arguments else keywords["input"]
            problem = _PROBLEMS[kind](conv, x, arguments[1] if len(arguments) > 1 else keywords.get("output_size"))
            transposed = ", transposed" if kind is nn.ConvTranspose3d else ""
            text = f"{name}: input {tuple(x.shape)}, weight {tuple(conv.weight.shape)}{transposed}"
            refusals[text] = refusals.get(text) or npu.native_refusal(problem, dtype.itemsize)

        return hook

    hooks = [
        layer.register_forward_pre_hook(look(name or "the model", kind), with_kwargs=True)
        for name, layer in model.named_modules()
        for kind in _PROBLEMS
        if isinstance(layer, kind)
    ]
    try:
        with torch.no_grad():
            model.eval().to(dtype)(*(torch.empty(shape, dtype=dtype, device="meta") for shape in input_shapes))
    finally:
        for hook in hooks:
            hook.remove()
    return len(refusals), [f"{text}: {why}" for text, why in refusals.items() if why]
