#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a Python wheel of what bundle.py made, so that pip puts `lockstep` on the PATH of an environment.

make_wheel.py ROOT VERSION FOLDER: writes FOLDER/lockstep-VERSION-py3-none-manylinux_G_MACHINE.whl and prints its name;
G is the glibc that the program needs. The wheel has no Python module: all of ROOT goes into the environment's own folder. Times are
SOURCE_DATE_EPOCH, so that two calls make equal bytes.
"""
import base64
import hashlib
import json
import os
import pathlib
import platform
import sys
import time
import zipfile

METADATA = """Metadata-Version: 2.1
Name: lockstep
Version: {version}
Summary: Data-parallel training of neural networks
License: Apache-2.0
Description-Content-Type: text/markdown

The program `lockstep`, with its libraries. Several ranks need Open MPI 4 or 5 on the system; one rank needs nothing.
`lockstep --help` names the commands, `lockstep man` prints the manual.
"""


def add(wheel, rows, name, content, executable=False):
    entry = zipfile.ZipInfo(name, time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", 0)), 315532800))[:6])
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = (0o100755 if executable else 0o100644) << 16
    wheel.writestr(entry, content, compresslevel=9)
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    rows.append(f"{name},sha256={digest},{len(content)}")


def main(root, version, folder):
    root = pathlib.Path(root)
    needs = json.loads((root / "share/doc/lockstep/needs.json").read_text())
    tag = f"py3-none-manylinux_{needs['glibc'].replace('.', '_')}_{platform.machine()}"
    path = pathlib.Path(folder) / f"lockstep-{version}-{tag}.whl"
    info = f"lockstep-{version}.dist-info"
    rows = []
    with zipfile.ZipFile(path, "w") as wheel:
        for file in sorted(path for path in root.rglob("*") if path.is_file()):
            add(wheel, rows, f"lockstep-{version}.data/data/{file.relative_to(root)}", file.read_bytes(),
                executable=bool(file.stat().st_mode & 0o100))
        add(wheel, rows, f"{info}/LICENSE", (root / "share/doc/lockstep/LICENSE").read_bytes())
        add(wheel, rows, f"{info}/METADATA", METADATA.format(version=version).encode())
        add(wheel, rows, f"{info}/WHEEL",
            f"Wheel-Version: 1.0\nGenerator: lockstep {version}\nRoot-Is-Purelib: false\nTag: {tag}\n".encode())
        record = f"{info}/RECORD"
        add(wheel, [], record, "".join(f"{row}\n" for row in [*rows, f"{record},,"]).encode())
    print(path)


if __name__ == "__main__":
    main(*sys.argv[1:])
