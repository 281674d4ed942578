#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Help, completion and man pages of the built program, and names of flags that other programs have.

words.py PROGRAM Words
"""
import json
import re
import shutil
import subprocess

from program_test import ProgramTest, main

COMMANDS = ("train", "run", "plan", "scale", "simulate", "sweep", "bench", "evaluate", "predict", "generate", "export",
            "report", "status", "doctor", "pack", "tokenize", "help", "completion")
PARTS = ("bench all-reduce", "bench model", "bench loader")

# Calls the function as bash does: an array of words, of which the last is being completed.
BASH = """
source ./lockstep.bash
while IFS=$'\\t' read -r -a COMP_WORDS; do
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  [[ ${COMP_WORDS[COMP_CWORD]} == - ]] && COMP_WORDS[COMP_CWORD]=
  COMPREPLY=()
  _lockstep
  echo "${COMPREPLY[*]}"
done
"""


class Words(ProgramTest):
    def told(self, *arguments, **options):
        result = self.run_command([self.program, *arguments], **options)
        self.assertEqual((result.returncode, result.stderr), (0, ""), arguments)
        return result.stdout

    def test_help_of_a_command_fits_the_terminal(self):
        self.assertEqual(self.told("help"), self.told("--help"))
        for name in (*COMMANDS, *PARTS):
            words = name.split()
            for columns in (60, 80, 120):
                text = self.told("help", *words, environment={"COLUMNS": str(columns)})
                self.assertLessEqual(max(map(len, text.splitlines())), columns, name)
            self.assertEqual(text, self.told(*words, "--help", environment={"COLUMNS": "1000"}))
            self.assertIn(f"usage: lockstep {name}", text)
            self.assertIn(f" {words[0]} ", self.told("--help"))
        self.assertEqual(self.told("help", "train", environment={"COLUMNS": "nonsense"}),
                         self.told("help", "train"))
        self.expect_error(self.run_command([self.program, "help", "trian"]), 2, "did you mean lockstep train?")

    def completed(self, *lines):
        """What bash offers for each line; its last word is "-" for none."""
        self.write("lockstep.bash", self.told("completion", "bash"))
        shell = subprocess.run(["bash", "--norc", "-c", BASH], cwd=self.folder, text=True,
                               input="".join("\t".join(line.split()) + "\n" for line in lines),
                               capture_output=True, check=True)
        self.assertEqual(shell.stderr, "")
        offered = shell.stdout.split("\n")[:-1]
        self.assertEqual(len(offered), len(lines))
        return [set(words.split()) for words in offered]

    def test_bash_completes(self):
        self.write("folder/a.csv", "")
        self.write("b.toml", "")
        everything = {"folder", "b.toml", "lockstep.bash", "table.csv"}
        cases = {
            "lockstep -": {*COMMANDS, "--help", "--version"},
            "lockstep tr": {"train"},
            "lockstep train --mod": {"--model"},
            "lockstep train --model resnet1": {"resnet18", "resnet101", "resnet152"},
            "lockstep train --model = vgg": {"vgg11", "vgg16"},
            "lockstep train --model=vgg": {"--model=vgg11", "--model=vgg16"},
            "lockstep train --bias =": {"on", "off"},
            "lockstep train --lr -": set(),
            "lockstep train --config -": everything,
            "lockstep train --out -": {"folder"},
            "lockstep train --resume -": {"auto", "folder"},
            "lockstep train --data cs": {"csv:"},
            "lockstep train --data csv : folder/": {"folder/a.csv"},
            "lockstep train --data mnist : f": {"folder"},
            "lockstep train --data csv:t": {"csv:table.csv"},
            "lockstep train --data images : f": {"folder"},
            "lockstep plan --by": {"--by-layer"},
            "lockstep plan --device-rate -": {"A100", "H100", "H200", "B200"},
            "lockstep plan --network -": {"nvlink", "ib", "ethernet", *everything},
            "lockstep pack --data -": {"images:"},
            "lockstep evaluate --da": {"--data", "--data-weights"},
            "lockstep evaluate --data cs": {"csv:"},
            "lockstep evaluate --data csv : folder/": {"folder/a.csv"},
            "lockstep evaluate --from -": {"folder"},
            "lockstep evaluate --see": {"--seed"},  # of --init FILE
            "lockstep predict --see": set(),
            "lockstep evaluate --opti": set(),
            "lockstep generate --lay": set(),
            "lockstep plan --opti": {"--optimizer"},
            "lockstep generate --prec": {"--precision"},
            "lockstep predict --format -": {"table", "csv", "json"},
            "lockstep predict --from folder b": {"b.toml"},
            "lockstep predict --logits b": {"b.toml"},
            "lockstep plan --momen": {"--momentum"},
            "lockstep run --launcher -": {"auto", "mpirun", "srun"},
            "lockstep bench -": {"all-reduce", "model", "loader"},
            "lockstep bench model --jso": {"--json"},
            "lockstep bench all-reduce --momen": set(),
            "lockstep doctor --momen": set(),
            "lockstep report f": {"folder"},
            "lockstep help eval": {"evaluate"},
            "lockstep completion -": {"bash", "zsh", "fish"},
            "lockstep --version --js": {"--json"},
            "lockstep nonsense --x": set(),
        }
        for line, offered in zip(cases, self.completed(*cases)):
            self.assertEqual(offered, cases[line], line)
        (kinds,) = self.completed("lockstep train --data -")
        help_text = " ".join(self.told("help", "train").split())
        described = re.search(r"--data SOURCE\S* (.*?) --more-data", help_text)[1]
        for kind in kinds:
            self.assertIn(kind, described)
        self.assertEqual(len(kinds), len(re.sub(r"\([^)]*\)", "", described).split(", ")))
        (flags,) = self.completed("lockstep train --")
        declared = set(re.findall(r"^  (?:-h,)?(--[a-z0-9-]+)", self.told("help", "train"), re.M))
        self.assertEqual(flags, declared)

    def test_other_shells_take_their_scripts(self):
        for shell, check in (("zsh", ["zsh", "-f", "-n"]), ("fish", ["fish", "--no-config", "-n"])):
            script = self.write(f"lockstep.{shell}", self.told("completion", shell))
            for name in COMMANDS:
                self.assertIn(name, script.read_text())
            if shutil.which(shell):
                subprocess.run([*check, script], check=True)
            else:
                print(f"not checked: the script for {shell}, which is not installed")
        self.expect_error(self.run_command([self.program, "completion", "csh"]), 2, "csh")
        self.expect_error(self.run_command([self.program, "completion"]), 2, "bash, zsh or fish")

    def test_man_pages(self):
        (self.folder / "man").mkdir()
        self.told("man", "--to", "man")
        pages = {path.name for path in (self.folder / "man").iterdir()}
        self.assertEqual(pages, {"lockstep.1"} | {f"lockstep-{name.replace(' ', '-')}.1"
                                                  for name in (*COMMANDS, *PARTS)})
        self.assertEqual(self.told("man", "bench", "model"),
                         (self.folder / "man/lockstep-bench-model.1").read_text())
        self.expect_error(self.run_command([self.program, "man", "trian"]), 2, "train")
        self.expect_error(self.run_command([self.program, "man", "--to", "none"]), 3, "none")
        if not shutil.which("groff"):
            print("not checked: man pages, as groff is not installed")
            return
        for page in sorted(pages):
            result = self.run_command(["groff", "-man", "-ww", "-Tascii", "-P-cbou", f"man/{page}"])
            self.assertEqual((result.returncode, result.stderr), (0, ""), page)
            self.assertIn("SYNOPSIS", result.stdout)

    def test_names_of_other_programs(self):
        table = f"csv:{self.table}"
        theirs = self.run_command(
            [self.program, "train", "--arch=mlp", "--dataset", table, "--learning-rate", "0.3", "--wd=0.1",
             "--num-workers=0", "--scheduler", "cosine", "--smoothing=0.1", "--dropout=0.1", "--opt=adamw",
             "--max_steps=2", "--global_batch=16", "--ranks=1", "--output-dir", "theirs"])
        self.assertEqual(theirs.returncode, 0, theirs.stderr)
        ours = self.train("--lr=0.3", "--weight-decay=0.1", "--workers=0", "--lr-schedule=cosine",
                          "--label-smoothing=0.1", "--dropout=0.1", "--optimizer=adamw", "--steps=2",
                          "--global-batch=16", "--out=ours")
        self.assertEqual(ours.returncode, 0, ours.stderr)
        self.assertEqual((self.folder / "theirs/config.toml").read_text(),
                         (self.folder / "ours/config.toml").read_text())
        self.expect_error(self.run_command([self.program, "evaluate", "--from=ours", "--learning-rate=1"]),
                          2, "--lr")

    def test_an_underscore_is_a_dash_beside_a_saved_run_too(self):
        self.assertEqual(self.train("--steps=20", "--out=run").returncode, 0)

        def both(command, *words):
            """What `command` says with each spelling of `words`."""
            texts = []
            for spelled in (words, [re.sub(r"(?<=\w)-(?=\w)", "_", word) for word in words]):
                result = self.run_command([self.program, command, "--from=run", *spelled])
                self.assertEqual(result.returncode, 0, result.stderr)
                texts.append(re.sub(r", \d+ samples/s", "", result.stdout))
            self.assertEqual(*texts)
            return texts[0]

        self.assertIn("precision", both("evaluate", "--per-class"))
        both("evaluate", "--micro-batch", "4", "--val-fraction=0.5")
        self.assertIn("table.csv:2  ", both("predict", "--skip-bad-samples", "table.csv"))

    def test_hints_go_by_meaning_before_spelling(self):
        for flag, hint in (("--batch", "--micro-batch"), ("--batch-size", "--global-batch"),
                           ("--bs", "--global-batch"), ("-b", "--global-batch"),
                           ("--amp", "--precision bf16"), ("--fp16", "--precision bf16"),
                           ("--gpus", "--ranks"), ("--nproc-per-node", "--ranks"),
                           ("--dry-run", "lockstep plan"), ("-a", "--model"),
                           ("--warmup", "--warmup-steps"), ("--pretrained", "--init"),
                           ("--checkpoint", "--resume"), ("--rank", "--ranks?"),
                           ("--betas", "--beta1"), ("--momentun", "--momentum?")):
            self.expect_error(self.train(flag, "1"), 2, f"unknown flag {flag}", "hint: ", hint)
        config = self.write("c.toml", "learning-rate = 0.5\n")
        self.expect_error(self.train("--config", config), 2, "did you mean lr?")
        self.expect_error(self.run_command([self.program, "report", "--cvs=x"]), 2, "did you mean --csv?")

    def test_a_short_run_ends_in_three_lines(self):
        result = self.train("--steps=40", "--out=run")
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = result.stdout.splitlines()
        end = lines[next(i for i, line in enumerate(lines) if line.startswith("done ")):]
        summary = json.loads((self.folder / "run/summary.json").read_text())
        self.assertEqual(len(end), 3, end)
        self.assertIn(f"validation loss {summary['val_loss']:.4f}", end[0])
        self.assertIn(summary["weights_sha256"], end[1])
        self.assertTrue(end[2].endswith(" run"), end)
        log = self.log_of("run")
        for word in ("speed  ", "memory  ", "noise scale  ", *(line.split()[0] for line in end)):
            self.assertIn("\n" + word, log)


if __name__ == "__main__":
    main()
