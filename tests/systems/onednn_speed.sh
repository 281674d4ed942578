#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Speed with oneDNN 2.6 and 3.7: the same sources, compiler and MPI, those of Debian 13, with its oneDNN and
# with Debian 12's, in turn. ResNet-18 (--stem cifar, MNIST, global batch 128) and nanoGPT on 2 ranks, and the
# convolutions of ResNet-18 alone, two processes at once. On Debian 12, with nothing else running:
#
#   bash tests/systems/onednn_speed.sh [ROUNDS]      (default: 3)
#
# Prints medians of milliseconds a step, and the share of the convolutions' ceiling. LOCKSTEP_TEST_DATA is the folder of
# mnist/ and tinyshakespeare.txt. compare_pytorch.py --cases resnet18,nanogpt has the ratio to PyTorch, with 2.6.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

if [[ ${1:-} != in-the-tree ]]; then
  [[ -d ${LOCKSTEP_TEST_DATA:-} ]] || { echo "onednn_speed.sh: set LOCKSTEP_TEST_DATA" >&2 && exit 2; }
  old=$(mktemp -d)
  trap 'rm -rf "$old"' EXIT
  mkdir -p "$old"/{include,lib}
  cp -r /usr/include/oneapi "$old/include/"
  cp -P /usr/lib/x86_64-linux-gnu/libdnnl.so* "$old/lib/"
  bash tests/systems/debian.sh --keep --bind "$old" bash tests/systems/onednn_speed.sh in-the-tree "$old" "${1:-3}"
  exit
fi

source scripts/environment.sh
old=$2 rounds=$3
scripts/install_dependencies.sh
configure() { # BUILD CMAKE_OPTION...
  cmake --preset release -B "build/$1" -DLOCKSTEP_CUDA=OFF -DLOCKSTEP_BENCHMARKS=ON "${@:2}" >/dev/null
  cmake --build "build/$1" --target lockstep conv_ceiling --parallel "$(nproc)" >"build/$1.log" || {
    tail -n 30 "build/$1.log" >&2
    exit 1
  }
}
configure onednn_new
configure onednn_old "-DOneDNN_INCLUDE_DIR=$old/include" "-DOneDNN_LIBRARY=$old/lib/libdnnl.so"
export LD_LIBRARY_PATH=$old/lib OMP_NUM_THREADS=1
python3 - "$rounds" "$LOCKSTEP_TEST_DATA" <<'MEASURE'
import json, pathlib, re, shutil, statistics, subprocess, sys, tempfile

rounds, data = int(sys.argv[1]), sys.argv[2]
cases = {
    "resnet18": ("--model resnet18 --stem cifar --data mnist:%s/mnist --global-batch 128 --micro-batch 32 "
                 "--optimizer sgd --lr 0.01 --momentum 0.9 --steps 12" % data, 3),
    "nanogpt": ("--model gpt --layers 4 --heads 4 --width 128 --context 64 --bias off --gelu erf --tied-head on "
                "--dropout 0 --global-batch 12 --micro-batch 6 --optimizer adamw --lr 1e-3 --clip-norm 1 "
                "--steps 600 --data text:%s/tinyshakespeare.txt" % data, 100),
}
builds = {"2.6": "build/onednn_old", "3.7": "build/onednn_new"}


def program(version, name):
    return next(str(p) for p in pathlib.Path(builds[version]).rglob(name) if p.is_file() and p.stat().st_mode & 0o100)


def train(version, flags, lead):
    """Milliseconds a step after the first `lead`, by the run's own metrics."""
    folder = tempfile.mkdtemp()
    subprocess.run([program(version, "lockstep"), "train", "--ranks", "2", "--out", folder + "/run", "--eval-every",
                    "0", "--checkpoint-every", "0", "--tensorboard", "off", "--log-every", "1", *flags.split()],
                   check=True, capture_output=True)
    steps = [row for line in open(folder + "/run/metrics.jsonl") if "step_ms" in (row := json.loads(line))]
    environment = json.load(open(folder + "/run/environment.json"))
    assert version in json.dumps(environment), environment
    shutil.rmtree(folder)
    return statistics.median(row["step_ms"] for row in steps[lead:])


def ceiling(version):
    """Two processes, as two ranks: each does half of the four micro-batches of a step."""
    both = [subprocess.Popen([program(version, "conv_ceiling"), "32", "28", "1", "6"], stdout=subprocess.PIPE,
                             text=True) for _ in range(2)]
    return 2 * statistics.mean(float(re.search(r"ms_per_step ([\d.]+)", p.communicate()[0])[1]) for p in both)


found = {}
for turn in range(rounds):
    for version in list(builds)[::1 if turn % 2 else -1]:
        for name, (flags, lead) in cases.items():
            found.setdefault((name, version), []).append(train(version, flags, lead))
        found.setdefault(("convolutions", version), []).append(ceiling(version))
for (name, version), times in sorted(found.items()):
    share = ""
    if name == "resnet18":
        share = ", %.0f%% of the ceiling" % (100 * statistics.median(found["convolutions", version]) / statistics.median(times))
    print("%-13s oneDNN %s: %.2f ms (%.2f to %.2f)%s" % (name, version, statistics.median(times), min(times), max(times), share))
MEASURE
