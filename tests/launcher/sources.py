#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The built program on arrays of NumPy's, shards of WebDataset and several sources at once. Python's library writes the files,
shards by its tarfile; tests/data/numpy_goldens has files of NumPy's own.

sources.py PROGRAM Sources|SourceRanks
"""
import io
import json
import math
import os
import struct
import tarfile
import zipfile

from images import png
from program_test import ProgramTest, idx, main

SIDE = 12


def npy(descr, shape, data):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape!r}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data


def floats(shape, values):
    return npy("<f4", shape, struct.pack(f"<{len(values)}f", *values))


def pixel(number, x, y):
    return (number % 2 * 120 + (x * y + number) % 100, number % 7 * 9, x * 5)


def pixels(number):
    return bytes(v for y in range(SIDE) for x in range(SIDE) for v in pixel(number, x, y))


class SourceTest(ProgramTest):
    """The same photographs in folders, shards and arrays."""

    def setUp(self):
        super().setUp()
        for part, count in (("train", 24), ("val", 8)):
            names = sorted((("dark", "light")[i % 2], i) for i in range(count))
            for kind, i in names:
                self.write(f"photos/{part}/{kind}/{i:03}.png", png(SIDE, SIDE, lambda x, y, i=i: pixel(i, x, y)))
            for shard in range(2):
                (self.folder / "shards").mkdir(exist_ok=True)
                with tarfile.open(self.folder / f"shards/{part}-{shard:06}.tar", "w") as archive:
                    for kind, i in names[shard * count // 2:(shard + 1) * count // 2]:
                        self.add(archive, f"{kind}/{i:03}.png",
                                 (self.folder / f"photos/{part}/{kind}/{i:03}.png").read_bytes())
                        self.add(archive, f"{kind}/{i:03}.cls", kind.encode())
            shape = (count, SIDE, SIDE, 3)
            self.write(f"arrays/x_{part}.npy", npy("|u1", shape, b"".join(pixels(i) for _, i in names)))
            self.write(f"arrays/y_{part}.npy", npy("|u1", (count,), bytes(kind == "light" for kind, _ in names)))

    @staticmethod
    def add(archive, name, content):
        entry = tarfile.TarInfo(name)
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))

    def train_photos(self, data, *flags, **options):
        sized = [] if data.startswith("numpy:") else [f"--image-size={SIDE}"]
        return self.train("--model=convnet", "--global-batch=12", "--micro-batch=2", "--epochs=2", *sized, *flags,
                          data=data, **options)

    def sha_of(self, out, result):
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads((self.folder / out / "summary.json").read_text())["weights_sha256"]


class Sources(SourceTest):
    def test_folders_shards_and_arrays_give_the_same_weights(self):
        found = {out: self.sha_of(f"of_{out}", self.train_photos(data, f"--out=of_{out}"))
                 for out, data in (("folder", "images:photos"), ("shards", "webdataset:shards"),
                                   ("arrays", "numpy:arrays"))}
        self.assertEqual(len(set(found.values())), 1, found)
        with_braces = self.train_photos("webdataset:shards/train-{000000..000001}.tar", "--out=braces", "--eval-every=0")
        self.assertEqual(self.sha_of("braces", with_braces), found["folder"])
        for data in ("images:photos", "webdataset:shards", "numpy:arrays"):
            result = self.run_command([self.program, "evaluate", "--from=of_folder", "--data", data, "--json"])
            self.assertEqual(result.returncode, 0, result.stderr)
            found[data] = json.loads(result.stdout)["loss"]
        self.assertEqual(found["webdataset:shards"], found["images:photos"])
        self.assertEqual(found["numpy:arrays"], found["images:photos"])
        files = sorted(str(p.relative_to(self.folder)) for p in self.folder.glob("photos/val/*/*"))
        of_files = self.predict("of_folder", *files)
        of_array = self.predict("of_folder", "arrays/x_val.npy")
        self.assertEqual([line["file"] for line in of_array], [f"arrays/x_val.npy[{i}]" for i in range(len(files))])
        self.assertEqual([line["probability"] for line in of_array], [line["probability"] for line in of_files])

    def predict(self, run, *files):
        result = self.run_command([self.program, "predict", f"--from={run}", "--format=json", *files])
        self.assertEqual(result.returncode, 0, result.stderr)
        return [json.loads(line) for line in result.stdout.splitlines()]

    def test_digits_of_keras_are_those_of_mnist(self):
        images = bytes(i * 7 % 251 for i in range(16 * 784))
        labels = bytes(i % 10 for i in range(16))
        folder = self.mnist(**{"train_images_idx3_ubyte": idx(0x803, [16, 28, 28], images),
                               "train_labels_idx1_ubyte": idx(0x801, [16], labels)})
        with zipfile.ZipFile(self.folder / "mnist.npz", "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in (("x_train", npy("|u1", (16, 28, 28), images)), ("y_train", npy("|u1", (16,), labels)),
                                  ("x_test", npy("|u1", (16, 28, 28), bytes(16 * 784))), ("y_test", npy("|u1", (16,), labels))):
                archive.writestr(name + ".npy", content)
        one = self.sha_of("one", self.train("--out=one", "--model=convnet", data=folder))
        self.assertEqual(self.sha_of("two", self.train("--out=two", "--model=convnet", data="numpy:mnist.npz")), one)

    def test_rows_are_those_of_a_table(self):
        rows = [(i % 3 + 0.25 * (i % 7), 2 - i % 3 + 0.5 * (i % 5), i % 3) for i in range(60)]
        self.write("t.csv", "0,1,k\n" + "".join(f"{a},{b},{k}\n" for a, b, k in rows))
        self.write("rows/x.npy", npy("<f8", (60, 2), b"".join(struct.pack("<2d", a, b) for a, b, _ in rows)))
        self.write("rows/y.npy", npy("<i8", (60,), struct.pack("<60q", *(k for *_, k in rows))))
        flags = ["--steps=20", "--lr=0.1", "--val-fraction=0.25"]
        table = self.sha_of("table", self.train(*flags, "--out=table", data="csv:t.csv"))
        self.assertEqual(self.sha_of("rows_run", self.train(*flags, "--out=rows_run", data="numpy:rows")), table)
        of_rows = self.predict("rows_run", "rows/x.npy")
        of_table = self.predict("table", "t.csv")
        self.assertEqual([line["probability"] for line in of_rows], [line["probability"] for line in of_table])
        self.assertEqual(self.predict("table", "rows/x.npy"), of_rows)
        self.write("bad.npy", floats((3, 2), [1, 2, math.nan, 3, 4, 5]))
        result = self.run_command([self.program, "predict", "--from=rows_run", "bad.npy"])
        self.assertEqual(result.returncode, 1)
        self.assertIn("bad.npy[1, 0]: expected a number", result.stderr)
        self.assertEqual([line.split()[0] for line in result.stdout.splitlines()], ["bad.npy[0]", "bad.npy[2]"])

    def test_images_of_floats(self):
        values = [((i * 37) % 100) / 50 - 1 for i in range(32 * 64)]
        self.write("f/x.npy", floats((32, 8, 8), values))
        self.write("f/y.npy", npy("<i4", (32,), struct.pack("<32i", *(i % 2 for i in range(32)))))
        result = self.train("--out=run", "--model=convnet", "--val-fraction=0.25", "--precision=bf16", data="numpy:f")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("samples of float32[8, 8, 1] in 2 classes", result.stdout)
        self.assertEqual(len(self.predict("run", "f/x.npy")), 32)
        self.expect_error(self.train("--augment=flip", "--model=convnet", data="numpy:f"), 2, "needs images, u8[H, W, C]")

    def test_tokens(self):
        tokens = [i * i % 61 for i in range(400)]
        self.write("t.bin", struct.pack("<400H", *tokens))
        self.write("t.npy", npy("<u4", (400,), struct.pack("<400I", *tokens)))
        flags = ["--model=gpt", "--layers=1", "--heads=1", "--width=8", "--context=8", "--vocabulary=64"]
        one = self.sha_of("one", self.train(*flags, "--out=one", data="tokens:t.bin"))
        self.assertEqual(self.sha_of("two", self.train(*flags, "--out=two", data="tokens:t.npy")), one)

    def test_bad_usage(self):
        self.expect_error(self.train_photos("numpy:shards"), 1, "no inputs with targets", "x_train, y_train")
        self.expect_error(self.train_photos("webdataset:arrays"), 1, "there are no .tar files")
        self.expect_error(self.train_photos("numpy:arrays", "--val-fraction=0.5"), 2, "has a validation part")
        self.expect_error(self.train_photos("numpy:arrays", "--image-size=8"), 2, "--image-size cannot be combined")
        self.expect_error(self.train_photos("images:photos", "--data-weights=1,2"), 2, "--more-data SOURCE")
        both = ["--more-data=webdataset:shards"]
        self.expect_error(self.train_photos("images:photos", *both, "--data-weights=1"), 2, "--data-weights",
                          "a weight for each of 2 sources, got 1")
        self.expect_error(self.train_photos("images:photos", *both, "--data-weights=1,-2"), 2, "--data-weights '-2'")
        self.expect_error(self.train_photos("images:photos", *both, "--balance=classes"), 2, "--balance cannot be combined")
        self.expect_error(self.train_photos("images:photos", "--more-data=glyphs"), 2, "need the same samples")
        self.expect_error(self.train("--more-data=csv:x"), 2, "--more-data cannot be combined")

    def test_mixed_sources(self):
        """By its own file again, and evaluated on one of the sources."""
        flags = ["--more-data=webdataset:shards", "--data-weights=0.7,0.3"]
        result = self.train_photos("images:photos", *flags, "--out=mixed")
        sha = self.sha_of("mixed", result)
        self.assertIn("48 samples an epoch: 34 (70.8%) of images:photos", result.stdout)
        again = self.run_command([self.program, "train", "--config=mixed/config.toml", "--out=again"])
        self.assertEqual(self.sha_of("again", again), sha)
        for data, samples in ((None, 16), ("webdataset:shards", 8)):
            typed = [] if data is None else ["--data", data]
            evaluated = self.run_command([self.program, "evaluate", "--from=mixed", "--json", *typed])
            self.assertEqual(evaluated.returncode, 0, evaluated.stderr)
            self.assertEqual(json.loads(evaluated.stdout)["samples"], samples)

    def test_one_of_the_sources_of_a_run_is_known_as_its_own(self):
        self.sha_of("split", self.train_photos("images:photos/train", "--more-data=images:photos/val", "--val-fraction=0.25",
                                               "--checkpoint-every=1", "--out=split"))
        for data, samples in (("images:photos/train", 6), ("images:photos/val", 2)):  # of 24 and 8
            evaluated = self.run_command([self.program, "evaluate", "--from=split", "--json", f"--data={data}"])
            self.assertEqual(evaluated.returncode, 0, evaluated.stderr)
            self.assertIn(f"the run was trained on --data {data}", evaluated.stderr)
            self.assertEqual(json.loads(evaluated.stdout)["samples"], samples)

    def test_features_need_a_model_that_reads_them(self):
        self.write("rows/x.npy", floats((8, 3), [float(i * i % 7) for i in range(24)]))
        self.write("rows/y.npy", npy("|u1", (8,), bytes(i % 2 for i in range(8))))
        self.expect_error(self.train("--model=convnet", data="numpy:rows"), 2, "the samples are 3 features", "use --model mlp")


class SourceRanks(SourceTest):
    @staticmethod
    def mpirun(ranks):
        command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-np", str(ranks)]
        return command + (["--allow-run-as-root"] if os.geteuid() == 0 else [])

    def test_same_bits_on_any_number_of_ranks_and_through_a_resume(self):
        kinds = {"arrays": ["--data=numpy:arrays"], "shards": ["--data=webdataset:shards", f"--image-size={SIDE}"],
                 "mixed": ["--data=webdataset:shards", "--more-data=images:photos", "--data-weights=1,3",
                           f"--image-size={SIDE}", "--augment=resized-crop,flip"]}
        for kind, data in kinds.items():
            flags = ["--model=convnet", "--global-batch=12", "--micro-batch=2", "--steps=6", *data]
            found = set()
            for ranks in (1, 2, 3):
                out = f"{kind}-{ranks}"
                found.add(self.sha_of(out, self.run_command(
                    [*self.mpirun(ranks), self.program, "train", *flags, "--checkpoint-every=3", f"--out={out}"])))
            if kind == "mixed":
                first = sorted((self.folder / "mixed-3/checkpoints").glob("step_*"))[0]
                resumed = self.run_command([*self.mpirun(2), self.program, "train", *flags, "--out=resumed",
                                            f"--resume={first}"])
                found.add(self.sha_of("resumed", resumed))
                summary = json.loads((self.folder / "resumed/summary.json").read_text())
                self.assertIn(summary["resumed_at"], range(1, 6))
            self.assertEqual(len(found), 1, (kind, found))


if __name__ == "__main__":
    main()
