#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Installs a build and looks for the folders of its source and its build in every installed file.

no_build_paths.py CMAKE SOURCE BUILD WORK: 1, naming the files, where one has such a path, or where a
program would look for libraries in a folder that is not absolute.
"""
import pathlib
import re
import shutil
import subprocess
import sys


def text_at(content, position):
    """What can be read around `position`."""
    begin = end = position
    while begin > 0 and 32 <= content[begin - 1] < 127:
        begin -= 1
    while end < len(content) and 32 <= content[end] < 127:
        end += 1
    return content[begin:end].decode()


def findings_in(file, folders):
    content = file.read_bytes()
    for folder in folders:
        at = content.find(folder.encode() + b"/")
        if at >= 0:
            yield f"{file} holds the path {text_at(content, at)}"
    if not content.startswith(b"\x7fELF"):
        return
    dynamic = subprocess.run(["readelf", "--dynamic", "--wide", file], text=True, capture_output=True,
                             check=True).stdout
    for path in re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", dynamic):
        for folder in path.split(":"):
            if not folder.startswith(("/", "$ORIGIN")):
                yield f"{file} looks for libraries in '{folder}' (of {path})"


def main(cmake, source, build, work):
    work = pathlib.Path(work)
    shutil.rmtree(work, ignore_errors=True)
    subprocess.run([cmake, "--install", build, "--prefix", work], check=True, stdout=subprocess.DEVNULL)
    files = [path for path in sorted(work.rglob("*")) if path.is_file()]
    if work / "bin/lockstep" not in files:
        sys.exit(f"{work}/bin/lockstep was not installed")
    findings = [finding for file in files for finding in findings_in(file, {source, build})]
    for finding in findings:
        print(finding)
    print(f"{len(files)} files, {len(findings)} findings")
    shutil.rmtree(work)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
