# SPDX-License-Identifier: Apache-2.0
"""conv3d as a function."""

import torch
import torch.nn.functional as F
from torch._compile import _disable_dynamo
from torch.overrides import handle_torch_function, has_torch_function_variadic

from .autograd import convolve
from .call import Operation, function_rule, run, run_on
from .problem import problem_of


def _plain(passes, problem, x, w, b):
    return passes.forward(problem, x, w, b)


CONVOLUTION = Operation(
    "conv3d", ("stride", "padding", "dilation", "groups", "padding_mode"), problem_of, convolve, _plain
)


def conv3d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1, *, precision=None):
    """3-D convolution (cross-correlation) with a custom forward and backward, both bounded in memory.

    Takes what torch.nn.functional.conv3d takes, and gives the same up to rounding, derivatives of any order included.

    input      (N, CI, D, H, W) or (CI, D, H, W), any strides
    weight     (CO, CI / groups, KD, KH, KW), any strides
    bias       (CO,) or None
    stride, dilation   int or three ints (depth, height, width)
    padding    int, three ints, 'valid' or 'same' (stride 1; where the total is odd, the extra one is at the end)
    groups     int
    precision  how far the C core may trade rounding error for speed: 'auto' (None) keeps every digit that quiet zones
               beside loud ones need, 'normwise' bounds the error by the norm of the whole window, 'elementwise' bounds
               it for each output. Has no effect elsewhere.

    Returns (N, CO, OD, OH, OW), or without N; channels_last_3d if input or weight is, else contiguous.

    float32 and float64 on the CPU run on the C core, with the same bits for any number of threads; every other dtype
    and device on torch operators in bounded steps. `device.conv3d_backend` and OGP_CONV3D force one.

    Where torch itself looks inside (forward-mode AD, torch.func, tracing, dispatch modes) torch's operators are what it
    sees, and differentiates: on an NPU those whose derivatives no limit of the device refuses, elsewhere its own
    convolution. torch.compile breaks its graph here.

    No input channels: the sum over them is zero, the output is the bias. An empty batch gives zero gradients.

    Errors: RuntimeError for shapes, values, dtypes and devices that do not fit; TypeError for arguments of another
    type; ValueError for an unknown precision; NotImplementedError for bool tensors.
    """
    if has_torch_function_variadic(input, weight, bias):
        return handle_torch_function(
            conv3d, (input, weight, bias), input, weight, bias, stride, padding, dilation, groups, precision=precision
        )
    if torch.compiler.is_compiling():
        return _outside_graph(input, weight, bias, stride, padding, dilation, groups, precision)
    return _eager(input, weight, bias, stride, padding, dilation, groups, precision)


def _eager(input, weight, bias, stride, padding, dilation, groups, precision):
    def native(x, w, b):
        return F.conv3d(x, w, b, stride, padding, dilation, groups)

    arguments = stride, padding, dilation, groups, "zeros"
    return run(CONVOLUTION, function_rule, native, input, weight, bias, arguments, precision)


_outside_graph = _disable_dynamo(_eager)


def convolve_by(backend, x, w, b, stride, padding, dilation, groups, padding_mode, precision):
    """conv3d on backend 'c' or 'composite', with a padding mode."""
    return run_on(CONVOLUTION, backend, x, w, b, (stride, padding, dilation, groups, padding_mode), precision)
