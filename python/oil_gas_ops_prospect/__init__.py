# SPDX-License-Identifier: Apache-2.0
"""Operators for training 3-D networks on seismic volumes."""

__version__ = "0.1.0"
