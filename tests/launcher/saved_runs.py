#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the built program does with a run that has ended: evaluate, predict, generate; and the
profile of one.

saved_runs.py PROGRAM SavedRuns
"""
import json
import os
import pickle
import re
import shutil
import struct
import zipfile

from program_test import ProgramTest, main

TEXT = "".join(f"the {a} {b}s over the {c}.\n" for a in ("dog", "cat", "fox", "hen")
               for b in ("jump", "run", "walk", "look") for c in ("wall", "road", "lake"))
GPT = ("--model=gpt", "--layers=2", "--heads=2", "--width=32", "--context=16", "--optimizer=adamw",
       "--lr=0.01", "--global-batch=8", "--micro-batch=4", "--no-decay=.*")


class SavedRuns(ProgramTest):
    def command(self, name, *arguments):
        return self.run_command([self.program, name, *arguments])

    def text_run(self, *flags):
        text = self.write("text.txt", TEXT * 4)
        result = self.train(*GPT, "--steps=150", "--out=gpt", *flags, data=f"text:{text}")
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads((self.folder / "gpt/summary.json").read_text())

    def run_with_checkpoints(self, *flags):
        """Trains 600 steps; returns an earlier checkpoint and the last."""
        result = self.train("--steps=600", "--checkpoint-every=100", "--out=run", *flags)
        self.assertEqual(result.returncode, 0, result.stderr)
        checkpoints = sorted((self.folder / "run/checkpoints").glob("step_*"))
        self.assertGreater(len(checkpoints), 1)
        return checkpoints[0], checkpoints[-1]

    def test_evaluate_says_what_training_said(self):
        self.assertEqual(self.train("--steps=40", "--lr=0.3", "--out=run").returncode, 0)
        summary = json.loads((self.folder / "run/summary.json").read_text())
        result = self.command("evaluate", "--from=run")
        self.assertEqual(result.returncode, 0, result.stderr)
        loss, accuracy = re.match(r"loss (\S+)  accuracy (\S+)%", result.stdout).groups()
        self.assertAlmostEqual(float(loss), summary["val_loss"], places=6)
        self.assertAlmostEqual(float(accuracy), summary["val_accuracy"] * 100, places=2)

    def test_predict_prints_a_line_a_sample(self):
        self.assertEqual(self.train("--steps=40", "--lr=0.3", "--out=run").returncode, 0)
        result = self.command("predict", "--from=run", "--count=5", "--top=2")
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = result.stdout.splitlines()
        self.assertEqual(len(lines), 5)
        for number, line in enumerate(lines):
            self.assertRegex(line, rf"^{number}  k\d  (right|wrong)  k\d [\d.]+%, k\d [\d.]+%$")
        self.assertGreater(sum("right" in line for line in lines), 3)

    def test_gpt_learns_and_continues_text(self):
        summary = self.text_run()
        self.assertLess(summary["val_loss"], 1.0, "characters at random have a loss of 3.2")
        result = self.command("generate", "--from=gpt", "--prompt=the dog ", "--tokens=40",
                              "--temperature=0")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue(result.stdout.startswith("the dog "), result.stdout)
        self.assertIn(" over the ", result.stdout)
        again = self.command("generate", "--from=gpt", "--prompt=the dog ", "--tokens=40",
                             "--temperature=0")
        self.assertEqual(again.stdout, result.stdout)
        # The context holds 16 tokens, of which the prompt has 8: windows follow the cache.
        whole = self.command("generate", "--from=gpt", "--prompt=the dog ", "--tokens=40",
                             "--temperature=0", "--kv-cache=off")
        self.assertEqual(whole.stdout, result.stdout)
        drawn = {}
        for top_p in ("0", "0.5", "1"):  # at this temperature all characters are about as likely
            one = self.command("generate", "--from=gpt", "--prompt=the dog ", "--tokens=40",
                               "--temperature=100", f"--top-p={top_p}")
            self.assertEqual(one.returncode, 0, one.stderr)
            drawn[top_p] = one.stdout
        self.assertEqual(drawn["0"], result.stdout)
        self.assertNotEqual(drawn["0.5"], drawn["0"])
        self.assertNotEqual(drawn["0.5"], drawn["1"])
        self.expect_error(self.command("generate", "--from=gpt", "--top-p=1.5"), 2, "--top-p")

    def test_a_checkpoint_is_as_good_as_a_run(self):
        earlier, newest = self.run_with_checkpoints("--lr=0.3")
        last = self.command("evaluate", "--from=run").stdout.split("  (")[0]
        (self.folder / "run/model.safetensors").unlink()
        for place in ("run", newest):
            result = self.command("evaluate", f"--from={place}")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(result.stdout.split("  (")[0], last)
        result = self.command("predict", f"--from={earlier}", "--count=2")
        self.assertEqual(result.returncode, 0, result.stderr)
        weights = newest / "model.safetensors"
        content = bytearray(weights.read_bytes())
        content[-1] ^= 1
        weights.write_bytes(content)
        self.expect_error(self.command("evaluate", f"--from={newest}"), 1, "model.safetensors")
        passed_over = self.command("evaluate", "--from=run")
        self.assertEqual(passed_over.returncode, 0, passed_over.stderr)
        self.assertIn("skipped step_", passed_over.stderr)
        self.assertIn(newest.name, passed_over.stderr)

    def test_export(self):
        earlier, newest = self.run_with_checkpoints()
        result = self.command("export", "--from=run", "--to=a.safetensors")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("4, named as in PyTorch", result.stdout)
        saved = (self.folder / "run/model.safetensors").read_bytes()
        self.assertEqual((self.folder / "a.safetensors").read_bytes(), saved)
        record = self.folder / "a.preprocessing.json"
        self.assertEqual(record.read_bytes(),
                         (self.folder / "run/preprocessing.json").read_bytes())
        (self.folder / "a.safetensors").unlink()
        record.write_text("mine")
        self.expect_error(self.command("export", "--from=run", "--to=a.safetensors"), 2, "--force",
                          "a.preprocessing.json")
        self.assertFalse((self.folder / "a.safetensors").exists())
        self.assertEqual(record.read_text(), "mine")
        self.write("a.safetensors", "mine")
        (self.folder / "run/model.safetensors").unlink()
        self.expect_error(self.command("export", "--from=run", "--to=a.safetensors"), 2, "--force")
        result = self.command("export", "--from=run", "--to=a.safetensors", "--force")
        self.assertIn(f"{newest.name}, step 600", result.stdout)
        result = self.command("export", f"--from={earlier}", "--to=b.safetensors")
        self.assertIn(f"{earlier.name}, step ", result.stdout)
        again = self.train("--init=b.safetensors", "--out=again")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.expect_error(self.command("export", "--from=run"), 2, "--to")
        self.expect_error(self.command("export", "--from=run", "--to=none/x.pth"), 3, "none/x.pth")
        self.expect_error(self.command("export", "--from=none", "--to=x.pt"), 3, "none/config.toml")
        for name in ("x", "x.h5", ".pth"):
            self.expect_error(self.command("export", "--from=run", f"--to={name}"), 2, name,
                              ".safetensors", ".pth, .pt, .bin")
        self.assertEqual(sorted(p.name for p in self.folder.glob("*.safetensors*")),
                         ["a.safetensors", "b.safetensors"])
        self.assertEqual(sorted(p.name for p in self.folder.glob("*.json*")),
                         ["a.preprocessing.json", "b.preprocessing.json"])
        self.assertEqual(json.loads(record.read_text())["task"], "classification")

    def test_export_to_pytorch_and_back(self):
        self.assertEqual(self.train("--steps=3", "--out=run").returncode, 0)
        result = self.command("export", "--from=run", "--to=a.pth")
        self.assertEqual(result.returncode, 0, result.stderr)
        with zipfile.ZipFile(self.folder / "a.pth") as archive:
            self.assertIsNone(archive.testzip(), "checksums fit")
            self.assertEqual(archive.read("archive/byteorder"), b"little")
            entries = archive.infolist()
        whole = (self.folder / "a.pth").read_bytes()
        for entry in entries:
            name, extra = struct.unpack_from("<HH", whole, entry.header_offset + 26)
            self.assertEqual((entry.header_offset + 30 + name + extra) % 64, 0, entry.filename)
            self.assertEqual(entry.compress_type, zipfile.ZIP_STORED)
        again = self.train("--init=a.pth", "--lr=0", "--steps=1", "--out=again")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertIn("start      a.pth: 4 tensors loaded\n", again.stdout)
        shas = {json.loads((self.folder / run / "summary.json").read_text())["weights_sha256"]
                for run in ("run", "again")}
        self.assertEqual(len(shas), 1)
        fine_tuned = self.train("--init=a.pth", "--init-skip=^2", "--steps=1", "--out=tuned")
        self.assertIn("a.pth: 2 tensors loaded, 2 skipped (2.bias, 2.weight), 2 new\n",
                      fine_tuned.stdout)

    def hugging_face_folder(self, **changes):
        """Of the run of text_run()."""
        (self.folder / "hf").mkdir(exist_ok=True)
        config = {"model_type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 32, "n_positions": 16,
                  "vocab_size": 26, "activation_function": "gelu_new", **changes}
        self.write("hf/config.json", json.dumps(config))

    def test_folder_of_hugging_face(self):
        summary = self.text_run("--steps=2")
        self.hugging_face_folder()
        result = self.command("export", "--from=gpt", "--to=hf/pytorch_model.bin")
        self.assertEqual(result.returncode, 0, result.stderr)
        # No --model, which train() would add.
        start = (self.program, "train", "--ranks=1", "--init=hf", f"--data=text:{self.folder}/text.txt",
                 "--steps=1", "--global-batch=8")
        result = self.run_command([*start, "--lr=0", "--out=again"])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("hf/pytorch_model.bin: ", result.stdout)
        again = json.loads((self.folder / "again/summary.json").read_text())
        self.assertEqual(again["weights_sha256"], summary["weights_sha256"])
        written = (self.folder / "again/config.toml").read_text()
        for line in ("model = 'gpt'", "layers = 2", "heads = 2", "width = 32", "context = 16"):
            self.assertIn(line + "\n", written)

        def refused(code, *texts, flags=(), **changes):
            self.hugging_face_folder(**changes)
            self.expect_error(self.run_command([*start, *flags]), code, "hf/config.json", *texts)

        refused(2, "--layers 3", "n_layer is 2", flags=["--layers=3"])
        refused(2, "--model resnet18", "gpt2", flags=["--model=resnet18"])
        refused(2, "--model gpt2-124m", "n_layer is 2: --layers 12", flags=["--model=gpt2-124m"])
        refused(2, "--context 8", "n_positions is 16", flags=["--context=8"])
        refused(2, "--gelu tanh", "is erf", flags=["--gelu=tanh"], activation_function="gelu")
        refused(1, "model_type is \"resnet\"", model_type="resnet")
        refused(1, "activation_function is \"relu\"", activation_function="relu")
        refused(1, "n_inner is 7", n_inner=7)
        refused(1, "n_layer is -1", n_layer=-1)
        refused(1, "n_layer is 1.5", n_layer=1.5)
        self.write("hf/config.json", "[]")
        self.expect_error(self.run_command(start), 1, "hf/config.json")

    def test_folder_of_a_llama(self):
        """Names, shapes and sizes of transformers' LlamaForCausalLM go out and come in."""
        sizes = ("--model=llama", "--layers=1", "--heads=4", "--kv-heads=2", "--width=16", "--mlp-width=24",
                 "--rope-theta=500000", "--rope-scaling=32:1:4:64", "--norm-eps=1e-6", "--tied-head=off")
        self.text_run("--steps=2")  # its text
        result = self.command("train", "--ranks=1", *sizes, "--context=16", f"--data=text:{self.folder}/text.txt",
                              "--global-batch=8", "--steps=2", "--out=llama")
        self.assertEqual(result.returncode, 0, result.stderr)
        (self.folder / "hf").mkdir()
        result = self.command("export", "--from=llama", "--to=hf/model.safetensors")
        self.assertIn("Hugging Face's Llama", result.stdout)
        config = {"model_type": "llama", "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2,
                  "hidden_size": 16, "intermediate_size": 24, "max_position_embeddings": 64, "rms_norm_eps": 1e-6,
                  "rope_theta": 5e5, "rope_scaling": {
                      "rope_type": "llama3", "factor": 32, "low_freq_factor": 1, "high_freq_factor": 4,
                      "original_max_position_embeddings": 64}, "vocab_size": 26}
        self.write("hf/config.json", json.dumps(config))
        start = (self.program, "train", "--ranks=1", "--init=hf", f"--data=text:{self.folder}/text.txt",
                 "--context=16", "--steps=1", "--global-batch=8", "--lr=0", "--out=again")
        result = self.run_command(start)
        self.assertEqual(result.returncode, 0, result.stderr)
        shas = {json.loads((self.folder / run / "summary.json").read_text())["weights_sha256"]
                for run in ("llama", "again")}
        self.assertEqual(len(shas), 1)
        self.assertIn("rope-scaling = '32:1:4:64'\n", (self.folder / "again/config.toml").read_text())
        for change, problem in (({"hidden_act": "gelu"}, "hidden_act"), ({"head_dim": 8}, "head_dim"),
                                ({"rope_scaling": {"type": "linear", "factor": 2}}, "rope_type"),
                                ({"attention_bias": True}, "attention_bias")):
            self.write("hf/config.json", json.dumps({**config, **change}))
            self.expect_error(self.run_command(start), 1, "hf/config.json", problem)

    def fine_tune(self):
        """The folder of Hugging Face's, as a run that is named tuned."""
        self.text_run("--steps=2")
        self.hugging_face_folder()
        self.assertEqual(self.command("export", "--from=gpt", "--to=hf/model.safetensors").returncode,
                         0)
        result = self.command("train", "--ranks=1", "--init=hf", "--global-batch=8", "--steps=2",
                              f"--data=text:{self.folder}/text.txt", "--out=tuned")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"(?m)^start  ")

    def test_gpt2_is_tuned_with_its_own_recipe(self):
        self.fine_tune()
        written = (self.folder / "tuned/config.toml").read_text()
        for line in ("lr = 0.0006", "beta2 = 0.95", "weight-decay = 0.1"):  # gpt2-124m's
            self.assertIn(line + "\n", written)

    def test_what_a_run_was_begun_from_is_not_read_again(self):
        self.fine_tune()
        self.hugging_face_folder(n_layer=1)
        resumed = self.command("train", "--resume=tuned", "--steps=3")
        self.assertEqual(resumed.returncode, 0, resumed.stderr)
        self.assertNotRegex(resumed.stdout, r"(?m)^start  ")
        shutil.rmtree(self.folder / "hf")
        resumed = self.command("train", "--resume=tuned", "--steps=4")
        self.assertEqual(resumed.returncode, 0, resumed.stderr)

    def test_a_pickle_that_is_no_state_dict_is_refused(self):
        class Evil:
            def __reduce__(self):
                return os.system, ("touch evil",)

        self.write("evil.pth", pickle.dumps({"0.weight": Evil()}, 2))
        with zipfile.ZipFile(self.folder / "evil.zip", "w") as archive:
            archive.writestr("a/data.pkl", pickle.dumps({"0.weight": Evil()}, 2))
        (self.folder / "evil.zip").rename(self.folder / "model.pth")
        self.expect_error(self.train("--init=model.pth"), 1, "model.pth", "posix.system")
        self.expect_error(self.train("--init=evil.pth"), 1, "evil.pth", "torch.save()")
        self.assertFalse((self.folder / "evil").exists())

    def test_refusals(self):
        self.assertEqual(self.train("--out=run").returncode, 0)
        self.expect_error(self.command("evaluate"), 2, "--from")
        self.expect_error(self.command("evaluate", "--from=none"), 3, "none/config.toml")
        # What was probably meant is named.
        checkpoint = next((self.folder / "run/checkpoints").glob("step_*"))
        for given, meant in (("run/model.safetensors", "run"), ("run/checkpoints", "run"),
                             ("run/checkpoints/", "run"), (".", "./run"),
                             (checkpoint / "model.safetensors", checkpoint)):
            self.expect_error(self.command("evaluate", f"--from={given}"), 2,
                              f"--from {meant}\n")
        self.expect_error(self.command("generate", "--from=table.csv"), 2, "is a file")
        self.expect_error(self.command("evaluate", "--from=run", "--sped=3"), 2, "sped")
        self.expect_error(self.command("generate", "--from=run"), 2, "lockstep generate is for gpt")
        (self.folder / "run/model.safetensors").write_bytes(b"short")
        self.expect_error(self.command("evaluate", "--from=run"), 1, "model.safetensors")

    def test_a_prompt_outside_the_text_is_refused(self):
        self.text_run("--steps=1")
        self.expect_error(self.command("generate", "--from=gpt", "--prompt=Über"), 2, "'Ü'")

    def test_profile(self):
        result = self.train("--profile", "--steps=20", "--hidden=32", "--out=run")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("GFLOP/s", result.stdout)
        for operator in ("linear", "linear_bwd_weights", "softmax_cross_entropy", "optimizer"):
            self.assertRegex(result.stdout, rf"(?m)^{operator} +\d")
        trace = json.loads((self.folder / "run/trace.json").read_text())
        names = {event["name"] for event in trace if event["ph"] == "X"}
        self.assertIn("linear", names)
        self.assertEqual({event["pid"] for event in trace}, {0})
        shares = [float(s) for s in re.findall(r"(?m)^\w+ +[\d.]+ +[\d.]+ +([\d.]+)%",
                                               result.stdout)]
        self.assertAlmostEqual(sum(shares), 100, delta=0.1 * len(shares))


if __name__ == "__main__":
    main()
