# SPDX-License-Identifier: Apache-2.0
"""A short training of a small network, ours against native from the same start: both must converge, and alike."""

import torch
from bench_device import factor_rounding
from torch import nn

from oil_gas_ops_prospect.conv3d_custom import Conv3d, conv3d_backend

EPOCHS = 20


def _network(conv):
    return nn.Sequential(
        conv(1, 6, 3, padding=1),
        nn.LeakyReLU(0.1),
        conv(6, 6, 7, padding=3, groups=6, padding_mode="reflect"),
        nn.LeakyReLU(0.1),
        conv(6, 12, 3, padding=2, dilation=2, groups=2),
        nn.LeakyReLU(0.1),
        conv(12, 1, 1),
    )


def _data():
    """Volumes of noise and, as target, a fixed local function of them."""
    torch.manual_seed(4)
    x = torch.randn(8, 1, 10, 10, 10)
    smooth = nn.functional.avg_pool3d(nn.functional.pad(x, (1,) * 6, mode="replicate"), 3, stride=1)
    return x, 2 * smooth.relu() + 0.5 * x


def _train(network, x, target):
    optimiser = torch.optim.Adam(network.parameters(), lr=1e-2)
    losses = []
    for _ in range(EPOCHS):
        total = 0.0
        for volume, wanted in zip(x.split(2), target.split(2)):
            loss = nn.functional.mse_loss(network(volume), wanted)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            total += loss.item()
        losses.append(total / len(x.split(2)))
    return losses


def train(options):
    """Losses per epoch of both sides. Native always trains on the CPU; there ours takes the C core for every layer,
    since the rule would give some of layers this small to native and leave nothing to compare."""
    backend = "c" if options.device == "cpu" and options.backend == "auto" else options.backend
    x, target = _data()
    networks = {}
    for side, cls in (("ours", Conv3d), ("native", nn.Conv3d)):
        torch.manual_seed(3)
        networks[side] = _network(cls)
    networks["ours"].to(options.device)
    with conv3d_backend(backend):
        losses = {"ours": _train(networks["ours"], x.to(options.device), target.to(options.device))}
    losses["native"] = _train(networks["native"], x, target)
    converged = {side: values[-1] < 0.5 * values[0] for side, values in losses.items()}
    difference = max(abs(a - b) / b for a, b in zip(losses["ours"], losses["native"]))
    tolerance = max(0.01, 200 * factor_rounding(options.device))  # 20 epochs of steps, each by rounded gradients
    return {
        **losses,
        "backend": backend,
        "difference": difference,
        "converged": converged,
        "verdict": "PASS" if all(converged.values()) and difference < tolerance else "FAIL",
    }


def text(result):
    title = f"\ntraining of a small network, {EPOCHS} epochs, ours on {result['backend']}, loss per epoch:"
    lines = [title, "epoch       ours     native"]
    pairs = zip(result["ours"], result["native"])
    lines += [f"{epoch:>5} {a:>10.6f} {b:>10.6f}" for epoch, (a, b) in enumerate(pairs, 1)]
    for side in ("ours", "native"):
        verb = "converges" if result["converged"][side] else "does not converge"
        lines.append(f"{side} {verb}: {result[side][0]:.6f} -> {result[side][-1]:.6f}")
    lines.append(f"largest relative difference of a loss {result['difference']:.1e}: {result['verdict']}")
    return "\n".join(lines)
