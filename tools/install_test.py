# SPDX-License-Identifier: Apache-2.0
"""install_test.py BUILD HELLO.c MESON... -- CC...: installs the library and builds a user's program against it.

The program has to print the line below, linked with the shared and with the static library. Where pkg-config is missing,
the flags are written by hand.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

EXPECTED = ": 8 at a corner, 27 inside\n"


def said(*command, **environment):
    return subprocess.run(command, env={**os.environ, **environment}, check=True, stdout=subprocess.PIPE, text=True).stdout


def flags(root, libdir):
    """Flags to compile, and to link with the shared and with the static library."""
    tool = shutil.which("pkg-config")
    if not tool:
        (header,) = root.rglob("ogp/conv3d.h")
        return [f"-I{header.parent.parent}"], [f"-L{libdir}", "-logp"], [f"{libdir}/libogp.a", "-lm", "-pthread"]
    where = {"PKG_CONFIG_PATH": f"{libdir}/pkgconfig", "PKG_CONFIG_SYSROOT_DIR": str(root)}
    static = said(tool, "--static", "--libs", "ogp", **where).replace("-logp", f"{libdir}/libogp.a")
    return said(tool, "--cflags", "ogp", **where).split(), said(tool, "--libs", "ogp", **where).split(), static.split()


def main(build, hello, *commands):
    at = commands.index("--")
    meson, cc = commands[:at], commands[at + 1:]
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        said(*meson, "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", folder)
        (libdir,) = {path.parent for path in root.rglob("libogp.a")}
        compiling, shared, static = flags(root, libdir)
        wrong = 0
        for name, link in (("shared", shared), ("static", static)):
            program = f"{folder}/hello_{name}"
            said(*cc, "-std=c17", "-Wall", "-Wextra", "-Werror", *compiling, hello, *link, "-o", program)
            line = said(program, **({"LD_LIBRARY_PATH": str(libdir)} if name == "shared" else {}))
            print(f"{name}: {line}", end="")
            wrong += not line.endswith(EXPECTED)
        return wrong


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
