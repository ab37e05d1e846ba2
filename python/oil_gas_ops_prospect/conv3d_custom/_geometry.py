# SPDX-License-Identifier: Apache-2.0
"""Arguments of a convolution as one plain tuple, checked and cached."""

from functools import lru_cache

PADDING_MODES = ("zeros", "reflect", "replicate", "circular")
PRECISIONS = ("auto", "normwise", "elementwise")


def _triple(value, name):
    """An int, or a sequence of one or three ints, as three ints."""
    if isinstance(value, int):
        return (int(value),) * 3
    try:
        values = tuple(value)
    except TypeError:
        raise TypeError(f"conv3d(): {name}: expected an int or three ints, got {type(value).__name__}") from None
    if not all(isinstance(v, int) for v in values):
        raise TypeError(f"conv3d(): {name}: expected ints, got {value!r}")
    if len(values) not in (1, 3):
        raise RuntimeError(f"conv3d(): {name}: expected an int or three ints, got {len(values)} values")
    return tuple(int(v) for v in values) * (3 // len(values))


def _same(kernel, dilation):
    """Low and high padding that keep the extents under stride 1; the odd one goes to the high end."""
    total = tuple(d * (k - 1) for k, d in zip(kernel, dilation))
    low = tuple(t // 2 for t in total)
    return low, tuple(t - l for t, l in zip(total, low))


def _padding(padding, kernel, stride, dilation):
    if not isinstance(padding, str):
        low = _triple(padding, "padding")
        return low, low
    if padding == "valid":
        return (0, 0, 0), (0, 0, 0)
    if padding != "same":
        raise RuntimeError(f"conv3d(): padding: expected 'same', 'valid' or ints, got {padding!r}")
    if stride != (1, 1, 1):
        raise RuntimeError(f"conv3d(): padding='same' is not supported for strided convolutions, got stride {stride}")
    return _same(kernel, dilation)


@lru_cache(maxsize=4096, typed=True)
def _cached(stride, padding, dilation, groups, kernel, padding_mode, precision):
    stride, dilation = _triple(stride, "stride"), _triple(dilation, "dilation")
    low, high = _padding(padding, kernel, stride, dilation)
    for name, values, least in (("stride", stride, 1), ("dilation", dilation, 1), ("padding", low, 0)):
        if min(values) < least:
            raise RuntimeError(f"conv3d(): {name}: expected at least {least} on every axis, got {values}")
    if not isinstance(groups, int):
        raise TypeError(f"conv3d(): groups: expected an int, got {type(groups).__name__}")
    if groups < 1:
        raise RuntimeError(f"conv3d(): groups: expected a positive number, got {groups}")
    if min(kernel) < 1:
        raise RuntimeError(f"conv3d(): weight: expected a kernel of at least 1 on every axis, got {kernel}")
    if padding_mode not in PADDING_MODES:
        raise ValueError(f"conv3d(): padding_mode: expected one of {PADDING_MODES}, got {padding_mode!r}")
    if precision is not None and precision not in PRECISIONS:
        raise ValueError(f"conv3d(): precision: expected None or one of {PRECISIONS}, got {precision!r}")
    return (stride, low, high, dilation, groups, PADDING_MODES.index(padding_mode),
            0 if precision is None else PRECISIONS.index(precision))


def geometry(stride, padding, dilation, groups, kernel, padding_mode="zeros", precision=None):
    """The tuple (stride, pad_lo, pad_hi, dilation, groups, padding_mode, precision) that the core and the composite
    take: triples in the order depth, height, width; the last two as indices into PADDING_MODES and PRECISIONS.

    Raises RuntimeError for values out of range, ValueError for an unknown mode, TypeError for other types."""
    try:
        return _cached(stride, padding, dilation, groups, kernel, padding_mode, precision)
    except TypeError as error:
        if "unhashable" not in str(error):
            raise
    freeze = lambda value: value if isinstance(value, (int, str)) else tuple(value)
    return _cached(freeze(stride), freeze(padding), freeze(dilation), groups, kernel, padding_mode, precision)
