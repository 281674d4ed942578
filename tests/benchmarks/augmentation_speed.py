#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Images a second that one thread decodes and augments: `lockstep bench loader` beside torchvision, in turn.

usage: augmentation_speed.py --python FILE [--build DIR] [--repetitions N] [--seconds S]

FILE is a Python with torch, torchvision and Pillow. The images are 64 JPEGs of 500 x 375 pixels, blurred noise that is made
here; all are cut to 224 x 224 and flipped, as torchvision's reference training does. torchvision runs its transforms v2
twice, on Pillow's images and on tensors of bytes; the faster one counts. Prints a table of medians, and ratios above 1 where
Lockstep is faster. Exit code 1 where a run fails.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

PROJECT = pathlib.Path(__file__).resolve().parents[2]
CASES = {"crop and flip alone": "", "jitter": "jitter:0.4,0.4,0.4,0.1", "randaugment": "randaugment:2,9",
         "trivialaugment": "trivialaugment", "erasing": "erasing:1"}
PEER = r"""
import io, json, pathlib, sys, time
import torch, torchvision
from PIL import Image
from torchvision.transforms import v2
folder, case, kind, seconds = sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4])
torch.set_num_threads(1)
files = [p.read_bytes() for p in sorted(pathlib.Path(folder).rglob("*.jpg"))]
own = {"crop and flip alone": [], "jitter": [v2.ColorJitter(0.4, 0.4, 0.4, 0.1)],
       "randaugment": [v2.RandAugment(2, 9)], "trivialaugment": [v2.TrivialAugmentWide()], "erasing": []}[case]
steps = [v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip(), *own]
steps += [v2.PILToTensor()] if kind == "pil" else []
steps += [v2.RandomErasing(1.0)] if case == "erasing" else []
change = v2.Compose(steps)
def read(data):
    if kind == "pil":
        return Image.open(io.BytesIO(data)).convert("RGB")
    return torchvision.io.decode_jpeg(torch.frombuffer(bytearray(data), dtype=torch.uint8))
done, begin = 0, time.perf_counter()
while time.perf_counter() - begin < seconds or done < 8:
    change(read(files[done % len(files)]))
    done += 1
print(json.dumps(done / (time.perf_counter() - begin)))
"""
MAKE = r"""
import pathlib, sys
import torch, torchvision
from torchvision.transforms.functional import resize, gaussian_blur
torch.manual_seed(0)
for i in range(64):
    coarse = torch.randint(0, 256, (3, 24, 32), dtype=torch.uint8)
    image = gaussian_blur(resize(coarse, [375, 500], antialias=True), 3)
    path = pathlib.Path(sys.argv[1]) / f"train/{'ab'[i % 2]}/{i:03}.jpg"
    path.parent.mkdir(parents=True, exist_ok=True)
    torchvision.io.write_jpeg(image, str(path), quality=90)
"""


def run(command):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"{command[0]}: exit code {result.returncode}: {result.stderr[-800:]}")
    return result.stdout


def ours(options, folder, case):
    augment = ",".join(word for word in ("resized-crop", "flip", CASES[case]) if word)
    printed = run([options.build / "lockstep", "bench", "loader", "--workers=0", f"--seconds={options.seconds}", "--json",
                   f"--data=images:{folder}", "--image-size=224", f"--augment={augment}", "--global-batch=16",
                   "--micro-batch=8", "--model=resnet18"])
    return json.loads(printed)["rates"][0]["samples_per_s"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--python", required=True)
    parser.add_argument("--build", type=pathlib.Path, default=PROJECT / "build/release")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    options = parser.parse_args()
    print("| augmentation | Lockstep, images/s | torchvision v2: Pillow | tensors | ratio to the faster |\n|---|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as folder:
        run([options.python, "-c", MAKE, folder])
        for case in CASES:
            rates = {"ours": [], "pil": [], "tensor": []}
            for _ in range(options.repetitions):
                rates["ours"].append(ours(options, folder, case))
                for kind in ("pil", "tensor"):
                    rates[kind].append(json.loads(run([options.python, "-W", "ignore", "-c", PEER, folder, case, kind,
                                                       options.seconds])))
            medians = {name: statistics.median(values) for name, values in rates.items()}
            ratio = medians["ours"] / max(medians["pil"], medians["tensor"])
            print(f"| {case} | {medians['ours']:.0f} | {medians['pil']:.0f} | {medians['tensor']:.0f} | {ratio:.2f} |",
                  flush=True)


if __name__ == "__main__":
    main()
