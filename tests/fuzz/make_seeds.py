#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of the fuzzers into tests/fuzz/corpus/TARGET/seed_*: whole files of each kind and
the classical malformed ones. The JPEG seeds, which Python's library cannot write, are committed as
they are. Inputs that fuzzers found lie beside them under other names."""

import gzip
import hashlib
import json
import pathlib
import struct
import zlib

CORPUS = pathlib.Path(__file__).parent / "corpus"


def put(target: str, name: str, content: bytes | str) -> None:
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    data = content.encode() if isinstance(content, str) else content
    (folder / f"seed_{name}").write_bytes(data)


def safetensors(header: str | dict, data: bytes = b"", length: int | None = None) -> bytes:
    text = (header if isinstance(header, str) else json.dumps(header)).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def tensor(dtype: str, shape: list, begin: int, end: int) -> dict:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def write_safetensors() -> None:
    def seed(name, *args, **kwargs):
        put("safetensors", name, safetensors(*args, **kwargs))

    model = {"a": tensor("F32", [2, 3], 0, 24), "b": tensor("F32", [3], 24, 36)}
    seed("model", model, bytes(range(36)))
    seed("halves", {"a": tensor("F16", [2, 3], 0, 12), "b": tensor("BF16", [3], 12, 18)}, bytes(18))
    seed("doubles", {"a": tensor("F64", [2, 3], 0, 48), "b": tensor("F64", [3], 48, 72)}, bytes(72))
    seed("all_types", {"__metadata__": {"format": "pt"},
                       "f64": tensor("F64", [1], 0, 8), "i64": tensor("I64", [1], 8, 16),
                       "i32": tensor("I32", [], 16, 20), "u8": tensor("U8", [2, 1], 20, 22),
                       "bool": tensor("BOOL", [1], 22, 23), "none": tensor("F32", [0, 5], 23, 23)},
         bytes(23))
    seed("empty", {})
    seed("header_length_0", "", length=0)
    seed("header_length_most", "{}", length=2**64 - 1)
    seed("header_past_end", "{}", length=3)
    seed("header_over_cap", "{}", length=100_000_001)
    seed("overlap", {"a": tensor("U8", [2], 0, 2), "b": tensor("U8", [2], 1, 3)}, bytes(3))
    seed("hole", {"a": tensor("U8", [1], 0, 1), "b": tensor("U8", [1], 2, 3)}, bytes(3))
    seed("reversed", {"a": tensor("U8", [1], 1, 0)}, bytes(1))
    seed("product_overflow", {"a": tensor("F32", [2**62, 2**62, 4], 0, 0)})
    seed("zero_and_overflow", {"a": tensor("F32", [2**62, 2**62, 0], 0, 0)})
    seed("offset_overflow", {"a": tensor("U8", [2**63 - 1], 0, 2**63 - 1),
                             "b": tensor("U8", [2**63 - 1], 2**63 - 1, 2**64 - 2)})
    seed("unknown_dtype", {"a": tensor("F8", [1], 0, 1)}, bytes(1))
    one = '"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}'
    seed("duplicate_name", "{" + one + "," + one + "}", bytes(1))
    seed("trailing_bytes", {"a": tensor("U8", [1], 0, 1)}, bytes(9))
    seed("metadata_no_string", {"__metadata__": {"a": 1}})
    seed("negative_extent", {"a": tensor("U8", [-1], 0, 1)}, bytes(1))
    seed("fractional_extent", '{"a":{"dtype":"U8","shape":[1.5],"data_offsets":[0,1e300]}}', bytes(1))
    seed("nested", "[" * 200)
    seed("bad_utf8", b'{"\xff":1}'.decode("latin-1"))


def write_json() -> None:
    for name, text in {
            "values": '{"a":[1,-2,3.5,1e-300,null,true,"x\\u00e9\\ud83d\\ude00"],"b":{"c":{}}}',
            "duplicate_key": '{"a":1,"a":2}', "deep": "[" * 64 + "]" * 64, "deep_open": "[" * 300,
            "number_too_large": "1e999", "whole_too_large": "[123456789012345678901234567890]",
            "minus_zero": "[-0,-0.0]", "no_utf8": b'"\xff"', "surrogate": '"\\ud800"',
            "bom": "\ufeff{}", "nul": b'{"a\x00":1}', "escaped_nul": '{"a\\u0000":1}',
            "trailing": "{} {}", "comma": "[1,]", "nan": "[NaN,Infinity]", "empty": "",
            "comment": "/**/{}"}.items():
        put("strict_json", name, text)


def sealed(body: str) -> str:
    return body[:-1] + ',"sha256":"' + hashlib.sha256(body.encode()).hexdigest() + '"}'


def write_manifest() -> None:
    digest = "0" * 64
    file = {"bytes": 3, "sha256": digest}
    parts = [{"end": 1, "sha256": digest}, {"tensor": "fc.bias", "end": 3, "sha256": digest}]
    files = {"model.safetensors": file | {"parts": parts}, "optimizer.safetensors": file,
             "state.json": file}

    def seed(name, version=1, step=1000, files=files, **more):
        body = {"version": version, "step": step, "files": files} | more
        put("manifest", name, sealed(json.dumps(body, separators=(",", ":"))))

    seed("whole")
    seed("newer", version=2)
    seed("version_too_large", version=10**30)
    seed("step_too_large", step=1e300)
    seed("step_negative", step=-1)
    seed("path_escape", files=files | {"../x": file})
    seed("itself", files=files | {"manifest.json": file})
    seed("nul_in_name", files=files | {"a\0b": file})
    seed("file_missing", files={"state.json": file})
    seed("bytes_fractional", files=files | {"x": {"bytes": 1.5e300, "sha256": digest}})
    seed("parts_backwards", files=files | {"x": file | {"parts": parts[::-1]}})
    seed("unknown_key", more=1)
    put("manifest", "no_seal", '{"version":1}')


def write_state() -> None:
    state = {"step": 1000, "samples": 256000, "wall_s": 12.5, "train_loss": 0.25, "evaluated": True,
             "val_loss": 0.5, "val_accuracy": 0.9, "best_val_loss": None, "best_step": -1,
             "settings": [["seed", "1"], ["model", "mlp"]]}

    def seed(name, **changes):
        put("checkpoint_state", name, json.dumps(state | changes))

    seed("whole")
    seed("infinite", train_loss="inf", val_loss="-inf")
    seed("smallest", wall_s=5e-324, val_loss=-0.0)
    seed("unknown_key", x=1)
    seed("negative_step", step=-1)
    seed("step_too_large", step=2**63)
    seed("step_fractional", step=1e18)
    seed("settings_no_pairs", settings=[["a"]])
    seed("settings_nested", settings=[[["a"], "b"]])
    seed("flag_as_number", evaluated=1)
    missing = dict(state)
    del missing["best_step"]
    put("checkpoint_state", "missing_key", json.dumps(missing))
    text = json.dumps(state)
    put("checkpoint_state", "duplicate_key", text[:-1] + ',"step":1}')
    put("checkpoint_state", "bad_utf8", text.encode().replace(b"mlp", b"m\xffp"))
    put("checkpoint_state", "truncated", text[:100])


def idx(dims: list[int], data: bytes, kind: int = 8, rank: int | None = None) -> bytes:
    header = bytes([0, 0, kind, len(dims) if rank is None else rank])
    return header + b"".join(struct.pack(">I", dim) for dim in dims) + data


def write_idx() -> None:
    images, labels = idx([2, 28, 28], bytes(2 * 784)), idx([2], bytes([3, 9]))
    small = idx([2, 3, 4], bytes(24))
    for name, content in {
            "images": small, "labels": labels, "images_gz": gzip.compress(small, mtime=0),
            "labels_gz": gzip.compress(labels, mtime=0),
            "bad_magic": b"\1" + small[1:], "bad_type": idx([2], bytes(2), kind=0x0d),
            "dimensions_255": idx([1] * 255, b"\1", rank=255),
            "overflow": idx([0xffffffff] * 3, b""), "zero_dimension": idx([0], b""),
            "little_endian": b"\0\0\x08\1" + struct.pack("<I", 2) + bytes(2),
            "more": labels + b"\1", "fewer": labels[:-1], "in_header": small[:7], "in_magic": small[:2],
            "gz_truncated": gzip.compress(small, mtime=0)[:-9],
            "gz_bad_sum": gzip.compress(small, mtime=0)[:-8] + bytes(8),
            "gz_bomb": gzip.compress(idx([500_000_000], bytes(1_000_000)), mtime=0),
            "gz_whole_bomb": gzip.compress(idx([1_000_000], bytes(1_000_000)), mtime=0),
            "gz_twice": gzip.compress(labels[:5], mtime=0) + gzip.compress(labels[5:], mtime=0),
            "gz_then_rubbish": gzip.compress(labels, mtime=0) + b"rubbish",
            "gz_header_only": b"\x1f\x8b"}.items():
        put("idx", name, content)
    for name, (first, second) in {
            "whole": (images, labels), "one_label_less": (images, idx([1], b"\1")),
            "label_10": (images, idx([2], bytes([3, 10]))), "of_27": (idx([1, 28, 27], bytes(756)), labels),
            "compressed": (gzip.compress(images, mtime=0), gzip.compress(labels, mtime=0)),
            "swapped": (labels, images), "nothing": (b"", b"")}.items():
        put("mnist", name, struct.pack("<H", len(first)) + first + second)


def write_cifar() -> None:
    record = bytes([9]) + bytes(i % 251 for i in range(3072))
    for name, content in {"whole": record, "short": record[:-1], "long": record + b"\0",
                          "label_10": b"\x0a" + record[1:], "empty": b""}.items():
        put("cifar10", name, content)


def write_csv() -> None:
    for name, text in {
            "whole": "length,width,kind\n1.5,-2,rose\n3e2,+.5,lily\n0,1,rose\n",
            "quoted": '"a,b","c ""d"""\n"1","x, y"\n 2 , "z" \n', "crlf": "a,b\r\n1,x\r\n2,y\r\n",
            "bom": "\ufeffa,b\n1,x\n2,y\n", "whole_labels": "a,b\n1,10\n2,9\n3,+9.0\n",
            "no_header": "1,2\n3,4\n", "header_only": "a,b\n", "empty": "", "one_column": "a\n1\n",
            "short_row": "a,b,c\n1,2\n", "empty_line": "a,b\n\n1,x\n", "nan": "a,b\nnan,x\n1,y\n",
            "infinite": "a,b\ninf,x\n", "huge": "a,b\n1e308,x\n-1e308,y\n1.7e308,x\n",
            "too_huge": "a,b\n1e999,x\n", "subnormal": "a,b\n5e-324,x\n0,y\n",
            "constant": "a,b\n7,x\n7,y\n", "unclosed": 'a,b\n"1,x\n', "behind_quote": 'a,b\n"1"2,x\n',
            "fractional_label": "a,b\n1,1.5\n2,2\n", "large_label": "a,b\n1,9007199254740993\n2,1e300\n",
            "one_class": "a,b\n1,x\n", "nul": "a,b\n1\0,x\n", "bad_utf8": b"a,b\n1,\xff\n2,y\n",
            "minus_zero": "a,b\n-0,-0\n0,0\n1,1\n"}.items():
        put("csv", name, text)


def write_tokens() -> None:
    def llmc(count, tokens, version=1):
        return struct.pack("<III", 20240520, version, count) + bytes(1012) + tokens

    tokens = struct.pack("<64H", *range(64))
    for name, content in {"bare": tokens, "odd": tokens[:-1], "empty": b"", "one": tokens[:2],
                          "llmc": llmc(64, tokens), "llmc_lies": llmc(2**32 - 1, tokens),
                          "llmc_version": llmc(64, tokens, 2), "llmc_none": llmc(0, b""),
                          "past_vocabulary": b"\xff" * 128}.items():
        put("tokens", name, content)


def write_text() -> None:
    for name, text in {
            "ascii": "To be, or not to be, that is the question:\n" * 4,
            "all_lengths": "aéわ😀" * 30, "crlf": "a\r\nb\r\n" * 12, "bom": "\ufeff" + "ab" * 40,
            "nul": "a\0b" * 20, "empty": "", "short": "ab", "one_character": "a" * 100,
            "lone_tail": b"ab\x80" * 20, "overlong": b"ab\xc0\xafcd" * 20, "overlong_3": b"\xe0\x80\x80" * 20,
            "surrogate": b"\xed\xa0\x80" * 20, "past_last": b"\xf4\x90\x80\x80" * 20,
            "cut": "a".encode() * 90 + b"\xf0\x9f\x98", "five_bytes": b"\xf8\x88\x80\x80\x80" * 20,
            "last": "\U0010ffff" * 40}.items():
        put("text", name, text)


def content_hash(data: bytes, seed: int = 0) -> int:
    prime, mask = 0x100000001B3, 2**64 - 1
    h = 0xCBF29CE484222325 ^ seed
    whole = len(data) // 8 * 8
    for at in range(0, whole, 8):
        h = ((h ^ int.from_bytes(data[at:at + 8], "little")) * prime) & mask
        h ^= h >> 32
    for byte in data[whole:]:
        h = ((h ^ byte) * prime) & mask
    return h


def pack(sizes, classes=(b"cat", b"dog"), train=None, **changes) -> bytes:
    names = b"".join(name + b"\0" for name in classes)
    pixels, index, at = b"", b"", 88 + len(names)
    for i, (height, width) in enumerate(sizes):
        count = height * width * 3
        index += struct.pack("<QIIII", at, count, i % len(classes), height, width)
        pixels += bytes(j % 256 for j in range(count))
        at += count
    head = {"magic": b"LOCKPACK", "version": 1, "classes": len(classes), "bytes": at + len(index),
            "train": len(sizes) if train is None else train,
            "validation": 0 if train is None else (len(sizes) - train) % 2**64, "names": len(names),
            "index": at, "content": 0, "index_hash": content_hash(index, content_hash(names)),
            "side": 256, "reserved": 0} | changes
    header = struct.pack("<8sIIQQQQQQQII", *head.values())
    return header + struct.pack("<Q", content_hash(header)) + names + pixels + index


def write_packed() -> None:
    whole = pack([(2, 3), (4, 4), (1, 9)])
    for name, content in {
            "whole": whole, "validation": pack([(2, 3), (4, 4), (20, 20)], train=2),
            "empty": b"", "header_only": whole[:88], "cut": whole[:-1], "cut_in_header": whole[:40],
            "bad_magic": b"X" + whole[1:], "bad_sum": whole[:60] + b"X" + whole[61:],
            "version_2": pack([(2, 3)], version=2), "no_samples": pack([]),
            "names_too_long": pack([(2, 3)], names=2**63), "index_past_end": pack([(2, 3)], index=2**63),
            "index_in_names": pack([(2, 3)], index=90), "samples_overflow": pack([(2, 3)], train=2**64 - 1),
            "classes_more": pack([(2, 3)], classes=(b"cat",)).replace(b"cat\0", b"\0\0\0\0"),
            "strip": pack([(1, 400)]), "pixel": pack([(1, 1)])}.items():
        put("packed", name, content)


def png(width, height, depth, color, rows: bytes, extra: bytes = b"", interlaced=0) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, interlaced)
    palette = chunk(b"PLTE", bytes(range(12))) if color == 3 else b""
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + palette + extra +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def write_image() -> None:
    rgb = b"".join(bytes([y % 5]) + bytes((x * 7 + y) % 256 for x in range(48)) for y in range(12))
    whole = png(16, 12, 8, 2, rgb)
    for name, content in {
            "rgb": whole, "grey": png(16, 12, 8, 0, (b"\0" + bytes(range(16))) * 12),
            "grey_1": png(16, 12, 1, 0, b"\0\x5a\xa5" * 12), "palette": png(16, 12, 2, 3, b"\0\x1b\x1b\x1b\x1b" * 12),
            "rgba_16": png(4, 4, 16, 6, (b"\0" + bytes(32)) * 4), "grey_alpha": png(4, 4, 8, 4, (b"\0" + bytes(8)) * 4),
            "interlaced": png(4, 4, 8, 0, bytes(40), interlaced=1),
            "giant": png(2**31 - 1, 2**31 - 1, 8, 2, b""), "large": png(10_000, 10_000, 8, 2, b""),
            "large_honest": png(999, 999, 1, 0, bytes(126 * 999)), "no_pixels": png(0, 5, 8, 2, b""),
            "strip": png(65535, 1, 1, 0, bytes(8193)), "few_rows": png(16, 12, 8, 2, rgb[:100]),
            "many_rows": png(16, 12, 8, 2, rgb + rgb), "cut": whole[:-20], "cut_in_header": whole[:20],
            "signature": whole[:8], "bad_sum": whole[:29] + b"X" + whole[30:], "no_palette": png(4, 4, 4, 3, bytes(12)).replace(b"PLTE", b"XLTE"),
            "bad_depth": png(4, 4, 7, 2, bytes(52)), "bad_filter": png(4, 4, 8, 0, bytes([9]) * 20),
            "empty": b"", "jpeg_start": b"\xff\xd8\xff", "gif": b"GIF89a"}.items():
        put("image", name, content)


def write_launcher() -> None:
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
    for name, text in {
            "list": "a:2,b:2,c", "file": "# hosts\na:2\nb 3\nc slots=4 max_slots=8\n", "twice": "a:2,b,a:3",
            "overflow": "a:2147483647,a:2147483647", "overflow_sum": "a:2147483647,b:2147483647",
            "too_large": "a:99999999999", "zero": "a:0", "negative": "a:-1", "option": "-oProxyCommand=x",
            "shell": "a;x", "empty": "", "commas": ",,a,,", "v6": "[::1]:2", "colon": "a:", "nul": "a\0b:1",
            "crlf": "a:2\r\nb:2\r\n"}.items():
        put("hosts", name, text)
    for name, text in {
            "whole": '{"wall_s":12.5,"steps":100}', "no_number": '{"wall_s":"x"}', "null": '{"wall_s":null}',
            "list": "[1]", "deep": "[" * 400, "too_large": '{"wall_s":1e999}', "empty": "", "cut": '{"wall_s":1',
            "duplicate": '{"wall_s":1,"wall_s":2}', "negative": '{"wall_s":-1}'}.items():
        put("run_standing", name, text)
    for name, text in {
            "end": "bias$", "group": "layer[12]\\.(0|1)\\..*weight", "doubling": "(a*)*b", "doubling_2": "(.*)*(.*)*x",
            "back_reference": "(a)\\1", "repeats": "(a{99}){99}", "many_repeats": "((a{99}){99}){99}", "open": "((((",
            "class": "[[:alpha:]_]+", "bad_class": "[z-a]", "bad_escape": "\\", "lookahead": "(?!fc)(?=l).*",
            "boundary": "\\bfc\\b", "nul": "a\0b", "no_utf8": b"[\xff-\x80]", "empty": "", "braces": "a{3,1}"}.items():
        put("name_patterns", name, text)
    for name, text in {
            "whole": '{"step":99,"train_loss":1}\n{"step":100,"val_loss":2}\n{"step":101,"train_loss":3}\n',
            "cut": '{"step":1}\n{"step":2', "no_json": "x\n{}\n[]\n", "fractional": '{"step":1.5}\n',
            "huge": '{"step":18446744073709551615}\n{"step":-9223372036854775808}\n', "crlf": '{"step":1}\r\n',
            "duplicate": '{"step":1,"step":200}\n', "nul": '{"step":1}\0\n', "empty_lines": "\n\n"}.items():
        put("metrics_file", name, text)
    steps = "".join(f'{{"step":{i},"loss":{2 / i},"accuracy":0.5,"lr":0.1,"step_ms":4,"data_ms":1}}\n' for i in range(1, 9))
    rollback = '{"step":2,"rollback":"c/2","spike_step":4,"loss":90,"mean":1,"spread":1}\n{"step":3,"loss":1}\n'
    for name, text in {
            "whole": "%%config.toml\nmodel = 'mlp'\nhidden = [64, 64]\n%%environment.json\n{\"host\":\"a\",\"ranks\":2}"
                     "%%history.jsonl\n{\"time\":1790000000,\"step\":0,\"host\":\"a\"}\n{\"step\":4,\"checkpoint\":\"c/4\"}\n"
                     f"%%metrics.jsonl\n{steps}" '{"step":8,"val_loss":0.5,"val_accuracy":0.5,"seconds":1}\n'
                     '{"step":8,"checkpoint":"c/8","seconds":1,"stall_ms":2,"error":""}\n'
                     '%%summary.json\n{"steps":8,"slowest_rank":1,"slowest_rank_score":1.5,"ledger":[{"rank":0,"seconds":3,'
                     '"data":1,"forward":2},{"rank":1,"seconds":3,"forward":3}],"advice":[{"cause":"data_wait","text":"t",'
                     '"evidence":"e","remedy":"r","gain":0.4}],"memory":{"parameters":12},"noise_scale_words":"w","gpus":[{"rank":0}]}'
                     '%%memory.json\n{"live_bytes":[1,2,1],"nodes":["a","b","c"]}',
            "running": f'%%metrics.jsonl\n{steps}{{"step":9,"lo', "rollback": f"%%metrics.jsonl\n{steps}{rollback}",
            "goes_back": f"%%metrics.jsonl\n{steps}{steps}", "nan": '%%metrics.jsonl\n{"step":1,"loss":NaN}\n{"step":2,"loss":-inf}\n',
            "extremes": '%%metrics.jsonl\n{"step":1,"loss":1e60}\n{"step":999999999999999,"loss":-1e60}\n',
            "tiny": '%%metrics.jsonl\n{"step":1,"loss":5e-324,"lr":1e-60}\n{"step":3,"loss":1e-320,"lr":1e60}\n',
            "mixed": f"%%metrics.jsonl\n{steps}rank 1 of 2\n{steps}", "empty": "", "no_metrics": "%%config.toml\nlr = 1\n",
            "newer": '%%metrics.jsonl\n{"step":1,"format":2}\n', "html": "%%config.toml\nmodel = '<script>'\n%%metrics.jsonl\n",
            "damaged": "%%metrics.jsonl\n%%summary.json\n{%%environment.json\n[]%%history.jsonl\nx\n{}\n%%memory.json\n{}",
            "other_types": '%%metrics.jsonl\n{"step":1,"loss":[1],"lr":"x"}\n%%summary.json\n{"ledger":[1,{"data":-1}],"advice":[1],'
                           '"memory":{"a":"b"},"gpus":[1,{"busy":{"mean":1}}],"slowest_rank":1e300}',
            "evaluations_go_back": '%%metrics.jsonl\n{"step":8,"val_loss":1}\n{"step":2,"val_loss":2}\n',
            "two": f"%%config.toml\nlr = 1\nmodel = 'a'\n%%metrics.jsonl\n{steps}" '%%environment.json\n{"host":"a"}%%second\n'
                   f"%%config.toml\nlr = 2\nmomentum = 0.9\n%%metrics.jsonl\n{steps}" '%%environment.json\n{"host":"<b>"}',
            "zeros": f"%%metrics.jsonl\n{steps}" + "\0" * 99}.items():
        put("run_record", name, text)
    for name, text in {
            "kill": "rank=1,step=5,phase=exchange,do=kill", "two": "rank=*,do=stop;rank=0,step=2,times=3,do=sleep:0.5",
            "no_kind": "rank=1", "unknown": "rank=1,do=explode", "key": "ranks=1,do=kill", "negative": "rank=-1,do=kill",
            "huge": "rank=99999999999999999999,do=kill", "nan": "rank=0,do=sleep:nan", "empty": "", "semicolons": ";;",
            "twice": "rank=1,rank=2,do=kill", "no_value": "rank=,do="}.items():
        put("fault_plan", name, text)
    for name, text in {
            "shape": "32x32x3:10", "plain": "8x8x1", "zero": "0x1x1", "huge": "99999999999x1x1",
            "overflow": "9223372036854775807x2x2", "too_many": "65536x65536x3", "classes": "1x1x1:0",
            "augment": "shift:2,flip,crop:4,resized-crop:0.35", "augment_none": "none", "augment_twice": "flip,flip",
            "augment_nan": "resized-crop:nan", "augment_near": "flipp", "commas": ",,", "x": "x"}.items():
        put("data_source", name, text)


if __name__ == "__main__":
    write_safetensors()
    write_json()
    write_manifest()
    write_state()
    write_idx()
    write_cifar()
    write_csv()
    write_tokens()
    write_text()
    write_packed()
    write_image()
    write_launcher()
