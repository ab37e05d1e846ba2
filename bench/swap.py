# SPDX-License-Identifier: Apache-2.0
"""Replaces the convolutions of a network by ours, in place."""

from torch import nn

from oil_gas_ops_prospect.conv3d_custom import Conv3d, ConvTranspose3d

_OURS = {nn.Conv3d: Conv3d, nn.ConvTranspose3d: ConvTranspose3d}


def _ours(module):
    """Our module in place of a native one; parameters are the same objects. Hooks are not taken over."""
    more = {"output_padding": module.output_padding} if isinstance(module, nn.ConvTranspose3d) else {}
    new = _OURS[type(module)](
        module.in_channels, module.out_channels, module.kernel_size, module.stride, module.padding,
        dilation=module.dilation, groups=module.groups, bias=module.bias is not None,
        padding_mode=module.padding_mode, device="meta", **more,
    )  # fmt: skip
    new.weight, new.bias = module.weight, module.bias
    return new.train(module.training)


def swap(network):
    """Replaces each nn.Conv3d and nn.ConvTranspose3d below `network` (not subclasses of them), and returns how many.
    One that occurs twice stays one; weights, and optimisers that hold them, stay valid."""
    made = {}
    for parent in list(network.modules()):
        for name, child in parent.named_children():
            if type(child) in _OURS:
                if child not in made:
                    made[child] = _ours(child)
                setattr(parent, name, made[child])
    return len(made)
