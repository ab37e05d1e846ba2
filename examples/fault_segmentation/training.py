# SPDX-License-Identifier: Apache-2.0
"""Steps, epochs, and the time of a step with another convolution."""

import time

import torch
from metrics import loss_of
from network import FaultNet
from patches import random_patch


def train_step(network, optimizer, seismic, labels):
    """One step of descent. The loss before it, a float."""
    network.train()
    optimizer.zero_grad(set_to_none=True)
    loss = loss_of(network(seismic), labels)
    loss.backward()
    optimizer.step()
    return loss.item()


class Trainer:
    """AdamW with a learning rate that rises for a tenth of the steps and then falls to zero along a cosine."""

    def __init__(self, network, rate, steps):
        self.network = network
        self.optimizer = torch.optim.AdamW(network.parameters())
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(self.optimizer, rate, total_steps=steps, pct_start=0.1)

    def epoch(self, rng, volumes, patch, steps, report):
        """The mean loss of `steps` random patches; report(loss) is called after each."""
        losses = []
        for _ in range(steps):
            losses.append(train_step(self.network, self.optimizer, *random_patch(rng, volumes, patch)))
            self.schedule.step()
            report(losses[-1])
        return sum(losses) / steps


def time_step(network, conv, seismic, labels, repeats):
    """(seconds, loss) of one training step of a copy of `network` with `conv` for its convolutions and the same weights;
    the best of `repeats`."""
    best = float("inf")
    for _ in range(repeats):
        copy = FaultNet(network.width, conv)
        copy.load_state_dict(network.state_dict())
        optimizer = torch.optim.AdamW(copy.parameters())
        start = time.perf_counter()
        loss = train_step(copy, optimizer, seismic, labels)
        best = min(best, time.perf_counter() - start)
    return best, loss
