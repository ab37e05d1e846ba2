# SPDX-License-Identifier: Apache-2.0
"""Which layers of a model the native backward of an NPU would refuse, found on the meta device: no data, no NPU."""

import torch
from torch import nn

from . import npu
from .problem import hashable, problem_of


def _problem(conv, shape):
    return problem_of(
        hashable("stride", conv.stride), hashable("padding", conv.padding), hashable("dilation", conv.dilation),
        conv.groups, conv.padding_mode, None, (1, *shape) if len(shape) == 4 else shape, tuple(conv.weight.shape), None,
        False, False,
    )  # fmt: skip


def check_model(model, *input_shapes, dtype=torch.float32):
    """(layers, refused): the number of torch.nn.Conv3d that a forward of the model runs, each counted once for each
    shape of its input, and a line for each of them that the native operators would refuse on an Ascend NPU: the
    layer's name, its shapes, the load in bytes against L1.

    model         an nn.Module that has its parameters on the meta device, where its forward runs; left in eval mode
    input_shapes  one for each argument of the model
    dtype         of the inputs, and what the layers compute in: float32, float16 or bfloat16

    Errors: what the model itself raises there."""
    refusals = {}

    def look(name):
        def hook(conv, arguments, keywords):
            shape = tuple((arguments[0] if arguments else keywords["input"]).shape)
            text = f"{name}: input {shape}, weight {tuple(conv.weight.shape)}"
            refusals[text] = npu.native_refusal(_problem(conv, shape), dtype.itemsize)

        return hook

    layers = [(name, layer) for name, layer in model.named_modules() if isinstance(layer, nn.Conv3d)]
    hooks = [layer.register_forward_pre_hook(look(name or "the model"), with_kwargs=True) for name, layer in layers]
    try:
        with torch.no_grad():
            model.eval().to(dtype)(*(torch.empty(shape, dtype=dtype, device="meta") for shape in input_shapes))
    finally:
        for hook in hooks:
            hook.remove()
    return len(refusals), [f"{text}: {why}" for text, why in refusals.items() if why]
