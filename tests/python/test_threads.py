# SPDX-License-Identifier: Apache-2.0
"""Threads and processes: the same bits for any number of threads, from any thread, and after a fork."""

import multiprocessing
import threading

import pytest
import torch

from oil_gas_ops_prospect.conv3d_custom import Conv3d, conv3d_backend, core
from oil_gas_ops_prospect.conv3d_custom.functional import conv3d


@pytest.fixture(autouse=True)
def threads_restored():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def layer(c, kernel, size, mode="zeros", stride=1, groups=None, dtype=torch.float32):
    """A layer, its input and a gradient of its output, seeded."""
    torch.manual_seed(1)
    conv = Conv3d(c, c, kernel, stride=stride, padding=kernel // 2, groups=groups or c, padding_mode=mode, dtype=dtype)
    x = torch.randn(1, c, *size, dtype=dtype, requires_grad=True)
    return conv, x, torch.randn_like(conv(x))


def run(conv, x, gy):
    """y and all gradients."""
    with conv3d_backend("c"):
        y = conv(x)
    return [y.detach(), *torch.autograd.grad(y, (x, conv.weight, conv.bias), gy)]


def step(**arguments):
    return run(*layer(**arguments))


STEPS = [
    dict(c=24, kernel=3, size=(6, 6, 6), stride=2),
    dict(c=3, kernel=7, size=(20, 33, 35)),
    dict(c=5, kernel=5, size=(16, 20, 37), mode="reflect", dtype=torch.float64),
    dict(c=6, kernel=3, size=(12, 40, 33), groups=2),
]


@pytest.mark.parametrize("arguments", STEPS, ids=str)
def test_the_same_bits_for_any_number_of_threads(arguments):
    results = []
    for threads in (1, 2, 3, 5, 8, 32, 1):
        torch.set_num_threads(threads)
        results.append(step(**arguments))
    for other in results[1:]:
        for a, b in zip(results[0], other):
            assert torch.equal(a, b)


def test_more_problems_than_there_is_room_for_plans():
    """By turns from two threads: plans come and go while the other's are in use."""
    x, w = torch.randn(40, 40, 5, dtype=torch.float64), torch.randn(1, 1, 3, 2, 1, dtype=torch.float64)
    sizes = [(d, h, 1 + d % 5) for d in range(3, 40) for h in range(2, 40)]
    volumes = [x[None, None, :d, :h, :width] for d, h, width in sizes]
    want = [torch.nn.functional.conv3d(volume, w) for volume in volumes]
    wrong = []

    def work(order):
        for k in order:
            error = (conv3d(volumes[k], w) - want[k]).abs().max()
            if not error <= 1e-13:
                wrong.append((sizes[k], error))

    count = len(sizes)
    assert count > 1024
    orders = [[*range(count)] * 2, [*range(count - 1, -1, -1)] * 2]
    workers = [threading.Thread(target=work, args=(order,)) for order in orders]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_eight_python_threads():
    layers = [layer(**arguments) for arguments in STEPS]
    small = [(torch.randn(1, 2, 5, 6, 7 + k), torch.randn(2, 1, 3, 3, 3)) for k in range(8)]
    expected = [run(*operands) for operands in layers]
    expected_small = [conv3d(x, w, groups=2) for x, w in small]
    failures = []

    def work(first):
        try:
            for k in range(12):
                which = (first + k) % len(layers)
                if not torch.equal(conv3d(*small[first], groups=2), expected_small[first]):
                    failures.append(("small", first))
                for a, b in zip(run(*layers[which]), expected[which]):
                    if not torch.equal(a, b):
                        failures.append((which, first))
        except Exception as error:  # a thread's own would be lost
            failures.append(error)

    workers = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    assert not failures


def test_one_module_from_eight_threads():
    conv = Conv3d(4, 4, 5, padding=2, groups=4).requires_grad_(False)
    volumes = [torch.randn(1, 4, 6 + k, 9, 16 + k) for k in range(8)]
    expected = [conv(x) for x in volumes]
    results = [[] for _ in volumes]

    def work(k):
        for _ in range(25):
            results[k].append(torch.equal(conv(volumes[k]), expected[k]))

    workers = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    assert all(len(r) == 25 and all(r) for r in results)


def _child(queue):
    queue.put([t.numpy() for t in step(**STEPS[1])])


@pytest.mark.parametrize("threads", [1, 2])
def test_after_a_fork(threads):
    torch.set_num_threads(threads)
    expected = step(**STEPS[1])
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_child, args=(queue,), daemon=True)
    child.start()
    try:
        results = queue.get(timeout=60)
    finally:
        child.join(10)
        if child.is_alive():
            child.kill()
    for a, b in zip(results, expected):
        assert torch.equal(torch.from_numpy(a), b)
    assert torch.equal(step(**STEPS[1])[0], expected[0])


def test_the_threads_of_torch_are_honoured(monkeypatch):
    """In the forward and in the backward, which autograd may run elsewhere."""
    operands = layer(**STEPS[0])
    asked = []
    for name in ("forward", "grad_input", "grad_weight"):
        original = getattr(core._core, name)
        spy = lambda *args, original=original: asked.append(args[-1]) or original(*args)
        monkeypatch.setattr(core._core, name, spy)
    torch.set_num_threads(1)
    run(*operands)
    assert asked == [1, 1, 1]


def test_repeated_steps_give_the_same_bits():
    torch.use_deterministic_algorithms(True)
    try:
        first = step(**STEPS[2])
        for _ in range(19):
            assert all(torch.equal(a, b) for a, b in zip(step(**STEPS[2]), first))
    finally:
        torch.use_deterministic_algorithms(False)
