# SPDX-License-Identifier: Apache-2.0
"""The eleven call patterns of the benchmark: the 3-D convolutions of a seismic network in training.

Stem, pointwise, depthwise, strided, dilated, grouped, dense, padded by another mode, head. train04 and train05 are the
depthwise ones whose native backward crawls on CPUs; on NPUs that of train05 is refused, and that of train04 where the
width is 296."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Pattern:
    """One convolution. Triples are (depth, height, width); n, d, h, w are the batch and the input's extents. precision is
    how ours may round."""

    name: str
    cin: int
    cout: int
    kernel: tuple[int, int, int]
    stride: tuple[int, int, int]
    padding: tuple[int, int, int]
    dilation: tuple[int, int, int]
    groups: int
    padding_mode: str
    n: int
    d: int
    h: int
    w: int
    precision: str = "auto"

    @property
    def x_shape(self):
        return (self.n, self.cin, self.d, self.h, self.w)

    @property
    def w_shape(self):
        return (self.cout, self.cin // self.groups, *self.kernel)

    @property
    def y_shape(self):
        extents = zip((self.d, self.h, self.w), self.kernel, self.stride, self.padding, self.dilation)
        return (self.n, self.cout, *((i + 2 * p - l * (k - 1) - 1) // s + 1 for i, k, s, p, l in extents))

    def scaled(self, scale):
        """The same pattern with depth and height shrunk by `scale`, but never below what a window needs."""

        def shrink(axis, extent):
            window = self.dilation[axis] * (self.kernel[axis] - 1) + 1
            return max(window, self.padding[axis] + 1, round(extent * scale))

        return replace(self, d=shrink(0, self.d), h=shrink(1, self.h))


def _cubic(name, cin, cout, k, stride, padding, dilation, groups, padding_mode, d, h, w):
    triples = ((v,) * 3 for v in (k, stride, padding, dilation))
    return Pattern(name, cin, cout, *triples, groups, padding_mode, 1, d, h, w)


PATTERNS = [
    # name                      cin cout k  s  p  l  g  padding_mode  d    h    w
    _cubic("train01_stem_k3_g1", 1, 7, 3, 1, 1, 1, 1, "zeros", 296, 296, 168),
    _cubic("train02_pw_k1_g1", 7, 7, 1, 1, 0, 1, 1, "zeros", 296, 296, 168),
    _cubic("train03_dw_k5_g7", 7, 7, 5, 1, 2, 1, 7, "zeros", 296, 296, 168),
    _cubic("train04_dw_k7_g7", 7, 7, 7, 1, 3, 1, 7, "zeros", 296, 296, 168),
    _cubic("train05_dw_k9_g7", 7, 7, 9, 1, 4, 1, 7, "zeros", 296, 296, 168),
    _cubic("train06_down_k2_s2", 7, 14, 2, 2, 0, 1, 1, "zeros", 296, 296, 168),
    _cubic("train07_conv_k3_g1", 14, 14, 3, 1, 1, 1, 1, "zeros", 160, 160, 168),
    _cubic("train08_dil_k3_d2", 14, 14, 3, 1, 2, 2, 1, "zeros", 160, 160, 168),
    _cubic("train09_grp_k3_g2", 14, 28, 3, 2, 1, 1, 2, "zeros", 160, 160, 168),
    _cubic("train10_refl_k7_g14", 14, 14, 7, 1, 3, 1, 14, "reflect", 160, 160, 168),
    _cubic("train11_head_k1_g1", 14, 1, 1, 1, 0, 1, 1, "zeros", 296, 296, 168),
]

# Hardly any work: what a call costs by itself.
SMALL = _cubic("small_k3", 1, 1, 3, 1, 1, 1, 1, "zeros", 4, 4, 4)
