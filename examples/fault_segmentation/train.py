# SPDX-License-Identifier: Apache-2.0
"""Trains a small fault segmentation network whose 3-D convolutions are those of this package.

    python train.py                                        synthetic volumes, made here
    python train.py --volume survey.sgy --labels faults.npy    your own

Writes section.png, loss.png and weights.pt to --output; prints the Dice coefficient and IoU on held-out data, and the time of
one training step of the same network with torch.nn.Conv3d beside it."""

import argparse
import time
from pathlib import Path

import figures
import numpy as np
import torch
from metrics import overlap
from network import FaultNet, bce_dice
from synthetic import make_volume
from tqdm import tqdm
from volume_io import read_pair

from oil_gas_ops_prospect.conv3d_custom import Conv3d


def arguments(given=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--volume", help="seismic volume, .npy or .sgy (inline, crossline, depth)")
    parser.add_argument("--labels", help="fault labels of the same shape, not 0 on a fault")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--volumes", type=int, default=10, help="synthetic volumes, of which a fifth is held out")
    parser.add_argument("--patches", type=int, default=16, help="training patches an epoch")
    parser.add_argument("--patch", type=int, default=48, help="side of a training patch, even")
    parser.add_argument("--extent", type=int, default=64, help="side of a synthetic volume, even")
    parser.add_argument("--width", type=int, default=8, help="channels of the first level")
    parser.add_argument("--rate", type=float, default=4e-3, help="learning rate")
    parser.add_argument("--threads", type=int, default=0, help="0: torch's own choice")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("demo-output"))
    parser.add_argument("--no-native", action="store_true", help="skip the timing of torch.nn.Conv3d")
    args = parser.parse_args(given)
    if bool(args.volume) != bool(args.labels):
        parser.error("--volume and --labels go together")
    if args.patch % 2 or args.extent % 2 or args.patch > args.extent and not args.volume:
        parser.error("--patch and --extent are even, and a patch fits its volume")
    if min(args.epochs, args.patches, args.patch, args.width) < 1 or args.volumes < 2:
        parser.error("--epochs, --patches, --patch and --width are at least 1, --volumes at least 2")
    return args


def load(args):
    """(training pairs, held-out pairs) of (seismic, labels) arrays."""
    if args.volume:
        seismic, labels = read_pair(args.volume, args.labels, args.patch)
        cut = max(args.patch, int(0.8 * seismic.shape[0]))
        held = slice(min(cut, seismic.shape[0] - args.patch), None)  # the last inlines; with little data they overlap
        return [(seismic[:cut], labels[:cut])], [(seismic[held], labels[held])]
    made = [make_volume(args.seed * 1000 + k, args.extent)
            for k in tqdm(range(args.volumes), desc="volumes", unit="volume")]
    held = max(1, args.volumes // 5)
    return made[:-held], made[-held:]


def tensor(array):
    return torch.from_numpy(np.ascontiguousarray(array)).float()[None, None]


def random_patch(rng, pairs, side):
    """A patch of a random volume at a random place, mirrored at random along the horizontal axes."""
    seismic, labels = pairs[rng.integers(len(pairs))]
    at = tuple(slice(first, first + side) for first in (rng.integers(n - side + 1) for n in seismic.shape))
    flips = [axis for axis in (0, 1) if rng.random() < 0.5]
    return tensor(np.flip(seismic[at], flips)), tensor(np.flip(labels[at], flips))


def even(array):
    """The array without the last element of axes of odd length."""
    return array[tuple(slice(0, n - n % 2) for n in array.shape)]


@torch.no_grad()
def evaluate(net, pairs):
    """(loss, Dice, IoU) over the held-out volumes, and the fault probability of the first."""
    logits = [net(tensor(even(seismic))) for seismic, _ in pairs]
    targets = [tensor(even(labels)) for _, labels in pairs]
    loss = sum(bce_dice(l, t).item() for l, t in zip(logits, targets)) / len(pairs)
    predicted = torch.cat([(l > 0).flatten() for l in logits])
    dice, iou = overlap(predicted, torch.cat([t.flatten() > 0 for t in targets]))
    return loss, dice, iou, logits[0].sigmoid()[0, 0].numpy()


def train_step(net, optimiser, seismic, labels):
    optimiser.zero_grad(set_to_none=True)
    loss = bce_dice(net(seismic), labels)
    loss.backward()
    optimiser.step()
    return loss.item()


def train(net, training, held_out, args):
    """Trains in place; returns the losses of the epochs, (training, held out)."""
    rng = np.random.default_rng(args.seed)
    optimiser = torch.optim.AdamW(net.parameters(), lr=args.rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, args.rate, total_steps=args.epochs * args.patches + 1)
    losses = [], []
    for epoch in range(args.epochs):
        start, total = time.perf_counter(), 0.0
        with tqdm(range(args.patches), desc=f"epoch {epoch + 1:2}/{args.epochs}", unit="patch", leave=False) as bar:
            for step in bar:
                total += train_step(net, optimiser, *random_patch(rng, training, args.patch))
                schedule.step()
                bar.set_postfix(loss=f"{total / (step + 1):.3f}")
        seconds = time.perf_counter() - start
        loss, dice, _, _ = evaluate(net, held_out)
        losses[0].append(total / args.patches)
        losses[1].append(loss)
        print(f"epoch {epoch + 1:2}/{args.epochs}  loss {losses[0][-1]:.4f}  held out {loss:.4f}  Dice {dice:.3f}  "
              f"{seconds:.1f} s", flush=True)
    return losses


def time_step(conv, state, patch, width):
    """Seconds of one training step of the network with this convolution layer and these weights."""
    net = FaultNet(conv, width)
    net.load_state_dict(state)
    optimiser = torch.optim.AdamW(net.parameters())
    start = time.perf_counter()
    train_step(net, optimiser, *patch)
    return time.perf_counter() - start


def compare(net, training, args):
    patch = random_patch(np.random.default_rng(args.seed), training, args.patch)
    state = net.state_dict()
    time_step(Conv3d, state, patch, args.width)  # warm-up
    ours = min(time_step(Conv3d, state, patch, args.width) for _ in range(3))
    native = time_step(torch.nn.Conv3d, state, patch, args.width)
    print(f"one training step on a patch of {args.patch}^3: {ours:.3f} s; the same network with torch.nn.Conv3d: "
          f"{native:.3f} s ({native / ours:.1f} times)")


def main(given=None):
    args = arguments(given)
    if args.threads:
        torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    training, held_out = load(args)
    net = FaultNet(Conv3d, args.width)
    parameters = sum(p.numel() for p in net.parameters())
    print(f"{len(training)} training volumes, {len(held_out)} held out, {parameters} parameters, "
          f"{torch.get_num_threads()} threads")
    losses = train(net, training, held_out, args)
    loss, dice, iou, probability = evaluate(net, held_out)
    args.output.mkdir(parents=True, exist_ok=True)
    seismic, labels = (even(a) for a in held_out[0])
    inline = int(np.argmax(labels.sum((1, 2))))
    figures.section(args.output / "section.png", seismic[inline], labels[inline], probability[inline],
                    f"held-out volume, inline {inline}: Dice {dice:.2f}, IoU {iou:.2f}")
    figures.loss_curve(args.output / "loss.png", *losses)
    torch.save(net.state_dict(), args.output / "weights.pt")
    print(f"held out: loss {loss:.4f}, Dice {dice:.3f}, IoU {iou:.3f}; pictures and weights in {args.output}/")
    if not args.no_native:
        compare(net, training, args)


if __name__ == "__main__":
    main()
