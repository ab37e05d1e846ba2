# SPDX-License-Identifier: Apache-2.0
"""symbols.py NM HEADER LIBOGP.so KERNEL.a...: what the objects give and take.

The shared library exports the functions that the header declares and nothing else. A kernel object exports one table and
calls nothing but what a compiler makes of a copy.
"""
import pathlib
import re
import subprocess
import sys

KERNELS_MAY_CALL = {"memcpy", "memmove", "memset", "_GLOBAL_OFFSET_TABLE_"}


def names(nm, *args):
    lines = subprocess.run([nm, "-P", *args], check=True, capture_output=True, text=True).stdout.splitlines()
    return {line.split()[0].split("@")[0] for line in lines if " " in line}


def check(what, found, expected):
    """Prints what is too much and what is missing; the number of complaints."""
    extra, missing = sorted(found - expected), sorted(expected - found)
    if extra:
        print(f"{what}: expected nothing but {sorted(expected)}, also found {extra}")
    if missing:
        print(f"{what}: did not find {missing}")
    return len(extra) + len(missing)


def main(nm, header, library, *kernels):
    declared = set(re.findall(r"^OGP_API [^;(]*?(\w+)\(", pathlib.Path(header).read_text(encoding="utf-8"), re.M))
    wrong = check(library, names(nm, "-D", "--defined-only", library), declared)
    for kernel in kernels:
        table = pathlib.Path(kernel).stem.replace("libogp_", "ogp_kernels_")
        wrong += check(kernel, names(nm, "-g", "--defined-only", kernel), {table})
        wrong += check(f"calls of {kernel}", names(nm, "-u", kernel) - KERNELS_MAY_CALL, set())
    print(f"{len(declared)} functions, {len(kernels)} kernel objects, {wrong} complaints")
    return wrong != 0 or not declared or not kernels


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
