# SPDX-License-Identifier: Apache-2.0
"""count.py FOLDER [STEP=STATUS...]: sums the JUnit files below FOLDER and prints a last line "N passed, N failed".

A step whose exit status is not 0 although none of the files reports a failure counts as one failure. Exits with 1 after a
failure, and where nothing was run at all.
"""
import pathlib
import sys
import xml.etree.ElementTree as ElementTree


def outcomes(file):
    """(passed, failed, skipped) of one JUnit file."""
    passed = failed = skipped = 0
    for case in ElementTree.parse(file).iter("testcase"):
        tags = {child.tag for child in case}
        failed += bool(tags & {"failure", "error"})
        skipped += "skipped" in tags and not tags & {"failure", "error"}
        passed += not tags & {"failure", "error", "skipped"}
    return passed, failed, skipped


def main(folder, *steps):
    passed = failed = skipped = 0
    for file in sorted(pathlib.Path(folder).rglob("*.xml")):
        p, f, s = outcomes(file)
        print(f"{file.stem:>12}: {p} passed, {f} failed, {s} skipped")
        passed, failed, skipped = passed + p, failed + f, skipped + s
    broken = [step for step in steps if not step.endswith("=0")]
    for step in broken:
        print(f"make {step.split('=')[0]} ended with status {step.split('=')[1]}")
    failed = max(failed, len(broken))
    print(f"{passed} passed, {failed} failed")
    return failed > 0 or passed == 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
