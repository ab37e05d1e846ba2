# SPDX-License-Identifier: Apache-2.0
"""The definition of the convolution and its gradients in float64, at single positions of tensors of any size.

Each function returns (value, mass): the sum, and the sum of the absolute terms. Nothing here shares code with what it
judges: windows and their adjoints are found by asking the padding map about every position."""

import torch


def _border(position, extent, mode):
    """Positions inside [0, extent) that the padding mode reads for these, and whether it reads at all."""
    inside = (position >= 0) & (position < extent)
    if mode == "reflect":
        position = position.abs()
        position = torch.where(position >= extent, 2 * (extent - 1) - position, position)
    elif mode == "circular":
        position = position % extent
    read = inside if mode == "zeros" else torch.ones_like(inside)
    return position.clamp(0, extent - 1), read


def _spans(pattern, outputs, taps):
    """Per axis: (source positions, mask) of window positions o*s + t*l - p."""
    for axis, extent in enumerate((pattern.d, pattern.h, pattern.w)):
        position = outputs[axis] * pattern.stride[axis] + taps[axis] * pattern.dilation[axis] - pattern.padding[axis]
        yield _border(torch.as_tensor(position), extent, pattern.padding_mode)


def _gather(volume, index):
    """volume (C, D, H, W) at the product of three index vectors, in float64."""
    for axis, at in enumerate(index):
        volume = volume.index_select(axis + 1, at)
    return volume.double()


def _masked(volume, masks):
    d, h, w = masks
    return volume * (d[:, None, None] & h[:, None] & w)


def _sums(terms):
    return float(terms.sum()), float(terms.abs().sum())


def y_at(pattern, x, w, b, at):
    """Output at = (n, co, o, o, o)."""
    n, co, *o = at
    index, masks = zip(*_spans(pattern, o, [torch.arange(k) for k in pattern.kernel]))
    per_group = pattern.cin // pattern.groups
    first = co // (pattern.cout // pattern.groups) * per_group
    window = _masked(_gather(x[n, first : first + per_group], index), masks)
    value, mass = _sums(window * w[co].double())
    return value + float(b[co]), mass + abs(float(b[co]))


def gx_at(pattern, gy, w, at):
    """Input gradient at = (n, ci, i, i, i): every (tap, output) whose window position the padding maps onto i."""
    n, ci, *i = at
    taps, outputs = [], []
    for axis, extent in enumerate((pattern.d, pattern.h, pattern.w)):
        t = torch.arange(pattern.kernel[axis])[:, None]
        o = torch.arange(pattern.y_shape[2 + axis])
        position = o * pattern.stride[axis] + t * pattern.dilation[axis] - pattern.padding[axis]
        source, read = _border(position, extent, pattern.padding_mode)
        tap, output = torch.nonzero((source == i[axis]) & read, as_tuple=True)
        taps.append(tap)
        outputs.append(output)
    co_group, ci_group = pattern.cout // pattern.groups, pattern.cin // pattern.groups
    first = ci // ci_group * co_group
    channels = slice(first, first + co_group)
    return _sums(_gather(gy[n, channels], outputs) * _gather(w[channels, ci % ci_group], taps))


def gw_at(pattern, x, gy, at):
    """Weight gradient at = (co, ci in its group, t, t, t), in slabs of depth to stay small."""
    co, ci, *t = at
    ci += co // (pattern.cout // pattern.groups) * (pattern.cin // pattern.groups)
    value = mass = 0.0
    for n in range(pattern.n):
        for slab in torch.arange(pattern.y_shape[2]).split(64):
            outputs = [slab, *(torch.arange(extent) for extent in pattern.y_shape[3:])]
            index, masks = zip(*_spans(pattern, outputs, t))
            window = _masked(_gather(x[n, ci : ci + 1], index), masks)
            sums = _sums(window * gy[n, co, slab].double())
            value, mass = value + sums[0], mass + sums[1]
    return value, mass


def gb_at(pattern, gy, co):
    """Bias gradient of channel co."""
    slabs = [_sums(gy[:, co, slab].double()) for slab in torch.arange(pattern.y_shape[2]).split(64)]
    return tuple(map(sum, zip(*slabs)))
