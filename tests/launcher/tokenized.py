#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Texts as tokens by the built program, and runs on them, which take and print texts.

tokenized.py PROGRAM Tokenized
"""
import json
import pathlib
import shutil
import struct

from program_test import ProgramTest, main

TEXT = "".join(f"the {a} {b}s over the {c}é.\n" for a in ("dog", "cat", "fox", "hen")
               for b in ("jump", "run", "walk", "look") for c in ("wall", "road", "lake"))
GPT = ("--model=gpt", "--layers=2", "--heads=2", "--width=32", "--context=16", "--optimizer=adamw",
       "--lr=0.01", "--global-batch=8", "--micro-batch=4", "--steps=200")


class Tokenized(ProgramTest):
    def command(self, name, *arguments):
        return self.run_command([self.program, name, *arguments])

    def told(self, name, *arguments):
        result = self.command(name, *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def tokenize(self, *arguments):
        return self.command("tokenize", "text.txt", *arguments)

    def corpus(self, *flags, out="corpus"):
        self.write("text.txt", TEXT * 4)
        result = self.tokenize("--vocabulary=300", f"--out={out}", *flags)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def trained(self, *flags, data="tokens:corpus", code=0):
        result = self.train(*GPT, "--out=run", *flags, data=data)
        self.assertEqual(result.returncode, code, result.stderr)
        return result

    def test_a_run_takes_and_prints_texts(self):
        self.assertIn("tokens of 16 bits", self.corpus())
        self.trained("--checkpoint-every=100")
        kept = (self.folder / "corpus/tokenizer.json").read_bytes()
        checkpoints = sorted((self.folder / "run/checkpoints").glob("step_*"))
        for place in (self.folder / "run", *checkpoints):
            self.assertEqual((place / "tokenizer.json").read_bytes(), kept)
        shutil.rmtree(self.folder / "corpus")  # what a run needs, it has
        said = self.told("generate", "--from=run", "--prompt=the dogé", "--tokens=30",
                         "--temperature=0")
        self.assertTrue(said.startswith("the dogé"), said)
        self.assertIn(" over the ", said)
        for same in (("--from=run", "--kv-cache=off"), (f"--from={checkpoints[-1]}",)):
            self.assertEqual(self.told("generate", *same, "--prompt=the dogé", "--tokens=30",
                                       "--temperature=0"), said)
        self.write("new.txt", TEXT)
        line = json.loads(self.told("predict", "--from=run", "--format=json", "new.txt"))
        self.assertLess(line["tokens"], len(TEXT))
        self.assertTrue(all(isinstance(entry["token"], str) for entry in line["next"]))
        loss = self.told("evaluate", "--from=run", "--data=text:new.txt").split()[1]
        self.assertAlmostEqual(float(loss), line["loss"], places=5)
        self.assertEqual(self.command("export", "--from=run", "--to=a.safetensors").returncode, 0)
        self.assertEqual((self.folder / "a.tokenizer.json").read_bytes(), kept)
        (self.folder / "run/tokenizer.json").unlink()
        self.expect_error(self.command("generate", "--from=run"), 1,
                          "run/tokenizer.json: no such file")

    def test_another_tokenizer_is_refused(self):
        self.corpus()
        self.corpus("--vocabulary=280", "--force", out="other")
        (self.folder / "corpus/tokenizer.json").write_bytes(
            (self.folder / "other/tokenizer.json").read_bytes())
        self.expect_error(self.trained(code=2), 2, "its tokens were made by another tokenizer",
                          "--tokenizer")
        (self.folder / "corpus/tokenizer.json").unlink()
        self.expect_error(self.trained("--vocabulary=299", code=2), 2,
                          "its tokens are of a vocabulary of 300, the model's is 299", "--vocabulary 300")
        self.trained("--vocabulary=320")
        self.assertFalse((self.folder / "run/tokenizer.json").exists())
        self.expect_error(self.command("evaluate", "--from=run", "--tokenizer=other"), 2,
                          "--tokenizer cannot be combined with lockstep evaluate")

    def test_documents_end_and_may_be_kept_apart(self):
        self.corpus("--documents=lines", "--val-fraction=0.25")
        documents = []
        for name in ("train.bin", "val.bin"):
            content = (self.folder / "corpus" / name).read_bytes()
            header = struct.unpack("<6I", content[:24])
            self.assertEqual(header[:2] + header[3:], (20240520, 1, 0, 300, 300))
            documents.append(struct.unpack(f"<{header[2]}H", content[1024:]).count(299))
        lines = TEXT.count("\n") * 4
        self.assertEqual(sum(documents), lines)
        self.assertAlmostEqual(documents[1], lines / 4, delta=2)  # a quarter of the bytes
        result = self.trained("--documents=separate")
        self.assertIn(f"that each lie in one of {documents[0]} documents", result.stdout)
        said = self.told("generate", "--from=run", "--tokens=100", "--temperature=0")
        self.assertRegex(said, r"^<\|endoftext\|>the [^|]*\n$")  # one document, then nothing
        self.write("some.bin", struct.pack("<600H", *(i % 7 for i in range(600))))
        self.expect_error(self.trained("--documents=separate", "--vocabulary=7", "--force",
                                       data="tokens:some.bin", code=2), 2,
                          "does not say which token ends a document")

    def test_llama_3s_tokenizer(self):
        self.corpus()
        file = json.loads((self.folder / "corpus/tokenizer.json").read_text())
        parts = pathlib.Path(__file__).parent.parent / "data/tokenizer_goldens/parts.json"
        file["pre_tokenizer"] = json.loads(parts.read_text())["llama3"]
        file["model"]["ignore_merges"] = True
        for end, code in (("<|end_of_text|>", 0), ("<|end|>", 2)):
            self.write("llama.json", json.dumps(file).replace("<|endoftext|>", end))
            result = self.tokenize("--tokenizer=llama.json", "--out=llama", "--force")
            self.assertEqual(result.returncode, code, result.stderr)
        self.assertIn("neither <|endoftext|> nor <|end_of_text|>", result.stderr)
        self.assertEqual(struct.unpack("<6I", (self.folder / "llama/train.bin").read_bytes()[:24])[5], 300)
        self.assertEqual(self.tokenize("--tokenizer=llama.json", "--out=none", "--end-of-text=none").returncode, 0)
        self.trained("--steps=2", data="tokens:llama")
        kept = json.loads((self.folder / "run/tokenizer.json").read_text())
        self.assertEqual(kept["pre_tokenizer"], file["pre_tokenizer"])
        self.assertTrue(kept["model"]["ignore_merges"])
        self.assertTrue(self.told("generate", "--from=run", "--prompt=12 dogs", "--tokens=3").startswith("12 dogs"))

    def test_usage(self):
        self.write("text.txt", TEXT)
        for flags, code, text in (
                ((), 2, "--out DIR"), (("--out=text.txt",), 2, "is not a folder"),
                (("--out=a", "--vocabulary=256"), 2, "--vocabulary"),
                (("--out=a", "--tokenizer=b", "--vocabulary=300"), 2, "cannot be combined"),
                (("--out=a", "--tokenizer=text.txt"), 1, "text.txt is not valid JSON"),
                (("--out=a", "--end-of-text=<end>"), 2, "has no such token"),
                (("--out=a", "--validation=text.txt", "--val-fraction=0.1"), 2, "cannot be combined"),
                (("missing.txt", "--out=a"), 1, "missing.txt")):
            self.expect_error(self.tokenize(*flags), code, text)
            self.assertFalse((self.folder / "a/train.bin").exists())
        self.expect_error(self.command("tokenize", "--out=a"), 2, "expected texts")
        self.assertEqual(self.tokenize("--vocabulary=257", "--out=a").returncode, 0)
        self.expect_error(self.tokenize("--vocabulary=257", "--out=a"), 2, "already exists", "--force")
        self.write("text.txt", b"ab\xff" + TEXT.encode())
        self.expect_error(self.tokenize("--out=b"), 1, "text.txt: invalid UTF-8 at byte 2 (0xff)",
                          "--invalid-utf8 replace")
        self.assertEqual(self.tokenize("--out=b", "--invalid-utf8=replace", "--workers=2").returncode, 0)


if __name__ == "__main__":
    main()
