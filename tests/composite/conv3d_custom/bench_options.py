# SPDX-License-Identifier: Apache-2.0
"""What command lines of benchmarks share: kinds of arguments, refusals before a long run, and a progress line."""

import argparse
import os
import sys
from pathlib import Path


def positive(kind):
    """A type for argparse: kind, above 0."""

    def parse(text):
        value = kind(text)
        if value <= 0:
            raise argparse.ArgumentTypeError(f"expected a number above 0, got {text}")
        return value

    return parse


def half_of_memory():
    """Of the machine, in GiB."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**31


def check_file(parser, name, path):
    """Refuses now what would lose the results of a long run at its end. path: what --name got, or None."""
    if path and not Path(path).resolve().parent.is_dir():
        parser.error(f"--{name}: expected a file in an existing folder, got {path!r}")


def listed(parser, name, text, known):
    """The names in `text`, divided by commas. Each is one of `known`, or the parser says so of --name and exits."""
    names = text.split(",")
    for each in names:
        if each not in known:
            parser.error(f"--{name}: expected some of {', '.join(known)}, got {each!r}")
    return names


class Progress:
    """What runs now, on standard error: rewritten in place on a terminal, else a line each."""

    def __init__(self):
        self._tty = sys.stderr.isatty()

    def __call__(self, text):
        print(f"\r\x1b[K{text}" if self._tty else text, end="" if self._tty else "\n", file=sys.stderr, flush=True)

    def show(self, text):
        """text on standard output, in place of the progress line."""
        if self._tty:
            self("")
        print(text, flush=True)
