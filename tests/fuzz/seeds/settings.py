# SPDX-License-Identifier: Apache-2.0
"""Seeds of the parsers of what users type: flags and their values, variables, hosts."""

from seeds.corpus import put


def write_flags() -> None:
    for name, text in {
            "default": "", "help": "--help", "mlp": "--model=mlp\n--hidden=64,64\n--lr\n0.1\n--momentum=0.9\n--nesterov",
            "adamw": "--optimizer\nadamw\n--beta1=0.8\n--eps=1e-6\n--weight-decay=0.1\n--no-decay=bias$\n--no-decay=norm",
            "gpt": "--model=gpt\n--data=text:x\n--layers=2\n--heads=2\n--width=8\n--context=16\n--gelu=erf\n--bias=off",
            "run": "train\n--ranks=2\n--hosts=a:2,b\n--out=x\n--max-restarts=1\n--backoff=0.5\n--launcher=mpirun",
            "schedule": "--lr-schedule=step\n--step-every=10\n--step-factor=0.5\n--warmup-steps=5\n--min-lr=0.001",
            "cosine": "--lr-schedule=cosine\n--decay-steps=100\n--steps=200\n--clip-norm=1",
            "times": "--checkpoint-every=1.5h\n--memory-limit=16GiB\n--recompute=auto\n--epochs=0.5",
            "batch": "--global-batch=64\n--micro-batch=auto\n--accumulation=2\n--shards=8\n--batch-norm=group:16",
            "images": "--data=images:x\n--image-size=32\n--augment=resized-crop:0.3,flip,shift:2\n--model=resnet18\n--stem=cifar",
            "packed": "--data=packed:x\n--skip-bad-samples\n--workers=3\n--ignore-index=-1\n--val-fraction=0.1",
            "unknown": "--learning-rate=1", "nearest": "--momentun=1", "huge": "--steps=99999999999999999999",
            "heads_2_32": "--model=gpt\n--data=text:x\n--heads=4294967296\n--width=8589934592",
            "negative": "--lr=-1", "nan": "--lr=nan", "hex": "--lr=0x1p3", "no_value": "--lr", "empty_value": "--lr=",
            "positional": "x", "dashes": "--", "twice": "--lr=1\n--lr=2", "regex": "--freeze=(a*)*b",
            "bad_regex": "--freeze=(((", "regex_repeats": "--freeze=(a{999}){999}", "bad_utf8": b"--data=\xff",
            "contradiction": "--optimizer=adamw\n--momentum=0.5", "profile": "--profile\n--force\n--seed=7"}.items():
        put("flags", name, text)


def write_config_toml() -> None:
    for name, text in {
            "whole": "# comment\nmodel = 'mlp'\nhidden = [64, 64] # more\nlr = 0.1\nseed=7\nnesterov = false\n",
            "quoted": 'data = "csv:a\\tb\\u00e9\\\\"\n"lr" = "0.5"\n', "lines": "freeze = [\n 'a', # b\n \"c\",\n]\n",
            "crlf_bom": "\ufefflr = 1\r\nsteps = 5\r\n", "duplicate": "lr = 1\nlr = 2\n", "unknown": "learning = 1\n",
            "section": "[train]\nlr = 1\n", "nested": "hidden = [[1]]\n", "deep": "hidden = " + "[" * 300,
            "nan": "lr = nan\n", "huge": "steps = 999999999999999999999999\n", "no_utf8": b"data = '\xff\xfe'\n",
            "unclosed": "data = 'x\n", "escape": 'data = "\\x"\n', "surrogate": 'data = "\\ud800"\n',
            "short_code": 'data = "\\u00', "no_value": "lr =\n", "no_equals": "lr\n", "empty_list": "freeze = []\n",
            "config": "config = 'x'\n", "nul": "data = 'a\0b'\n", "control": 'data = "a\\u0001\\n\'"\n',
            "path": "init = '../../x'\n", "resume": "resume = 'auto'\nout = 'x'\n"}.items():
        put("config_toml", name, text)


def write_network() -> None:
    whole = ("ranks_per_host = 8\ninside_latency_us = 2\ninside_bandwidth_GBps = 450\n"
             "between_latency_us = 5\nbetween_bandwidth_GBps = 400\n")
    for name, text in {
            "whole": whole, "alone": "ranks_per_host = 1\nbetween_latency_us = 5\nbetween_bandwidth_GBps = 1e-6\n",
            "missing": "ranks_per_host = 8\n", "unknown": whole + "latency = 1\n", "nan": whole.replace("450", "nan"),
            "zero": whole.replace("400", "0"), "fraction": whole.replace("= 8", "= 1.5"), "list": whole.replace("450", "[1, 2]"),
            "huge": whole.replace("450", "1e999"), "negative": whole.replace("= 2", "= -2")}.items():
        put("network", name, text)


def write_environment() -> None:
    for name, text in {
            "own": "LOCKSTEP_RANK=0\nLOCKSTEP_WORLD_SIZE=1\nLOCKSTEP_LOCAL_RANK=0\nLOCKSTEP_PLAN=poison\nLOCKSTEP_SYNC=1\n",
            "mpirun": "OMPI_COMM_WORLD_RANK=1\nOMPI_COMM_WORLD_SIZE=2\nOMPI_COMM_WORLD_LOCAL_RANK=1\n",
            "torchrun": "RANK=1\nWORLD_SIZE=2\nLOCAL_RANK=0\nPMI_RANK=1\nPMI_SIZE=2\n",
            "srun": "SLURM_JOB_ID=7\nSLURM_STEP_ID=0\nSLURM_PROCID=1\nSLURM_NTASKS=2\nSLURM_LOCALID=0\nPMIX_RANK=1\n",
            "batch": "SLURM_JOB_ID=7\nSLURM_STEP_ID=4294967291\nSLURM_NTASKS=4\nSLURM_PROCID=0\n",
            "mvapich": "MV2_COMM_WORLD_RANK=0\nMV2_COMM_WORLD_SIZE=1\nMPI_LOCALRANKID=0\n",
            "unknown": "LOCKSTEP_RANKS=1\n", "bad_switch": "LOCKSTEP_SYNC=2\n", "bad_number": "PMI_RANK=x\nPMI_SIZE=2\n",
            "negative": "RANK=-1\nWORLD_SIZE=2\n", "huge": "PMIX_RANK=99999999999999999999\n", "half": "PMI_SIZE=2\n",
            "contradiction": "LOCKSTEP_RANK=0\nLOCKSTEP_WORLD_SIZE=2\nPMI_RANK=1\nPMI_SIZE=2\n",
            "rank_is_size": "PMI_RANK=2\nPMI_SIZE=2\n", "empty_values": "LOCKSTEP_RANK=\nRANK=\n",
            "zero_tasks": "SLURM_STEP_ID=0\nSLURM_PROCID=0\nSLURM_NTASKS=0\n"}.items():
        put("environment", name, text)


def write_hosts() -> None:
    for name, text in {
            "list": "a:2,b:2,c", "file": "# hosts\na:2\nb 3\nc slots=4 max_slots=8\n", "twice": "a:2,b,a:3",
            "overflow": "a:2147483647,a:2147483647", "overflow_sum": "a:2147483647,b:2147483647",
            "too_large": "a:99999999999", "zero": "a:0", "negative": "a:-1", "option": "-oProxyCommand=x",
            "shell": "a;x", "empty": "", "commas": ",,a,,", "v6": "[::1]:2", "colon": "a:", "nul": "a\0b:1",
            "crlf": "a:2\r\nb:2\r\n"}.items():
        put("hosts", name, text)


def write_name_patterns() -> None:
    for name, text in {
            "end": "bias$", "group": "layer[12]\\.(0|1)\\..*weight", "doubling": "(a*)*b", "doubling_2": "(.*)*(.*)*x",
            "back_reference": "(a)\\1", "repeats": "(a{99}){99}", "many_repeats": "((a{99}){99}){99}", "open": "((((",
            "class": "[[:alpha:]_]+", "bad_class": "[z-a]", "bad_escape": "\\", "lookahead": "(?!fc)(?=l).*",
            "boundary": "\\bfc\\b", "nul": "a\0b", "no_utf8": b"[\xff-\x80]", "empty": "", "braces": "a{3,1}"}.items():
        put("name_patterns", name, text)


def write_fault_plan() -> None:
    for name, text in {
            "kill": "rank=1,step=5,phase=exchange,do=kill", "two": "rank=*,do=stop;rank=0,step=2,times=3,do=sleep:0.5",
            "no_kind": "rank=1", "unknown": "rank=1,do=explode", "key": "ranks=1,do=kill", "negative": "rank=-1,do=kill",
            "huge": "rank=99999999999999999999,do=kill", "nan": "rank=0,do=sleep:nan", "empty": "", "semicolons": ";;",
            "twice": "rank=1,rank=2,do=kill", "no_value": "rank=,do="}.items():
        put("fault_plan", name, text)


def write_data_source() -> None:
    for name, text in {
            "shape": "32x32x3:10", "plain": "8x8x1", "zero": "0x1x1", "huge": "99999999999x1x1",
            "overflow": "9223372036854775807x2x2", "too_many": "65536x65536x3", "classes": "1x1x1:0",
            "augment": "shift:2,flip,crop:4,resized-crop:0.35", "augment_none": "none", "augment_twice": "flip,flip",
            "augment_nan": "resized-crop:nan", "augment_near": "flipp", "commas": ",,", "x": "x"}.items():
        put("data_source", name, text)


def write() -> None:
    write_flags()
    write_config_toml()
    write_network()
    write_environment()
    write_hosts()
    write_name_patterns()
    write_fault_plan()
    write_data_source()
