# SPDX-License-Identifier: Apache-2.0
"""Operators for training on large seismic volumes: Conv3d and ConvTranspose3d in `oil_gas_ops_prospect.conv3d_custom`."""
