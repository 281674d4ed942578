#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes an installed program one that can be unpacked anywhere: it gets its libraries but those of C, MPI, CUDA and
the driver.

bundle.py ROOT: ROOT holds bin/lockstep and share/ as `cmake --install` left them, and gets

  bin/lockstep                  start.sh, which starts the program and explains what a system lacks
  libexec/lockstep              the program
  lib/lockstep/*.so.*           its libraries, found by its rpath ($ORIGIN/../lib/lockstep)
  lib/lockstep/without_mpi/     a library in MPI's place, for one rank on a system without MPI
  share/doc/lockstep/licenses/  the libraries' own copyright files, where dpkg knows them
  share/doc/lockstep/needs.json glibc, mpi: what the system has to have; libraries: what is carried
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys

OF_THE_SYSTEM = re.compile(
    r"^(ld-linux.*|lib(c|m|dl|rt|pthread|resolv|util|mvec|anl|nsl)"  # glibc
    r"|lib(cuda|cu[a-z]+|cudnn[a-z_]*|nccl|nvrtc[a-z-]*|nvidia-[a-z]+|nvJitLink))\.so")
MPI = re.compile(r"^lib(mpi|mpich|mpi_cxx|mpicxx)\.so")
PACKAGING = pathlib.Path(__file__).resolve().parent
CHART_JS_NOTICE = re.compile(rb"/\*!\s*\* Chart\.js.*?\*/", re.DOTALL)


def output_of(*command):
    return subprocess.run(command, text=True, capture_output=True, check=True).stdout


def needed_by(file):
    return re.findall(r"\(NEEDED\).*\[(.*)\]", output_of("readelf", "--dynamic", "--wide", file))


def carried_libraries(program):
    """soname → file, of all that the program loads but for the system's; and the name of MPI's, or ''."""
    files = dict(re.findall(r"^\s*(\S+) => (/\S+)", output_of("ldd", program), re.MULTILINE))
    libraries, mpi, to_do = {}, "", [program]
    while to_do:
        for name in needed_by(to_do.pop()):
            if MPI.match(name):
                mpi = name
            elif name not in libraries and not OF_THE_SYSTEM.match(name):
                if name not in files:
                    sys.exit(f"bundle.py: {name}, which the program needs, was not found: {program} does not run here")
                libraries[name] = pathlib.Path(files[name])
                to_do.append(files[name])
    return dict(sorted(libraries.items())), mpi


def newest_glibc(files):
    """The newest version of glibc that one of the files needs symbols of, as (2, 36)."""
    versions = {(0, 0)}
    for file in files:
        needs = output_of("readelf", "--version-info", "--wide", file)
        versions |= {(int(major), int(minor)) for major, minor in re.findall(r"GLIBC_(\d+)\.(\d+)", needs)}
    return max(versions)


def copy_licenses(libraries, folder):
    """The copyright file of each library's package; names the libraries that no package of dpkg's holds."""
    unknown = []
    for name, file in libraries.items():
        answer = ""
        if shutil.which("dpkg-query"):
            # A file may be known by its path from before /lib became a link to /usr/lib.
            paths = {file, file.resolve(), *(pathlib.Path(str(path).removeprefix("/usr")) for path in
                                             (file, file.resolve()))}
            answer = subprocess.run(["dpkg-query", "--search", *map(str, paths)], text=True,
                                    capture_output=True).stdout
        package = answer.split(":")[0]
        copyright_file = pathlib.Path("/usr/share/doc") / package / "copyright"
        if package and copyright_file.exists():
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(copyright_file, folder / package)
        else:
            unknown.append(name)
    return unknown


def make_without_mpi(programs, mpi, folder):
    """A library that has all names that the programs take of MPI; any call but whether MPI runs ends the process."""
    rows = [row for program in programs
            for row in re.findall(r" U (\S+)", output_of("nm", "--dynamic", "--undefined-only", program))]
    names = sorted({row.split("@")[0] for row in rows if re.match(r"(P?MPIX?_|ompi_)", row)})
    source = (PACKAGING / "without_mpi.c").read_text()
    for name in names:
        if name in ("MPI_Initialized", "MPI_Finalized"):
            source += f"int {name}(int* flag) {{ return answer_no(flag); }}\n"
        elif name.startswith("ompi_"):
            source += f"char {name}[1024];\n"
        else:
            source += f'int {name}(void) {{ return end("{name}"); }}\n'
    folder.mkdir(parents=True)
    subprocess.run(["cc", "-x", "c", "-O2", "-s", "-shared", "-fPIC", f"-Wl,-soname,{mpi}", "-Wl,--build-id=none",
                    f'-DMPI_LIBRARY="{mpi}"', "-o", folder / mpi, "-"], input=source, text=True, check=True)


def main(root):
    root = pathlib.Path(root)
    program = root / "libexec/lockstep"
    program.parent.mkdir()
    (root / "bin/lockstep").rename(program)
    libraries, mpi = carried_libraries(program)

    folder = root / "lib/lockstep"
    folder.mkdir(parents=True)
    for name, file in libraries.items():
        shutil.copyfile(file, folder / name)
        (folder / name).chmod(0o644)
    if mpi:
        make_without_mpi([program], mpi, folder / "without_mpi")
    glibc = "{}.{}".format(*newest_glibc([program, *folder.rglob("*.so*")]))

    start = (PACKAGING / "start.sh").read_text().replace("@GLIBC@", glibc).replace("@MPI@", mpi)
    (root / "bin/lockstep").write_text(start)
    for file in (root / "bin/lockstep", program):
        file.chmod(0o755)

    documents = root / "share/doc/lockstep"
    text = program.read_bytes()
    notice = CHART_JS_NOTICE.search(text)  # for the pages of lockstep report
    if not notice and b"Chart.js Contributors" in text:
        sys.exit("bundle.py: the program holds Chart.js, and its licence notice has an unknown form")
    if notice:
        (documents / "licenses").mkdir(exist_ok=True)
        (documents / "licenses/chart.js").write_text(
            notice[0].decode() + "\n\n" + (PACKAGING / "mit_license.txt").read_text())
    for name in copy_licenses(libraries, documents / "licenses"):
        print(f"bundle.py: warning: no copyright file is known of {name}: add it before you give the archive away",
              file=sys.stderr)
    needs = {"glibc": glibc, "mpi": mpi, "libraries": list(libraries)}
    (documents / "needs.json").write_text(json.dumps(needs, indent=2) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
