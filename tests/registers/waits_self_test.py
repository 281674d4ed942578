#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kernel_waits.py on the library of waiting.cu: waits_self_test.py LIBRARY."""
import pathlib
import subprocess
import sys

done = subprocess.run([sys.executable, "-B", pathlib.Path(__file__).with_name("kernel_waits.py"), sys.argv[1]],
                      capture_output=True, text=True, check=False)
if done.returncode == 77:
    sys.exit(77)
assert done.returncode == 1, done.stdout + done.stderr
found = {line.split(": ")[1]: line.split(": ", 2)[2] for line in done.stdout.splitlines()}
reasons = {name: next((why for kernel, why in found.items() if name in kernel), None)
           for name in ("waiting_kernel", "never_kernel", "late_kernel", "some_kernel", "early_trigger_kernel",
                        "counting_kernel", "swapping_kernel", "either_reads_kernel", "either_writes_kernel",
                        "shared_kernel")}
assert reasons["waiting_kernel"] is None and reasons["shared_kernel"] is None, reasons
for name, does in {"counting_kernel": "changes", "swapping_kernel": "changes", "either_reads_kernel": "reads",
                   "either_writes_kernel": "writes"}.items():
    assert reasons[name] == f"{does} global memory before it waits for earlier work", (name, reasons)
assert reasons["never_kernel"] == "writes global memory before it waits for earlier work", reasons
assert reasons["late_kernel"] == "reads global memory before it waits for earlier work", reasons
assert reasons["some_kernel"] in ("some threads alone wait for earlier work",
                                  "branches or ends before it waits for earlier work"), reasons
assert reasons["early_trigger_kernel"] == "lets the next kernel begin before it has waited for earlier work", reasons
