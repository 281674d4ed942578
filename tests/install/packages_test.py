#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes packages of a build and uses them as far as that goes without root and without a network.

packages_test.py archive|debs SOURCE BUILD WORK

archive  unpacked in another folder, the program runs with its own libraries, by a link as well; without MPI one rank
         trains and a rank of several is refused; the wheel has the archive's files and a RECORD that is right.
debs     files are where Debian has them, dependencies are named, no file is in both, find_package works.

tests/systems/packages.sh installs the same packages in bare systems.
"""
import base64
import csv
import gzip
import hashlib
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile


def run(*command, code=0, **variables):
    result = subprocess.run([str(word) for word in command], text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, env={**os.environ, **variables})
    if result.returncode != code:
        sys.exit(f"{command} ended with {result.returncode}, expected {code}:\n{result.stdout}")
    return result.stdout


def the(folder, pattern):
    found = list(folder.glob(pattern))
    if len(found) != 1:
        sys.exit(f"expected one {pattern} in {folder}, found {found}")
    return found[0]


def expect(condition, message):
    if not condition:
        sys.exit(message)


def libraries_of(program):
    return {row["name"]: row["file"] for row in json.loads(run(program, "--version", "--json"))["libraries"]}


def check_program(root, work):
    """The program takes its libraries from `root`, but for those of the system."""
    program = root / "bin/lockstep"
    needs = json.loads((root / "share/doc/lockstep/needs.json").read_text())
    loaded = libraries_of(program)
    expect("libstdc++.so.6" in needs["libraries"], needs)
    for name in needs["libraries"]:
        expect(loaded[name] == str(root / "lib/lockstep" / name), f"{name} is taken from {loaded[name]}")
    expect(not any(name.startswith(("libc.", "libmpi.")) for name in needs["libraries"]), needs)

    link = work / "elsewhere/lockstep"
    link.parent.mkdir()
    link.symlink_to(program)
    run(link, "train", "--ranks", "1", "--steps", "2", "--out", work / "linked")
    if needs["mpi"]:
        run(program, "train", "--ranks", "2", "--steps", "2", "--out", work / "two")
        summary = json.loads((work / "two/summary.json").read_text())
        expect(summary["ranks"] == 2, summary)
    return needs


def let_it_need(program, name, instead):
    """The program asks for the library `instead` in the place of `name`; both names are of one length."""
    content = program.read_bytes()
    entry = b"\0" + name.encode() + b"\0"
    expect(entry in content and len(name) == len(instead), f"{program} does not need {name}")
    program.write_bytes(content.replace(entry, b"\0" + instead.encode() + b"\0"))


def check_without_mpi(root, mpi, work):
    """As on a system without MPI: the program asks for a library that no system has."""
    absent = mpi.replace("mpi", "mpj")
    program = root / "libexec/lockstep"
    let_it_need(program, mpi, absent)
    start = root / "bin/lockstep"
    start.write_text(start.read_text().replace(mpi, absent))
    (root / "lib/lockstep/without_mpi" / mpi).rename(root / "lib/lockstep/without_mpi" / absent)

    run(start, "train", "--ranks", "1", "--steps", "2", "--out", work / "alone")
    output = run(start, "train", "--steps", "2", "--out", work / "several", code=3,
                 OMPI_COMM_WORLD_RANK="0", OMPI_COMM_WORLD_SIZE="2")
    expect("Open MPI" in output, output)

    let_it_need(program, "libz.so.1", "libq.so.1")
    output = run(start, "--version", code=3)
    expect("libq.so.1" in output and "hint:" in output, output)


def check_wheel(file, root):
    """RECORD is right, and the wheel holds the files of `root`, programs as such."""
    with zipfile.ZipFile(file) as wheel:
        names = wheel.namelist()
        record = next(name for name in names if name.endswith(".dist-info/RECORD"))
        rows = {row[0]: row for row in csv.reader(io.StringIO(wheel.read(record).decode()))}
        expect(sorted(rows) == sorted(names), "RECORD and the wheel name different files")
        for name, digest, size in rows.values():
            if name == record:
                continue
            content = wheel.read(name)
            own = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            expect(digest == f"sha256={own}" and int(size) == len(content), f"RECORD is wrong about {name}")
        data = {name.split(".data/data/")[1]: name for name in names if ".data/data/" in name}
        files = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
        expect(set(data) == files, set(data) ^ files)
        for name in ("bin/lockstep", "libexec/lockstep"):
            expect(wheel.getinfo(data[name]).external_attr >> 16 & 0o111, f"{name} is no program")
        tag = re.search(r"^Tag: (.*)$", wheel.read(record.replace("RECORD", "WHEEL")).decode(), re.MULTILINE)[1]
        expect(file.name.endswith(f"-{tag}.whl") and "-manylinux_2_" in tag, f"{file.name} has the tag {tag}")


def archive(source, build, work):
    run(source / "scripts/make_packages.sh", "--archive", "--wheel", build, work / "made")
    unpacked = work / "any folder"
    with tarfile.open(the(work / "made", "*.tar.gz")) as packed:
        packed.extractall(unpacked)
    root = the(unpacked, "lockstep-*").resolve()
    if b"Chart.js Contributors" in (root / "libexec/lockstep").read_bytes():
        text = (root / "share/doc/lockstep/licenses/chart.js").read_text()
        expect("Chart.js Contributors" in text and "Permission is hereby granted" in text, text)
    check_wheel(the(work / "made", "*.whl"), root)
    needs = check_program(root, work)
    if needs["mpi"]:
        check_without_mpi(root, needs["mpi"], work)


def debs(source, build, work):
    run(source / "scripts/make_packages.sh", "--debs", "--containers", build, work / "made")
    root = work / "root"
    held = {}
    for name in ("lockstep", "liblockstep-dev"):
        deb = the(work / "made", f"{name}_*.deb")
        held[name] = {line.split()[5] for line in run("dpkg-deb", "--contents", deb).splitlines()
                      if not line.startswith("d")}
        run("dpkg-deb", "--extract", deb, root)
        depends = run("dpkg-deb", "--field", deb, "Depends")
        for needed in (["libc6", "libfmt", "libstdc++6"] if name == "lockstep" else ["lockstep (= ", "libfmt-dev"]):
            expect(needed in depends, f"{name} depends on {depends}, not on {needed}")
        expect(f"./usr/share/doc/{name}/copyright" in held[name], f"{name} has no copyright")
    if b"Chart.js Contributors" in (root / "usr/bin/lockstep").read_bytes():
        text = (root / "usr/share/doc/lockstep/copyright").read_text()
        expect("Chart.js Contributors" in text and "Permission is hereby granted" in text, text)
    expect(not held["lockstep"] & held["liblockstep-dev"], held["lockstep"] & held["liblockstep-dev"])
    for file in ("bin/lockstep", "share/zsh/vendor-completions/_lockstep", "share/man/man1/lockstep.1.gz",
                 "share/fish/vendor_completions.d/lockstep.fish", "share/bash-completion/completions/lockstep"):
        expect(f"./usr/{file}" in held["lockstep"], f"lockstep lacks {file}")
    with gzip.open(root / "usr/share/man/man1/lockstep-train.1.gz", "rt") as page:
        expect(".SH OPTIONS" in page.read(), "lockstep-train(1) has no options")
    run(root / "usr/bin/lockstep", "train", "--ranks", "1", "--steps", "2", "--out", work / "run")
    run("cmake", "-S", source / "tests/install/consumer", "-B", work / "consumer", "-G", "Ninja",
        f"-DCMAKE_PREFIX_PATH={root}/usr")
    deb = the(work / "made", "lockstep_*.deb").name
    for file in ("Containerfile", "lockstep.def"):
        text = (work / "made" / file).read_text()
        expect(deb in text and not re.search("@[A-Z]+@", text), text)


def main(what, source, build, work):
    work = pathlib.Path(work).resolve()
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    {"archive": archive, "debs": debs}[what](pathlib.Path(source), pathlib.Path(build), work)
    shutil.rmtree(work)


if __name__ == "__main__":
    main(*sys.argv[1:])
