#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the version: that of the public header, the only place that states it."""
import pathlib
import re

HEADER = pathlib.Path(__file__).resolve().parent.parent / "include/ogp/conv3d.h"


def main():
    text = HEADER.read_text(encoding="utf-8")
    parts = [re.search(rf"^#define OGP_VERSION_{part} (\d+)$", text, re.M).group(1)
             for part in ("MAJOR", "MINOR", "PATCH")]
    print(".".join(parts))


if __name__ == "__main__":
    main()
