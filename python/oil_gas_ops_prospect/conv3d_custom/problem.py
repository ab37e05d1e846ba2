# SPDX-License-Identifier: Apache-2.0
"""A convolution as a value: its arguments, checked once and completed, as every pass needs them."""

from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from operator import index

import torch

PADDING_MODES = ("zeros", "reflect", "replicate", "circular")
PRECISIONS = ("auto", "normwise", "elementwise")
_INT64_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Problem:
    """Triples are (depth, height, width). Shapes have five axes. `geometry` is the same as the extension reads it."""

    stride: tuple[int, int, int]
    pad_lo: tuple[int, int, int]
    pad_hi: tuple[int, int, int]
    dilation: tuple[int, int, int]
    groups: int
    padding_mode: str
    x_shape: torch.Size
    w_shape: torch.Size
    y_shape: torch.Size
    x_format: torch.memory_format
    w_format: torch.memory_format
    y_format: torch.memory_format
    geometry: tuple
    is_empty: bool = field(init=False)  # nothing to multiply: no batch, or no input channels; y is then the bias
    is_tiny: bool = field(init=False)  # at most 4096 multiplications a pass: about a microsecond

    def __post_init__(self):
        object.__setattr__(self, "is_empty", self.x_shape[0] == 0 or self.x_shape[1] == 0)
        object.__setattr__(self, "is_tiny", prod(self.y_shape) * prod(self.w_shape[1:]) <= 4096)

    @property
    def of_x(self):
        """A problem whose y has the shape of this one's x: its grad bias is the sum of x over batch and space."""
        channels = self.x_shape[1]
        return problem_of(
            1, 0, 1, channels, "zeros", None, self.x_shape, (channels, 1, 1, 1, 1), None, False, False
        )  # fmt: skip


def _are_ints(a, b, c):
    return type(a) is int and type(b) is int and type(c) is int


def hashable(name, value, function="conv3d"):
    """An int, a str, or a tuple of ints, from what the caller passed as `name`. TypeError for anything else."""
    kind = type(value)
    if kind is int or kind is str or (kind is tuple and len(value) == 3 and _are_ints(*value)):
        return value
    try:
        if isinstance(value, (list, tuple)):
            return tuple(map(index, value))
        if not isinstance(value, bool):
            return index(value)
    except TypeError:
        pass
    raise TypeError(f"{function}(): argument '{name}': expected an int or ints, got {value!r}")


def checked_precision(precision):
    """precision, if it is one. ValueError otherwise."""
    if precision not in PRECISIONS:
        raise ValueError(f"precision must be one of {PRECISIONS}, but got {precision!r}")
    return precision


def _triple(name, value):
    if isinstance(value, int):
        return (value,) * 3
    if len(value) == 1:
        return value * 3
    if len(value) != 3:
        raise RuntimeError(
            f"expected {name} to be a single integer value or a list of 3 values to match the convolution "
            f"dimensions, but got {name}={list(value)}"
        )
    return value


def not_negative(name, value):
    """value as a triple. RuntimeError for other counts, and for negative ones."""
    triple = _triple(name, value)
    if min(triple) < 0:
        raise RuntimeError(f"negative {name} is not supported, got {name}={list(triple)}")
    return triple


def steps_of(stride, dilation):
    """(stride, dilation) as triples. RuntimeError for other counts, and for those below 1."""
    stride, dilation = _triple("stride", stride), _triple("dilation", dilation)
    if min(stride) <= 0:
        raise RuntimeError(f"non-positive stride is not supported, got stride={list(stride)}")
    if min(dilation) <= 0:
        raise RuntimeError(f"dilation should be greater than zero, got dilation={list(dilation)}")
    return stride, dilation


def _padding(padding, stride, dilation, kernel):
    """Low and high padding of each axis. 'same' puts the odd one at the end."""
    if padding == "valid":
        return (0, 0, 0), (0, 0, 0)
    if padding == "same":
        if stride != (1, 1, 1):
            raise RuntimeError(f"padding='same' is not supported for strided convolutions, got stride={list(stride)}")
        total = [l * (k - 1) for l, k in zip(dilation, kernel)]
        return tuple(t // 2 for t in total), tuple(t - t // 2 for t in total)
    if isinstance(padding, str):
        raise RuntimeError(f"Invalid padding string: expected 'same' or 'valid', got {padding!r}")
    triple = not_negative("padding", padding)
    return triple, triple


def check_dimensions(function, x_shape):
    if len(x_shape) != 5:
        raise RuntimeError(
            f"Expected 4D (unbatched) or 5D (batched) input to {function}, but got input of size: {list(x_shape)}"
        )


def check_weight(function, groups, x_shape, w_shape):
    """Its dimensions, and that the groups divide the first of them."""
    if groups <= 0:
        raise RuntimeError(f"non-positive groups is not supported, got groups={groups}")
    if len(w_shape) != 5:
        raise RuntimeError(
            f"Expected {len(w_shape)}-dimensional input for {len(w_shape)}-dimensional weight {list(w_shape)}, but got "
            f"{len(x_shape)}-dimensional input of size {list(x_shape)} instead; {function} takes 5-dimensional weights"
        )
    if w_shape[0] < groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be at least {groups} at dimension 0, but got weight of size "
            f"{list(w_shape)} instead"
        )
    if w_shape[0] % groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, but got weight of "
            f"size {list(w_shape)} instead"
        )


def check_channels(given, w_shape, x_shape, ci, b_shape, co):
    """Of the input and the bias: ci and co are those that fit `given`."""
    if x_shape[1] != ci:
        raise RuntimeError(
            f"Given {given}, weight of size {list(w_shape)}, expected input{list(x_shape)} to have {ci} channels, but "
            f"got {x_shape[1]} channels instead"
        )
    if b_shape is not None and b_shape != (co,):
        raise RuntimeError(
            f"Given {given}, weight of size {list(w_shape)}, expected bias to be 1-dimensional with {co} elements, but "
            f"got bias of size {list(b_shape)} instead"
        )


def _check_padding_fits(mode, spatial, lo, hi):
    if mode == "reflect":
        for axis, i, p in zip(("depth", "height", "width"), spatial, map(max, lo, hi)):
            if p >= i:
                raise RuntimeError(
                    f"padding_mode='reflect': expected padding of the {axis} axis to be less than its size {i}, got {p}"
                )


def _extents(spatial, kernel, stride, lo, hi, dilation):
    """Output extents. RuntimeError where a window does not fit, or a size does not fit 64 bits."""
    if min(kernel) <= 0:
        raise RuntimeError(f"kernel size should be greater than zero, but got: {list(kernel)}")
    if min(spatial) <= 0:
        raise RuntimeError(f"expected input with spatial sizes greater than zero, but got {list(spatial)}")
    padded = [i + p + q for i, p, q in zip(spatial, lo, hi)]
    window = [l * (k - 1) + 1 for l, k in zip(dilation, kernel)]
    if max(padded + window) > _INT64_MAX // 4 or max(stride) > _INT64_MAX:
        raise RuntimeError(
            f"expected padded input, kernel and stride to fit 64 bits, but got padded input {padded}, dilated kernel "
            f"{window}, stride {list(stride)}"
        )
    if any(w > p for w, p in zip(window, padded)):
        raise RuntimeError(
            f"Calculated padded input size per channel: ({' x '.join(map(str, padded))}). Kernel size: "
            f"({' x '.join(map(str, window))}). Kernel size can't be greater than actual input size"
        )
    return tuple((p - w) // s + 1 for p, w, s in zip(padded, window, stride))


@lru_cache(maxsize=4096)
def problem_of(stride, padding, dilation, groups, padding_mode, precision, x_shape, w_shape, b_shape, x_last, w_last):
    """The Problem of these (hashable) arguments. x_last, w_last: the tensor is laid out channels_last_3d.

    Errors, as torch raises them: RuntimeError for values and shapes; ValueError for an unknown mode or precision."""
    if padding_mode not in PADDING_MODES:
        raise ValueError(f"padding_mode must be one of {PADDING_MODES}, but got {padding_mode!r}")
    precision = checked_precision(precision or "auto")
    check_dimensions("conv3d", x_shape)
    check_weight("conv3d", groups, x_shape, w_shape)
    check_channels(f"groups={groups}", w_shape, x_shape, w_shape[1] * groups, b_shape, w_shape[0])
    stride, dilation = steps_of(stride, dilation)
    spatial, kernel = tuple(x_shape[2:]), tuple(w_shape[2:])
    lo, hi = _padding(padding, stride, dilation, kernel)
    extents = _extents(spatial, kernel, stride, lo, hi, dilation)
    _check_padding_fits(padding_mode, spatial, lo, hi)
    layout = {True: torch.channels_last_3d, False: torch.contiguous_format}
    codes = (PADDING_MODES.index(padding_mode), PRECISIONS.index(precision))
    return Problem(
        stride=stride,
        pad_lo=lo,
        pad_hi=hi,
        dilation=dilation,
        groups=groups,
        padding_mode=padding_mode,
        x_shape=torch.Size(x_shape),
        w_shape=torch.Size(w_shape),
        y_shape=torch.Size((x_shape[0], w_shape[0], *extents)),
        x_format=layout[x_last],
        w_format=layout[w_last],
        y_format=layout[x_last or w_last],
        geometry=(stride, lo, hi, dilation, groups, *codes),
    )


def is_channels_last(t):
    """Whether the strides of a tensor say channels_last_3d, judged by the axes longer than 1 alone: a tensor that could
    be read either way is not."""
    if t.is_contiguous():
        return False
    shape, stride = t.shape, t.stride()
    if len(shape) != 5 or shape[1] == 1:
        return False
    least = 1
    for axis in (1, 4, 3, 2, 0):
        if shape[axis] > 1:
            if stride[axis] < least:
                return False
            least = stride[axis] * shape[axis]
    return True
