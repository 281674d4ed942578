# SPDX-License-Identifier: Apache-2.0
"""Finds a Python with PyTorch for compare_pytorch.py, or makes one."""
import shutil
import subprocess
import sys

from rank_processes import say


def torch_version(python):
    probe = subprocess.run([python, "-c", "import torch; print(torch.__version__)"],
                           capture_output=True, text=True)
    return probe.stdout.strip() if probe.returncode == 0 else None


def succeeds(step, command):
    """Whether `command` does; says which step failed where it does not."""
    code = subprocess.run(command, stdout=sys.stderr, check=False).returncode
    if code != 0:
        say(f"{step} failed with exit code {code}: {' '.join(command)}")
    return code == 0


def make_venv(venv):
    """Whether `venv` has a Python now; what was half made is removed."""
    python = venv / "bin" / "python"
    if python.exists():
        return True
    existed = venv.exists()
    say(f"making {venv}")
    if succeeds("making the virtual environment", [sys.executable, "-m", "venv", str(venv)]):
        return True
    if not existed:
        shutil.rmtree(venv, ignore_errors=True)
    return False


def find_peer(venv, given=None):
    """(python, version, source), or None without a PyTorch; `given` alone where it is said."""
    if given:
        if version := torch_version(given):
            return given, version, "--python"
        say(f"{given} has no PyTorch: its side is not measured")
        return None
    python = str(venv / "bin" / "python")
    if make_venv(venv):
        if not torch_version(python):
            succeeds("installing torch", [python, "-m", "pip", "install", "--quiet", "torch"])
        if version := torch_version(python):
            return python, version, "package index"
    if version := torch_version("/usr/bin/python3"):
        say("no PyTorch from the package index: falling back to Debian's")
        return "/usr/bin/python3", version, "Debian's python3-torch"
    say("no PyTorch: neither the package index nor Debian's python3-torch; its side is not measured")
    return None
