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


def write_weight_index() -> None:
    shard = safetensors({"a": tensor("F32", [2], 0, 8), "b": tensor("U8", [1], 8, 9)}, bytes(9))
    both = {"a": "a.safetensors", "b": "b.safetensors"}
    for name, index in {
            "whole": {"metadata": {"total_size": 9}, "weight_map": both}, "empty": {"weight_map": {}},
            "no_map": {"a": 1}, "map_is_list": {"weight_map": ["a.safetensors"]},
            "unknown_tensor": {"weight_map": {"c": "a.safetensors"}}, "missing": {"weight_map": {"a": "c.safetensors"}},
            "outside": {"weight_map": {"a": "../a.safetensors"}}, "absolute": {"weight_map": {"a": "/a.safetensors"}},
            "nul": {"weight_map": {"a": "a.safetensors\0"}}, "number": {"weight_map": {"a": 1}},
            "itself": {"weight_map": {"a": "x.index.json"}}, "folder": {"weight_map": {"a": "."}}}.items():
        put("weight_index", name, json.dumps(index).encode() + b"%%" + shard)
    put("weight_index", "broken_shard", json.dumps({"weight_map": both}).encode() + b"%%" + shard[:-1])


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

    tensors = {name: {"bytes": 3, "parts": parts} for name in ("model.safetensors", "optimizer.safetensors")}
    seed("whole")
    seed("whole_2", version=2, files=files | tensors)
    seed("parts_too_short", version=2, files=files | tensors | {"x": {"bytes": 4, "parts": parts}})
    seed("sum_of_parts", version=2)
    seed("newer", version=3)
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


# What a state has behind steps that were skipped or taken back, and between two lines of the log.
FAULTS = {"skipped_steps": 3, "skipped_in_row": 1, "left_out": [[2, 4], [7, 8]], "rollbacks": 1,
          "rollback_base": 500, "loss_mean": 0.5, "loss_variance": 0.25, "loss_count": 90,
          "open_labels": 64.0, "open_loss": 0.5, "open_accuracy": 0.75}


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
    seed("faults", **FAULTS)
    seed("ranges_overlap", **FAULTS | {"left_out": [[2, 4], [3, 8]]})
    seed("range_backwards", **FAULTS | {"left_out": [[4, 2]]})
    seed("range_no_pair", **FAULTS | {"left_out": [[1, 2, 3]]})
    seed("range_too_large", **FAULTS | {"left_out": [[0, 2**63]]})
    seed("mean_infinite", **FAULTS | {"loss_mean": "inf"})
    missing = dict(state)
    del missing["best_step"]
    put("checkpoint_state", "missing_key", json.dumps(missing))
    text = json.dumps(state)
    put("checkpoint_state", "duplicate_key", text[:-1] + ',"step":1}')
    put("checkpoint_state", "bad_utf8", text.encode().replace(b"mlp", b"m\xffp"))
    put("checkpoint_state", "truncated", text[:100])


def write_checkpoint() -> None:
    """Files of a whole checkpoint one after the other; see checkpoint_files.h."""
    model = safetensors({"a": tensor("F32", [2, 3], 0, 24), "b": tensor("F32", [3], 24, 36)}, bytes(range(36)))
    state = {"step": 1000, "samples": 256000, "wall_s": 12.5, "train_loss": 0.25, "evaluated": True,
             "val_loss": 0.5, "val_accuracy": 0.9, "best_val_loss": None, "best_step": -1,
             "settings": [["seed", "1"], ["model", "mlp"]]}

    def digest(content: bytes) -> str:
        return hashlib.sha256(content).hexdigest()

    def entry(content: bytes, parts: bool) -> dict:
        ends = [{"end": 8, "sha256": digest(content[:8])}, {"tensor": "a", "end": len(content), "sha256": digest(content)}]
        return {"bytes": len(content), "sha256": digest(content)} | ({"parts": ends} if parts else {})

    def entry_2(content: bytes, parts: bool) -> dict:
        ends = [{"end": 8, "sha256": digest(content[:8])}, {"tensor": "a", "end": len(content), "sha256": digest(content[8:])}]
        return {"bytes": len(content)} | ({"parts": ends} if parts else {"sha256": digest(content)})

    def seed(name, state=state, step=1000, version=1, **changes):
        files = {"config.toml": b"steps = 2\n", "model.safetensors": model, "optimizer.safetensors": model,
                 "state.json": json.dumps(state, separators=(",", ":")).encode()}
        describe = entry if version == 1 else entry_2
        listed = {name: describe(content, name.endswith(".safetensors")) for name, content in files.items()}
        files["manifest.json"] = sealed(json.dumps({"version": version, "step": step, "files": listed}, separators=(",", ":"))).encode()
        files |= changes.get("files", {})
        put("checkpoint", name, b"".join(b"%%" + name.encode() + b"\n" + content for name, content in files.items()
                                         if content is not None))

    seed("whole")
    seed("whole_2", version=2)
    seed("rotten_2", version=2, files={"optimizer.safetensors": model[:-1] + b"x"})
    seed("faults", state | FAULTS)
    seed("other_step", state | {"step": 7}, step=7)
    seed("steps_differ", state | {"step": 7})
    seed("no_state", files={"state.json": None})
    seed("no_manifest", files={"manifest.json": None})
    seed("rotten", files={"model.safetensors": model[:-1] + b"x"})
    seed("cut", files={"model.safetensors": model[:20]})


def write() -> None:
    write_safetensors()
    write_json()
    write_manifest()
    write_state()
    write_checkpoint()
    write_weight_index()
