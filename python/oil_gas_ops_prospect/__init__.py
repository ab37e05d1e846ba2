# SPDX-License-Identifier: Apache-2.0
"""Operators for training on large seismic volumes. `oil_gas_ops_prospect.conv3d_custom` holds Conv3d, ConvTranspose3d."""
