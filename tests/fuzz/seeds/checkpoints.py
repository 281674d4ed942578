# SPDX-License-Identifier: Apache-2.0
"""Seeds of the parsers of checkpoints: weights, manifest and state."""

import hashlib
import json
import struct

from seeds.corpus import put


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


def write() -> None:
    write_safetensors()
    write_json()
    write_manifest()
    write_state()
