# SPDX-License-Identifier: Apache-2.0
"""A child process that runs the passes of one side, so that a crash, a hang or a hunger for memory stays contained."""

import contextlib
import multiprocessing
import resource
import signal

import torch
from bench_device import forbid_hf32, resident
from bench_passes import Passes
from patterns import SMALL


class Crash(Exception):
    """Why the child gave no answer: 'timeout', 'out of memory', or the text of the error."""


def _limit_memory(limit):
    with contextlib.suppress(ValueError, OSError):
        most = resident("VmSize") + limit
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _reason(error):
    text = str(error)
    if isinstance(error, MemoryError) or "allocate memory" in text or "out of memory" in text.lower():
        return "out of memory"
    return text.strip().splitlines()[0][:120] if text.strip() else type(error).__name__


def _end(code):
    if code == -signal.SIGKILL:
        return "SIGKILL, as the system does when out of memory"
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


def _warm_up(passes):
    """Starts what starts once: thread pools, the autograd engine, the libraries underneath."""
    for name in passes.names:
        passes.prepare(name)
        passes.run(name)
    torch.ones(1 << 20).mul(2.0)


def _serve(connection, kind, threads, backend, device, limit, hf32, make, small):
    torch.set_num_threads(threads)
    if not hf32:
        forbid_hf32(device)
    _warm_up(make(small, kind, backend, device))
    if limit:
        _limit_memory(limit)
    passes = None
    while True:
        try:
            command, *args = connection.recv()
        except EOFError:  # the parent is gone
            return
        try:
            if command == "build":
                passes = None
                passes = make(*args, kind, backend, device)
                answer = None
            elif command == "threads":
                answer = torch.set_num_threads(*args)
            else:
                answer = getattr(passes, command)(*args)
            connection.send(("ok", answer))
        except Exception as error:
            connection.send(("error", _reason(error)))


class Child:
    """One side. Starts when first needed and again after a crash; the pattern is then rebuilt.

    make(pattern, kind, backend, device) builds what runs there, an object with the methods and `names` of Passes; it is
    a function of a module. small is a pattern that it can build, to start from."""

    def __init__(
        self, kind, threads, backend="auto", device="cpu", memory_limit=0, hf32=True, make=Passes, small=SMALL
    ):
        self._args = (kind, threads, backend, device, memory_limit, hf32, make, small)
        self._survives = device == "cpu"  # after an error a device answers every later call with it
        self._process = None
        self._built = None

    def _start(self):
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, *self._args), daemon=True)
        self._process.start()
        theirs.close()

    def _ask(self, command, timeout):
        try:
            self._connection.send(command)
            if not self._connection.poll(timeout):
                self.stop()
                raise Crash("timeout")
            status, answer = self._connection.recv()
        except (EOFError, ConnectionError):
            self._process.join()
            code = self._process.exitcode
            self._process = None
            raise Crash(_end(code)) from None
        if status == "error":
            if not self._survives:
                self.stop()
            raise Crash(answer)
        return answer

    def build(self, pattern):
        """Makes the tensors of a pattern. Crash where even that fails."""
        self._built = pattern
        if self._process is None:
            self._start()
        self._ask(("build", pattern), None)

    def threads(self, count):
        self._ask(("threads", count), None)

    def call(self, method, *args, timeout=None):
        """What a method of the side's passes answers. Errors: Crash."""
        if self._process is None:
            self.build(self._built)
        return self._ask((method, *args), timeout)

    def run(self, name, calls=1, timeout=None):
        """(seconds, bytes) of Passes.run. `timeout` is of one call. Errors: Crash; another run may follow."""
        self.call("prepare", name, timeout=timeout)
        return self._ask(("run", name, calls), timeout and timeout * calls)

    def stop(self):
        """Ends the process. Tensors go with it."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None
