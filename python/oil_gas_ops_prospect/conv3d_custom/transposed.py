# SPDX-License-Identifier: Apache-2.0
"""The transposed convolution: the grad input of a convolution of the same weight, whose gy is x and whose gx is y."""

from functools import lru_cache

import torch.nn.functional as F

from . import autograd
from .call import Operation
from .problem import check_channels, check_dimensions, check_weight, not_negative, problem_of, steps_of


def output_extents(spatial, kernel, stride, padding, output_padding, dilation):
    """Of y; arguments are triples."""
    axes = zip(spatial, kernel, stride, padding, output_padding, dilation)
    return tuple((i - 1) * s - 2 * p + l * (k - 1) + 1 + more for i, k, s, p, more, l in axes)


def _paddings(padding, output_padding, stride, dilation):
    """Both as triples."""
    if isinstance(padding, str):
        raise TypeError(f"conv_transpose3d(): argument 'padding': expected an int or ints, got {padding!r}")
    padding = not_negative("padding", padding)
    output_padding = not_negative("output_padding", output_padding)
    if any(more >= max(s, l) for more, s, l in zip(output_padding, stride, dilation)):
        raise RuntimeError(
            f"output padding must be smaller than either stride or dilation, but got output_padding="
            f"{list(output_padding)}, stride={list(stride)}, dilation={list(dilation)}"
        )
    return padding, output_padding


def _check_extents(spatial, kernel, extents):
    if min(kernel) <= 0:
        raise RuntimeError(f"kernel size should be greater than zero, but got: {list(kernel)}")
    if min(spatial) <= 0:
        raise RuntimeError(f"expected input with spatial sizes greater than zero, but got {list(spatial)}")
    if min(extents) <= 0:
        raise RuntimeError(
            f"Given input size per channel: ({' x '.join(map(str, spatial))}). Calculated output size per channel: "
            f"({' x '.join(map(str, extents))}). Output size is too small"
        )


@lru_cache(maxsize=4096)
def transposed_problem_of(
    stride, padding, output_padding, groups, dilation, precision, x_shape, w_shape, b_shape, x_last, w_last
):
    """The Problem of the convolution that is transposed: its x has the shape of our y. Its y has that of our x; where
    the output padding is a stride or more, windows of it that our x does not reach come after.

    Errors: as problem_of; TypeError for a padding by name."""
    check_dimensions("conv_transpose3d", x_shape)
    check_weight("conv_transpose3d", groups, x_shape, w_shape)
    co = w_shape[1] * groups
    check_channels("transposed=1", w_shape, x_shape, w_shape[0], b_shape, co)
    if co == 0:
        raise RuntimeError(f"expected weight with output channels, but got weight of size {list(w_shape)}")
    stride, dilation = steps_of(stride, dilation)
    padding, output_padding = _paddings(padding, output_padding, stride, dilation)
    spatial, kernel = x_shape[2:], w_shape[2:]
    extents = output_extents(spatial, kernel, stride, padding, output_padding, dilation)
    _check_extents(spatial, kernel, extents)
    last = x_last or w_last
    y_shape = (x_shape[0], co, *extents)
    return problem_of(stride, padding, dilation, groups, "zeros", precision, y_shape, w_shape, None, last, w_last)


def _operands(problem, x, w):
    """gy and w of the convolution: zeros where x does not reach, and the conjugate that a grad input takes again."""
    beyond = [more for o, i in zip(problem.y_shape[:1:-1], x.shape[:1:-1]) for more in (0, o - i)]
    return F.pad(x, beyond) if any(beyond) else x, w.conj()


def _recorded(passes, problem, x, w, b):
    return autograd.transpose(passes, problem, *_operands(problem, x, w), b)


def _plain(passes, problem, x, w, b):
    return passes.grad_input(problem, *_operands(problem, x, w), b)


TRANSPOSED = Operation(
    "conv_transpose3d",
    ("stride", "padding", "output_padding", "groups", "dilation"),
    transposed_problem_of,
    _recorded,
    _plain,
)
