# SPDX-License-Identifier: Apache-2.0
"""What the modules share."""

from .problem import checked_precision


class WithPrecision:
    """The keyword `precision` of a module, shown by its repr only where it was given."""

    precision = None

    def __init__(self, *args, precision=None, **kwargs):
        super().__init__(*args, **kwargs)
        if precision is not None:
            self.precision = checked_precision(precision)

    def extra_repr(self):
        text = super().extra_repr()
        return text if self.precision is None else f"{text}, precision={self.precision!r}"
