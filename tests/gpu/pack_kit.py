#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Gathers the GPU kit in a folder that can be unpacked anywhere; bundle.sh packs it.

  pack_kit.py PROGRAMS FOLDER --device gpu|emulated --commit COMMIT [--mpi auto|none]

PROGRAMS is a build's tests/gpu/programs_*.txt. FOLDER gets

  run.sh, kit.txt, programs.txt   how to begin, what it is, where the programs are
  bin/, lib/lockstep/             the programs, and their libraries but those of C, CUDA and the driver
  mpi/                            Open MPI, or in lib/lockstep/without_mpi a library in its place
  tests/, docs/, README.md, data/ scripts, PyTorch's values, texts
  licenses/                       of the libraries
"""
import argparse
import ast
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys

PROJECT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT / "packaging"))
import bundle  # noqa: E402

SCRIPTS = ["tests/gpu/*.sh", "tests/gpu/*.py", "tests/benchmarks/*.py", "docs/*.md", "README.md", "LICENSE",
           # Models that tests/benchmarks takes from there.
           *(f"tests/reference/{name}_model.py" for name in ("airbench", "mobilenet", "vit"))]
GOLDENS = "tests/reference/goldens"
BEGIN = """#!/usr/bin/env bash
exec bash "$(dirname "$(readlink -f "$0")")/tests/gpu/run.sh" "$@"
"""
# Of Open MPI 4: what is relative to its prefix. PMIx has other names for it from version to version.
MPI_ENVIRONMENT = """# Sourced with the folder as argument: Open MPI, moved there.
export OPAL_PREFIX=$1 PMIX_PREFIX=$1/pmix PMIX_INSTALL_PREFIX=$1/pmix
export PATH=$1/bin:$PATH OMPI_MCA_plm=isolated OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader,tcp
export PMIX_MCA_pcompress_base_silence_warning=1
"""
# Of networks and debuggers that one machine does not need.
NO_PLUGIN = re.compile(r"_(ofi|ucx|psm2?|usnic|openib|libnl|ucc|hcoll|monitoring|memkind|lustre|gpfs|cuda)\b")


def copy(file, to, mode=0o644):
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, to)
    to.chmod(mode)


def strip(file):
    subprocess.run(["strip", "--strip-unneeded", str(file)], check=True)


def copy_programs(listed, folder):
    """The program files in the folder."""
    lines, files = [], []
    for line in listed.read_text().splitlines():
        name, file = line.split(" ", 1)
        if not os.path.exists(file):
            sys.exit(f"pack_kit: {file} is not built: build the target that {listed.name} belongs to")
        place = f"lib/lockstep/{name}" if name.endswith(".so") else f"bin/{name}"
        copy(file, folder / place, 0o755)
        strip(folder / place)
        lines.append(f"{name} {place}\n")
        files.append(pathlib.Path(file))
    (folder / "programs.txt").write_text("".join(lines))
    return files


def libraries_of(files):
    """({soname: file} of all that they need but the system's, sonames of MPI itself: of C first)"""
    libraries, mpi = {}, set()
    for file in files:
        libraries.update(bundle.carried_libraries(file)[0])
        mpi.update(name for name in bundle.needed_by(file) if bundle.MPI.match(name))
    return libraries, sorted(mpi)


def open_mpi():
    """Paths of the Open MPI 4 that is installed here, or None."""
    info = shutil.which("ompi_info")
    if not info or not shutil.which("mpirun"):
        return None
    rows = dict(re.findall(r"^path:(\w+):(.*)$", bundle.output_of(info, "--path", "all", "--parsable"), re.MULTILINE))
    version = bundle.output_of(info, "--version").split()[2]
    return rows if version.startswith("v4.") and rows.get("pkglibdir", "").startswith(rows["prefix"]) else None


def pack_mpi(paths, mpi, folder):
    """Open MPI below folder, at the same paths as below its prefix; returns its files, as they are installed."""
    prefix, plugins = pathlib.Path(paths["prefix"]), pathlib.Path(paths["pkglibdir"])
    starter = pathlib.Path(shutil.which("mpirun")).resolve()
    for name in ("mpirun", "orterun", "orted"):
        copy(starter.parent / ("orted" if name == "orted" else starter.name), folder / "bin" / name, 0o755)
    shutil.copytree(paths["pkgdatadir"], folder / pathlib.Path(paths["pkgdatadir"]).relative_to(prefix))
    files = [starter, starter.parent / "orted"]
    for plugin in sorted(plugins.glob("*.so")):
        if not NO_PLUGIN.search(plugin.stem):
            copy(plugin, folder / plugins.relative_to(prefix) / plugin.name)
            files.append(plugin)
    known = dict(re.findall(r"^\s*(\S+) .*=> (/\S+)$", bundle.output_of("/sbin/ldconfig", "-p"), re.MULTILINE))
    for name in mpi:
        library = pathlib.Path(known[name]).resolve()
        copy(library, folder / "lib" / name)
        files.append(library)
    # The PMIx of the distribution is a package of its own, with plugins.
    if pmix := known.get("libpmix.so.2"):
        home = pathlib.Path(pmix).resolve().parents[1]
        home = home if (home / "lib/pmix").is_dir() else home / "pmix2"
        for plugin in sorted(home.glob("**/pmix/*.so")):
            copy(plugin, folder / "pmix" / plugin.relative_to(home))
            files.append(plugin)
        for text in home.glob("share/**/*.txt"):
            copy(text, folder / "pmix" / text.relative_to(home))
    (folder / "environment.sh").write_text(MPI_ENVIRONMENT)
    return files


def packed_scripts():
    return [file for pattern in SCRIPTS for file in sorted(PROJECT.glob(pattern))]


def imported_names(script):
    """Top-level names of the modules that it imports, wherever in it."""
    for node in ast.walk(ast.parse(script.read_text(), str(script))):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.split(".")[0]


def missing_imports(scripts):
    """Lines 'SCRIPT imports MODULE': modules of tests/ that are imported by scripts and not among them."""
    modules = {}
    for file in sorted((PROJECT / "tests").rglob("*.py")):
        modules.setdefault(file.stem, []).append(file)
    lines = []
    for script in (file for file in scripts if file.suffix == ".py"):
        for name in sorted(set(imported_names(script)) - sys.stdlib_module_names):
            # The script's own folder comes first, as in Python; what others it adds is not known here.
            beside = [file for file in modules.get(name, []) if file.parent == script.parent]
            places = beside or modules.get(name, [])
            if places and not set(places) & set(scripts):
                lines.append(f"{script.relative_to(PROJECT)} imports {places[0].relative_to(PROJECT)}")
    return lines


def copy_scripts(folder):
    for file in packed_scripts():
        copy(file, folder / file.relative_to(PROJECT), 0o755 if file.suffix in (".sh", ".py") else 0o644)
    shutil.copytree(PROJECT / GOLDENS, folder / GOLDENS)
    (folder / "run.sh").write_text(BEGIN)
    (folder / "run.sh").chmod(0o755)
    data = pathlib.Path(os.environ.get("LOCKSTEP_TEST_DATA", "/nonexistent"))
    (folder / "data").mkdir()
    for name in ("tinyshakespeare.txt",):
        if (data / name).exists():
            copy(data / name, folder / "data" / name)
        else:
            print(f"pack_kit: warning: no {data / name}: compare-nanogpt-char will not be measured", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--device", choices=["gpu", "emulated"], required=True)
    parser.add_argument("--commit", required=True)
    parser.add_argument("--mpi", choices=["auto", "none"], default="auto")
    options = parser.parse_args()
    # Only a machine with PyTorch runs into it, and that is too late.
    if missing := missing_imports(packed_scripts()):
        sys.exit("\n".join(f"pack_kit: {line}, which SCRIPTS lacks" for line in missing))
    folder = options.folder
    folder.mkdir(parents=True)
    files = copy_programs(options.programs, folder)
    libraries, mpi = libraries_of(files)
    paths = open_mpi() if mpi and options.mpi == "auto" else None
    sources = dict(libraries)
    if paths:
        of_mpi = pack_mpi(paths, mpi, folder / "mpi")
        for name, file in libraries_of(of_mpi)[0].items():
            copy(file, folder / "mpi/lib" / name)
            sources[name] = file
        sources.update({file.name: file for file in of_mpi})
    elif mpi:
        bundle.make_without_mpi(files, mpi[0], folder / "lib/lockstep/without_mpi")
    for name, file in libraries.items():
        copy(file, folder / "lib/lockstep" / name)
    for file in sorted(folder.rglob("*.so*")):
        strip(file)
    for name in bundle.copy_licenses(sources, folder / "licenses"):
        print(f"pack_kit: warning: no copyright file is known of {name}", file=sys.stderr)
    copy_scripts(folder)
    glibc = "{}.{}".format(*bundle.newest_glibc([*(folder / "bin").iterdir(), *folder.rglob("*.so*")]))
    facts = {"commit": options.commit, "device": options.device, "glibc": glibc,
             "system": platform.freedesktop_os_release()["PRETTY_NAME"],
             "mpi": "packed" if paths else "a library in its place" if mpi else "built without"}
    (folder / "kit.txt").write_text("".join(f"{name} {value}\n" for name, value in facts.items()))
    for name, value in facts.items():
        print(f"{name}: {value}")
    print(f"libraries: {' '.join(sorted(libraries))}")


if __name__ == "__main__":
    main()
