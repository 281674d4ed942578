#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the built program refuses: bad usage and bad data.

refusals.py PROGRAM BadUsage|BadData
"""
import json
import struct

from program_test import ProgramTest, csv_text, idx, main


class BadUsage(ProgramTest):
    def test_unknown_flag(self):
        self.expect_error(self.train("--modle", "mlp"), 2, "unknown flag --modle",
                          "hint: did you mean --model?")

    def test_unknown_model(self):
        self.expect_error(self.train("--model", "convent"), 2, "unknown model 'convent'",
                          "--model convnet")

    def test_unknown_command(self):
        self.expect_error(self.run_command([self.program, "trian"]), 2, "unknown command 'trian'",
                          "lockstep train")

    def test_unknown_data_source(self):
        self.expect_error(self.train("--data", "glyph"), 2, "glyph", "hint:")

    def test_contradictory_batch_numbers(self):
        self.expect_error(self.train("--global-batch=60", "--micro-batch=8", "--accumulation=3"),
                          2, "micro-batch 8", "accumulation 3", "60")

    def test_global_batch_smaller_than_the_ranks(self):
        self.expect_error(self.train("--ranks=4", "--global-batch=2"), 2, "global-batch 2",
                          "ranks")

    def test_global_batch_larger_than_the_data(self):
        out = self.folder / "refused"
        self.expect_error(self.train("--global-batch=512", "--out", out), 2, "512", "samples")
        self.assertFalse(out.exists(), "a refused start leaves its folder behind")

    def test_contradictory_flags(self):
        self.expect_error(self.train("--optimizer=adamw", "--momentum=0.9"), 2,
                          "--momentum cannot be combined with --optimizer adamw")
        self.expect_error(self.train("--optimizer=lion", "--alpha=0.9"), 2,
                          "--alpha cannot be combined with --optimizer lion")
        self.expect_error(self.train("--optimizer=adamw", "--trust-coefficient=0.1"), 2,
                          "--trust-coefficient cannot be combined with --optimizer adamw")

    def test_an_optimizer_of_matrices_without_one(self):
        out = self.folder / "refused"
        self.expect_error(self.train("--optimizer=muon", "--hidden=16", r"--freeze=[01]\..*", "--out", out),
                          2, "optimizer muon: the model has no matrix between hidden layers")
        self.assertFalse(out.exists(), "a refused start leaves its folder behind")

    def test_unknown_key_in_configuration(self):
        config = self.write("c.toml", "momentun = 0.5\n")
        self.expect_error(self.train("--config", config), 2, "momentun", "did you mean momentum?")
        config = self.write("d.toml", "config = 'c.toml'\n")
        result = self.train("--config", config)
        self.expect_error(result, 2, "config")
        self.assertNotIn("did you mean", result.stderr)

    NO_DEVICE = "not built into this program|no NVIDIA driver|libcuda.so|no CUDA device is visible"

    def test_cuda_without_a_device(self):
        result = self.train("--device=cuda", environment={"CUDA_VISIBLE_DEVICES": ""})
        self.expect_error(result, 3, "--device cuda: ", "hint: ")
        self.assertRegex(result.stderr, self.NO_DEVICE)

    def test_auto_says_why_it_takes_the_cpu(self):
        run = self.train("--out", self.folder / "run", environment={"CUDA_VISIBLE_DEVICES": ""})
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertRegex(run.stdout, f"--device auto: .*({self.NO_DEVICE})")

    def test_a_command_on_a_saved_run_takes_a_device(self):
        out = self.folder / "run"
        none = {"CUDA_VISIBLE_DEVICES": ""}
        self.assertEqual(self.train("--out", out, environment=none).returncode, 0)
        evaluate = [self.program, "evaluate", "--from", str(out), "--val-fraction", "0.5"]
        result = self.run_command(evaluate, none)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.expect_error(self.run_command(evaluate + ["--device", "cuda"], none), 3,
                          "--device cuda: ")

    def test_misspelt_variable(self):
        self.expect_error(self.train(environment={"LOCKSTEP_DUPM": "x"}), 2, "LOCKSTEP_DUPM",
                          "LOCKSTEP_DUMP")

    def test_torchrun_variables_without_mpi(self):
        self.expect_error(self.train(environment={"RANK": "0", "WORLD_SIZE": "2"}), 3,
                          "RANK says rank 0 of 2", "mpirun -np 2")

    def test_init_skip_without_init(self):
        self.expect_error(self.train("--init-skip=fc"), 2, "--init-skip needs --init")

    def test_patterns(self):
        self.expect_error(self.train("--freeze=("), 2, "--freeze", "not a valid regular expression")
        self.expect_error(self.train("--freeze=^fc"), 2, "no parameter matches '^fc'")

    def test_shapes_that_do_not_fit(self):
        result = self.train("--model", "convnet")
        self.expect_error(result, 2, "conv", "core/nn/zoo.cpp:")
        self.assertNotIn("/core/nn", result.stderr)  # nor where the program was built

    def test_paths_that_are_empty(self):
        """As of a variable that is not set."""
        for flag in ("--out", "--init", "--resume", "--config"):
            for spelling in ([flag, ""], [flag + "="], [flag + "=", "--seed=3"]):
                self.expect_error(self.train(*spelling), 2, flag)
        self.assertFalse((self.folder / "runs").exists())
        for command, flag in (("run", "--out"), ("pack", "--out"), ("report", "--csv"),
                              ("report", "--out"), ("evaluate", "--from"), ("doctor", "--out")):
            self.expect_error(self.run_command([self.program, command, flag, ""]), 2, flag)
        config = self.write("c.toml", "out = ''\n")
        self.expect_error(self.train("--config", config), 2, "c.toml", "line 1", "out")


class BadData(ProgramTest):
    def expect_bad_table(self, broken, *texts):
        table = self.write("bad.csv", csv_text(broken=broken))
        self.expect_error(self.train(data=f"csv:{table}"), 1, "bad.csv", *texts)

    def test_nan_in_table(self):
        self.expect_bad_table({5: "nan,1,k0"}, "6", "nan")

    def test_ragged_row(self):
        self.expect_bad_table({7: "1,k0"}, "8")

    def test_missing_table(self):
        self.expect_error(self.train(data=f"csv:{self.folder}/none.csv"), 1, "none.csv")

    def test_folder_in_place_of_a_table(self):
        self.expect_error(self.train(data=f"csv:{self.folder}"), 1, str(self.folder))

    def test_missing_mnist_folder(self):
        self.expect_error(self.train(data=f"mnist:{self.folder}/none"), 1, "none")

    def test_label_out_of_range(self):
        source = self.mnist(train_labels_idx1_ubyte=idx(0x801, [16], bytes([12] * 16)))
        self.expect_error(self.train(data=source), 1, "train-labels", "12")

    def test_truncated_images(self):
        source = self.mnist(train_images_idx3_ubyte=idx(0x803, [16, 28, 28], bytes(100)))
        self.expect_error(self.train(data=source), 1, "train-images")

    def test_header_that_lies(self):
        source = self.mnist(train_labels_idx1_ubyte=idx(0x801, [0xFFFFFFFF], bytes(16)))
        self.expect_error(self.train(data=source), 1, "train-labels")

    def test_wrong_magic_number(self):
        source = self.mnist(train_images_idx3_ubyte=idx(0x801, [16, 28, 28], bytes(12544)))
        self.expect_error(self.train(data=source), 1, "train-images")

    def test_counts_that_differ(self):
        source = self.mnist(train_labels_idx1_ubyte=idx(0x801, [15], bytes(15)))
        self.expect_error(self.train(data=source), 1, "16", "15")

    def test_weights_that_do_not_fit(self):
        self.assertEqual(self.train("--hidden=8", "--out=run").returncode, 0)
        weights = "run/model.safetensors"
        result = self.train("--hidden=8,4", f"--init={weights}", "--out=refused")
        self.expect_error(result, 1, weights, "4 tensors do not fit",
                          "2.weight: expected [4, 8], got [3, 8]",
                          "4.bias: expected [3], got nothing", "--init-skip")
        self.assertFalse((self.folder / "refused").exists())

    def test_weights_that_cannot_be_read(self):
        self.expect_error(self.train("--init=none.safetensors"), 1, "none.safetensors")
        truncated = self.write("short.safetensors", b"\x10\0\0\0\0\0\0\0{")
        self.expect_error(self.train("--init", truncated), 1, "short.safetensors")

    def test_weights_that_are_not_finite(self):
        self.assertEqual(self.train("--hidden=8", "--out=run").returncode, 0)
        weights = bytearray((self.folder / "run/model.safetensors").read_bytes())
        header = int.from_bytes(weights[:8], "little")
        begin = json.loads(weights[8:8 + header])["2.bias"]["data_offsets"][0] + 8 + header
        for value in (float("nan"), float("inf")):
            weights[begin + 4:begin + 8] = struct.pack("<f", value)
            file = self.write("bad.safetensors", bytes(weights))
            self.expect_error(self.train("--hidden=8", "--init", file, "--out=refused"), 1,
                              "bad.safetensors", "2.bias[1]", str(value))
            self.assertFalse((self.folder / "refused").exists())
        skipped = self.train("--hidden=8", "--init", file, "--init-skip=^2.bias$", "--out=skipped")
        self.assertEqual(skipped.returncode, 0, skipped.stderr)

    def test_loss_that_is_not_finite(self):
        result = self.train("--lr=1e38", "--steps=50", "--optimizer=sgd", "--out=run")
        self.expect_error(result, 7, "the loss of step", "nan")


if __name__ == "__main__":
    main()
