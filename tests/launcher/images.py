#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the built program on image folders and packed files.

images.py PROGRAM ClassName: the image sources and lockstep pack.
"""
import json
import os
import struct
import zlib

from program_test import ProgramTest, main


def png(width, height, pixel):
    """An RGB file whose pixel (x, y) is pixel(x, y)."""
    def chunk(name, body):
        return (struct.pack(">I", len(body)) + name + body +
                struct.pack(">I", zlib.crc32(name + body)))

    rows = b"".join(b"\0" + bytes(v for x in range(width) for v in pixel(x, y))
                    for y in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) +
            chunk(b"IEND", b""))


class ImageTest(ProgramTest):
    def setUp(self):
        super().setUp()
        for part, count in (("train", 16), ("val", 4)):
            for i in range(2 * count):
                kind = "dark" if i % 2 == 0 else "light"
                self.write(f"photos/{part}/{kind}/{i:03}.png",
                           png(20 + i % 5, 18, lambda x, y, i=i: (
                               i % 2 * 150 + (x * y) % 100, i % 7 * 9, x * 5)))

    def train_images(self, *flags, data="images:photos", **options):
        return self.train("--model=mlp", "--hidden=8", "--image-size=16", "--log-every=1", *flags,
                          data=data, **options)

    def pack(self, *flags):
        return self.run_command([self.program, "pack", "--data", "images:photos", *flags])

    def summary(self, name):
        return json.loads((self.folder / name / "summary.json").read_text())


class Images(ImageTest):
    def test_a_whole_run(self):
        result = self.train_images("--augment=resized-crop:0.3,flip", "--out=run", "--workers=2")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("images:photos/train, 32 files in 2 classes, as 16x16", result.stdout)
        self.assertIn("samples/s could be loaded", self.log_of("run"))
        summary = self.summary("run")
        self.assertGreater(summary["loader_samples_per_s"], 0)
        self.assertGreaterEqual(summary["data_wait_share"], 0)
        self.assertEqual(summary["skipped_samples"], 0)
        self.assertIsNotNone(summary["val_accuracy"])
        step = json.loads((self.folder / "run/metrics.jsonl").read_text().splitlines()[0])
        self.assertGreater(step["loader_samples_per_s"], 0)
        again = self.train("--config=run/config.toml", "--data=images:photos", "--out=again",
                           "--workers=0")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual(self.summary("again")["weights_sha256"], summary["weights_sha256"])

    def test_recipes(self):
        """Images that grow, copies and a teacher, through the program; what cannot be is named."""
        flags = ["--model=resnet20", "--epochs=3", "--augment=flip", "--micro-batch=8",
                 "--global-batch=16"]
        result = self.train(*flags, "--image-size=16:40", "--repeated-augmentation=2",
                            "--out=grown", data="images:photos")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("image-size = '16:40'", (self.folder / "grown/config.toml").read_text())
        plan = self.run_command([self.program, "plan", "--data=images:photos", *flags, "--ranks=1",
                                 "--image-size=16:40", "--json"])
        self.assertEqual(plan.returncode, 0, plan.stderr)
        sizes = json.loads(plan.stdout)["other_image_sizes"]
        self.assertEqual([size["side"] for size in sizes], [32, 16])
        evaluated = self.run_command([self.program, "evaluate", "--from=grown", "--json"])
        self.assertEqual(evaluated.returncode, 0, evaluated.stderr)
        self.assertAlmostEqual(json.loads(evaluated.stdout)["loss"],
                               self.summary("grown")["val_loss"], places=12)
        taught = self.train(*flags, "--image-size=40", "--teacher=grown", "--out=taught",
                            data="images:photos")
        self.assertEqual(taught.returncode, 0, taught.stderr)
        again = self.train("--config=taught/config.toml", "--model=resnet20", "--distillation=hard",
                           "--out=again", data="images:photos")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertNotEqual(self.summary("again")["weights_sha256"],
                            self.summary("taught")["weights_sha256"])
        plan = self.run_command([self.program, "plan", "--config=taught/config.toml", "--ranks=1",
                                 "--json"])
        self.assertEqual(plan.returncode, 0, plan.stderr)
        self.assertGreater(json.loads(plan.stdout)["categories"]["teacher"], 0)
        for extra, *texts in (
                (["--image-size=40:16"], "--image-size '40:16'", "--image-size 16:40"),
                (["--model=mlp", "--image-size=16:40"], "--image-size: for images of 32x32"),
                (["--repeated-augmentation=3"], "--repeated-augmentation 3", "divides"),
                (["--teacher=nowhere"], "nowhere"),
                (["--teacher=grown"], "--teacher grown: it was trained on other samples"),
                (["--image-size=40", "--teacher=grown", "--distillation-alpha=0"],
                 "--distillation-alpha"),
                (["--distillation=hard"], "it belongs to --teacher DIR"),
                (["--image-size=16:40", "--teacher=grown"], "--teacher cannot be combined"),
                (["--data=glyphs", "--image-size=16:28"], "--image-size cannot be combined")):
            given = {flag.split("=")[0] for flag in extra}
            rest = [flag for flag in [*flags, "--image-size=32"] if flag.split("=")[0] not in given]
            if "--data=glyphs" in extra:
                rest.remove("--model=resnet20")
            result = self.train(*rest, *extra, data="images:photos")
            self.assertNotEqual(result.returncode, 0, extra)
            for text in texts:
                self.assertIn(text, result.stderr)

    def test_bad_samples(self):
        self.write("photos/train/dark/000.png", "no image")
        # Two epochs, so that the bad file comes up in each.
        flags = ["--epochs=2"]
        result = self.train_images(*flags)
        self.expect_error(result, 1, "photos/train/dark/000.png: expected a JPEG or PNG",
                          "--skip-bad-samples")
        result = self.train_images(*flags, "--skip-bad-samples", "--out=run")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("1 skipped; the first: photos/train/dark/000.png", result.stdout)
        self.assertEqual(self.summary("run")["skipped_samples"], 1)

    def test_bad_folders(self):
        self.expect_error(self.train_images(data="images:nowhere"), 1, "nowhere: no such folder")
        (self.folder / "photos/train/empty").mkdir()
        self.expect_error(self.train_images(), 1, "train/empty: a class folder without files")

    def test_bad_usage(self):
        self.expect_error(self.train("--image-size=32"), 2, "--image-size cannot be combined")
        self.expect_error(self.train("--augment=resized-crop", "--model=convnet", data="glyphs"),
                          2, "--augment cannot be combined with --data glyphs")
        self.expect_error(self.train_images("--val-fraction=0.1"), 2, "has a validation folder")
        self.expect_error(self.train(data="synthetic:8x8"), 2, "synthetic[:HxWxC[:CLASSES]]")

    def test_a_file_of_too_many_pixels(self):
        self.write("photos/train/dark/000.png", png(90, 60, lambda x, y: (x, y, 0)))
        self.write("photos/train/light/001.png", png(90, 61, lambda x, y: (x, y, 0)))
        self.expect_error(self.train_images("--max-pixels=5400", "--epochs=2"), 1,
                          "photos/train/light/001.png", "90x61", "--max-pixels 5490")
        result = self.train_images("--max-pixels=5490", "--out=run")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.expect_error(self.pack("--out=x", "--max-pixels=5400"), 1, "light/001.png", "90x61")
        predict = [self.program, "predict", "--from=run", "photos/train/light/001.png"]
        self.assertEqual(self.run_command(predict).returncode, 0)
        self.expect_error(self.run_command([*predict, "--max-pixels=100"]), 1, "001.png", "90x61")
        self.expect_error(self.train("--max-pixels=5", data="glyphs"), 2, "--max-pixels")
        self.expect_error(self.train_images("--max-pixels=0"), 2, "--max-pixels")

    def test_a_plan_counts_the_decoding_of_the_largest_files(self):
        def planned(*flags):
            result = self.run_command([self.program, "plan", "--json", "--model=mlp", "--ranks=1",
                                       "--data=images:photos", "--image-size=16", *flags])
            self.assertEqual(result.returncode, 0, result.stderr)
            return json.loads(result.stdout)

        small = planned("--workers=1")["categories"]["image_decoding"]
        self.write("photos/train/dark/000.png", png(300, 200, lambda x, y: (0, 0, 0)))
        one, two = planned("--workers=1"), planned("--workers=2")
        pixels = 3 * 300 * 200
        # Each of the two threads has one, and only one can have the largest.
        self.assertGreater(one["categories"]["image_decoding"], pixels)
        self.assertLess(one["categories"]["image_decoding"], pixels + small + 10000)
        self.assertLess(two["categories"]["image_decoding"], pixels + 2 * small + 10000)
        self.assertGreater(two["categories"]["image_decoding"],
                           one["categories"]["image_decoding"])
        self.assertEqual(two["limited_bytes"], one["limited_bytes"])
        train = self.train_images("--workers=1", "--out=run")
        self.assertEqual(train.returncode, 0, train.stderr)
        self.assertEqual(self.summary("run")["memory"]["image_decoding"],
                         one["categories"]["image_decoding"])

    def test_synthetic(self):
        result = self.train("--out=run", data="synthetic:8x8x3:4")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIsNone(self.summary("run")["val_loss"])

    def test_pack(self):
        result = self.pack("--out=photos.pack", "--image-size=64")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("32 training and 8 validation images of 2 classes", result.stdout)
        flags = ["--augment=resized-crop,flip"]
        folder = self.train_images(*flags, "--out=folder")
        packed = self.train_images(*flags, "--out=packed", data="packed:photos.pack")
        self.assertEqual(folder.returncode, 0, folder.stderr)
        self.assertEqual(packed.returncode, 0, packed.stderr)
        # Nothing had to be shrunk, so the samples are the same.
        self.assertEqual(self.summary("folder")["weights_sha256"],
                         self.summary("packed")["weights_sha256"])

    def test_pack_refuses(self):
        self.expect_error(self.pack(), 2, "expected --out FILE")
        self.expect_error(self.pack("--out=x", "--data=mnist:y"), 2, "expected --data images:DIR")
        self.expect_error(self.pack("--out=x", "--imagesize=5"), 2, "--imagesize")
        self.expect_error(self.pack("--out=nowhere/x"), 3, "cannot create nowhere/x")
        self.write("there.pack", "mine")
        self.expect_error(self.pack("--out=there.pack"), 2, "already exists", "--force")
        self.assertEqual((self.folder / "there.pack").read_text(), "mine")
        self.expect_error(self.train_images(data="packed:there.pack"), 1, "there.pack: byte 4: ")
        self.write("photos/train/dark/000.png", "no image")
        self.expect_error(self.pack("--out=x"), 1, "dark/000.png: expected a JPEG or PNG")
        result = self.pack("--out=x", "--skip-bad-samples")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("skipped    1 images; the first: photos/train/dark/000.png", result.stdout)


class ImageRanks(ImageTest):
    @staticmethod
    def mpirun(ranks):
        command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-np", str(ranks)]
        return command + (["--allow-run-as-root"] if os.geteuid() == 0 else [])

    def test_same_bits_and_counts_on_any_number_of_ranks(self):
        self.write("photos/train/dark/000.png", "no image")
        self.write("photos/train/light/001.png", b"\x89PNG\r\n\x1a\n cut off")
        results = set()
        for ranks, workers in ((1, 0), (1, 3), (2, 1)):
            name = f"run-{ranks}-{workers}"
            result = self.train_images("--augment=resized-crop,flip", "--skip-bad-samples",
                                       "--epochs=2", "--shards=2", f"--out={name}",
                                       f"--ranks={ranks}", f"--workers={workers}")
            self.assertEqual(result.returncode, 0, result.stderr)
            summary = self.summary(name)
            results.add((summary["weights_sha256"], summary["skipped_samples"]))
        self.assertEqual(len(results), 1, results)
        self.assertEqual(results.pop()[1], 2)

    def validations(self, name):
        """Loss and accuracy of each validation of a run."""
        records = [json.loads(line)
                   for line in (self.folder / name / "metrics.jsonl").read_text().splitlines()]
        return [(r["val_loss"], r["val_accuracy"], r["val_samples"]) for r in records
                if "val_loss" in r]

    def test_evaluation_is_that_of_the_data_without_the_bad_samples(self):
        flags = ["--epochs=2", "--global-batch=8", "--micro-batch=4", "--skip-bad-samples"]
        bad = [f"photos/val/{name}.png" for name in ("dark/000", "light/003", "light/007")]
        held = {name: (self.folder / name).read_bytes() for name in bad}
        for name in bad:
            (self.folder / name).unlink()
        expected = self.train_images(*flags, "--out=without")
        self.assertEqual(expected.returncode, 0, expected.stderr)
        evaluated = self.run_command([self.program, "evaluate", "--from=without"])
        # Some that are cut off, and one that is none. The last micro-batch is of another size now.
        for name in bad:
            self.write(name, held[name][:60])
        self.write(bad[0], "no image")
        for ranks in (1, 2):
            result = self.train_images(*flags, f"--ranks={ranks}", f"--out=run-{ranks}")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(self.validations(f"run-{ranks}"), self.validations("without"))
            self.assertEqual(self.validations("without")[0][2], 5)
            summary = self.summary(f"run-{ranks}")
            self.assertEqual(summary["weights_sha256"], self.summary("without")["weights_sha256"])
            self.assertEqual(summary["skipped_samples"], len(bad))
        result = self.run_command([self.program, "evaluate", "--from=run-1"])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.split(",")[0], evaluated.stdout.split(",")[0])
        self.assertIn("(5 samples", result.stdout)
        self.assertIn(f"skipped    3 samples that cannot be read; the first: {bad[0]}",
                      result.stdout)
        for file in (self.folder / "photos/val").rglob("*.png"):
            file.write_text("no image")
        for ranks in ([], self.mpirun(2)):
            self.expect_error(self.run_command([*ranks, self.program, "evaluate", "--from=run-1"]),
                              1, "none of the 8 samples can be read", bad[0])

    def test_more_unreadable_files_in_a_row_than_training_skips(self):
        """And all of them in the part of one rank."""
        flags = ["--global-batch=32", "--micro-batch=4", "--skip-bad-samples"]
        expected = self.train_images(*flags, "--out=without")
        self.assertEqual(expected.returncode, 0, expected.stderr)
        for i in range(130):
            self.write(f"photos/val/dark/x{i:03}.png", "no image")
        for ranks in (1, 2):
            result = self.train_images(*flags, f"--ranks={ranks}", f"--out=run-{ranks}")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(self.validations(f"run-{ranks}"), self.validations("without"))
            self.assertEqual(self.validations("without")[0][2], 8)
            self.assertEqual(self.summary(f"run-{ranks}")["skipped_samples"], 130)
            evaluated = self.run_command([*(self.mpirun(2) if ranks == 2 else []), self.program,
                                          "evaluate", f"--from=run-{ranks}", "--json"])
            self.assertEqual(evaluated.returncode, 0, evaluated.stderr)
            evaluated = json.loads(evaluated.stdout)
            self.assertEqual((evaluated["samples"], evaluated["skipped_samples"]), (8, 130))
            self.assertEqual(evaluated["loss"], self.validations("without")[-1][0])


if __name__ == "__main__":
    main()
