# SPDX-License-Identifier: Apache-2.0
"""What an NPU would do with a convolution, told without one: native's verdicts, and the composite's steps."""

import torch

from . import core, device, npu, steps
from .problem import PADDING_MODES, Problem, hashable, problem_of
from .transposed import transposed_problem_of

_AXES = ("samples", "groups", "depth", "width")
_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def _verdict(v):
    return f"  {v.operator:<12} {v.load} bytes: {'refused, ' + ', '.join(v.why) if v.why else 'taken'}"


def _plan(name, plan):
    cuts = [f"{axis} in {getattr(plan, axis)} parts" for axis in _AXES if getattr(plan, axis) > 1]
    count = f"{plan.count} steps ({', '.join(cuts)})" if cuts else "1 step"
    load = f", {plan.load} bytes of L1" if plan.load else ""
    return f"  {name:<12} {plan.form}, {count}{load}"


def _explained(problem, dtype):
    if dtype not in _DTYPES:
        raise RuntimeError(f"explain: expected a dtype of the device, float32, float16 or bfloat16, got {dtype}")
    if problem.is_empty:
        raise RuntimeError(f"explain: expected a batch with input channels, got input {tuple(problem.x_shape)}")
    limits, budget = device.planning("npu")
    of_x, of_gy = (conv(problem, dtype.itemsize) for conv in (steps.forward_of, steps.grad_input_of))
    return "\n".join((
        f"input {tuple(problem.x_shape)}, weight {tuple(problem.w_shape)}, stride {problem.stride}, padding "
        f"{problem.pad_lo} and {problem.pad_hi} of {problem.padding_mode}, dilation {problem.dilation}, groups "
        f"{problem.groups}, {str(dtype).removeprefix('torch.')}",
        f"native on {limits.name}, of whose L1 an operator has {limits.l1} bytes:",
        *map(_verdict, npu.native_verdicts(problem, dtype.itemsize, limits)),
        f"composite, within {budget.l1} bytes of L1 and {budget.volume} bytes of memory a step:",
        _plan("forward", steps.correlate(of_x, limits, budget)),
        _plan("grad input", steps.correlate(of_gy, limits, budget)),
        _plan("grad weight", steps.reduce(of_x, limits, budget)),
        "  grad bias    sum, 1 step",
    ))  # fmt: skip


def _explained_transposed(problem, x_shape, dtype):
    return (
        f"transposed: input {tuple(x_shape)}, output {tuple(problem.x_shape)}; its forward is the grad input, and its "
        f"grad input the forward, of the convolution\n{_explained(problem, dtype)}"
    )


def explain(
    input_shape, weight_shape, stride=1, padding=0, dilation=1, groups=1, *, padding_mode="zeros", dtype=torch.float32,
    transposed=False, output_padding=0,
):  # fmt: skip
    """A text on what an Ascend NPU would do with a convolution; neither the device nor torch_npu is needed.

    For native its load in bytes against L1, operator by operator, and which it refuses (the formulas: docs/npu.md); for
    the composite the form and the number of its steps within the budgets in force (OGP_NPU_L1_BUDGET,
    OGP_NPU_VOLUME_BUDGET, or the keywords of conv3d_backend).

    input_shape   (N, CI, D, H, W) or (CI, D, H, W)
    weight_shape  (CO, CI / groups, KD, KH, KW)
    dtype         float32, float16 or bfloat16: what the device computes in
    transposed    a layer as in conv_transpose3d, of weight_shape (CI, CO / groups, KD, KH, KW): told of the convolution
                  that it transposes
    The others as in conv3d, Conv3d and conv_transpose3d.

    Errors: those of conv3d and conv_transpose3d for what defines no convolution; RuntimeError for another dtype, for
    an output padding of a layer that is not transposed, and for a transposed one padded by another mode than zeros.

        print(explain((1, 7, 168, 296, 296), (7, 1, 7, 7, 7), padding=3, groups=7))
    """
    shape, w_shape = tuple(input_shape), tuple(weight_shape)
    shape = (1, *shape) if len(shape) == 4 else shape
    stride, padding, dilation = hashable("stride", stride), hashable("padding", padding), hashable("dilation", dilation)
    groups, more = hashable("groups", groups), hashable("output_padding", output_padding)
    if transposed:
        _check_zeros(padding_mode)
        arguments = stride, padding, more, groups, dilation, None, shape, w_shape, None, False, False
        return _explained_transposed(transposed_problem_of(*arguments), shape, dtype)
    if more not in (0, (0, 0, 0)):
        raise RuntimeError(f"explain: expected output_padding of a transposed layer alone, got {output_padding}")
    arguments = stride, padding, dilation, groups, padding_mode, None, shape, w_shape, None, False, False
    return _explained(problem_of(*arguments), dtype)


def _check_zeros(padding_mode):
    if padding_mode != "zeros":
        raise RuntimeError(f"explain: expected padding_mode 'zeros' of a transposed layer, got {padding_mode!r}")


def _transposed_text(text, dtype):
    """Of the words of a transposed layer: those of a problem, i and ci of its input, co of its output."""
    geometry, _, x_shape, (co, _, *kernel), _ = core._core.parse(text)
    stride, pad_lo, pad_hi, dilation, groups, mode, _ = geometry
    more = tuple(p - q for p, q in zip(pad_lo, pad_hi))
    if groups <= 0 or co % groups:
        raise RuntimeError(f"transposed: expected co that groups divide, got co {co} and g {groups}")
    w_shape = (x_shape[1], co // groups, *kernel)
    return explain(
        x_shape, w_shape, stride, pad_lo, dilation, groups, padding_mode=PADDING_MODES[mode], dtype=dtype,
        transposed=True, output_padding=more,
    )  # fmt: skip


def explain_text(text, dtype=torch.float32):
    """The same of a problem in its text form (docs/api_list.md), such as "forward g7 ci7 co7 i168x296x296 k7 p3"; its
    pass and dtype are not looked at. A text that begins with `transposed` is of a transposed layer, its words those of
    the layer itself: ci and i of its input, co of its output; a q below p is the output padding p - q. Errors:
    RuntimeError also for a text that cannot be read, and without the C core, which reads it."""
    if core._core is None:
        raise RuntimeError("explain: expected a C core that loads, which reads the text form of a problem, got none")
    first, _, rest = text.strip().partition(" ")
    if first == "transposed":
        return _transposed_text(rest, dtype)
    geometry, _, x_shape, w_shape, _ = core._core.parse(text)
    stride, pad_lo, pad_hi, dilation, groups, mode, _ = geometry
    problem = Problem(
        stride=stride,
        pad_lo=pad_lo,
        pad_hi=pad_hi,
        dilation=dilation,
        groups=groups,
        padding_mode=PADDING_MODES[mode],
        x_shape=x_shape,
        w_shape=w_shape,
        y_shape=core._core.output_shape(geometry, x_shape, w_shape),
        x_format=torch.contiguous_format,
        w_format=torch.contiguous_format,
        y_format=torch.contiguous_format,
        geometry=geometry,
    )
    return _explained(problem, dtype)
