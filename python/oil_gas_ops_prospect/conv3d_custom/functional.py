# SPDX-License-Identifier: Apache-2.0
"""conv3d and conv_transpose3d as functions."""

import torch
import torch.nn.functional as F
from torch._compile import _disable_dynamo
from torch.overrides import handle_torch_function, has_torch_function_variadic

from . import device
from .autograd import convolve
from .call import Operation, run, run_on
from .problem import problem_of
from .transposed import TRANSPOSED


def _rule(x, w):
    return device.function_backend(x.device.type, x.dtype)


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
    run_it = _convolve_outside_graph if torch.compiler.is_compiling() else _convolve
    return run_it(input, weight, bias, (stride, padding, dilation, groups), precision)


def _convolve(input, weight, bias, arguments, precision):
    def native(x, w, b):
        return F.conv3d(x, w, b, *arguments)

    return run(CONVOLUTION, _rule, native, input, weight, bias, (*arguments, "zeros"), precision)


_convolve_outside_graph = _disable_dynamo(_convolve)


def convolve_by(backend, x, w, b, stride, padding, dilation, groups, padding_mode, precision):
    """conv3d on backend 'c' or 'composite', with a padding mode."""
    return run_on(CONVOLUTION, backend, x, w, b, (stride, padding, dilation, groups, padding_mode), precision)


def conv_transpose3d(
    input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1, *, precision=None
):
    """3-D transposed convolution with a custom forward and backward, both bounded in memory.

    Takes what torch.nn.functional.conv_transpose3d takes, and gives the same up to rounding, derivatives of any order
    included.

    input      (N, CI, D, H, W) or (CI, D, H, W), any strides
    weight     (CI, CO / groups, KD, KH, KW), any strides
    bias       (CO,) or None
    stride, dilation   int or three ints (depth, height, width)
    padding    int or three ints: crops the result on both sides
    output_padding     int or three ints, each less than stride or dilation: extends the result at the end
    groups     int
    precision  as in conv3d

    Returns (N, CO, OD, OH, OW), or without N; channels_last_3d if input or weight is, else contiguous. Of each axis
    o = (i - 1) stride - 2 padding + dilation (k - 1) + output_padding + 1.

    It is the grad input of a convolution; that convolution is its grad input, and its grad weight is the convolution's
    with the roles of the tensors exchanged. Where it runs, and what torch sees that looks inside: as conv3d.

    Errors: as conv3d; RuntimeError also for a weight without output channels.
    """
    if has_torch_function_variadic(input, weight, bias):
        arguments = input, weight, bias, stride, padding, output_padding, groups, dilation
        return handle_torch_function(conv_transpose3d, (input, weight, bias), *arguments, precision=precision)
    run_it = _transpose_outside_graph if torch.compiler.is_compiling() else _transpose
    return run_it(input, weight, bias, (stride, padding, output_padding, groups, dilation), precision)


def _transpose(input, weight, bias, arguments, precision):
    def native(x, w, b):
        return F.conv_transpose3d(x, w, b, *arguments)

    return run(TRANSPOSED, _rule, native, input, weight, bias, arguments, precision)


_transpose_outside_graph = _disable_dynamo(_transpose)
