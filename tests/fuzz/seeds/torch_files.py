# SPDX-License-Identifier: Apache-2.0
"""Seeds of the parser of PyTorch's state dicts: pickles, zip archives and files before PyTorch 1.6."""
import io
import pickle
import struct
import zipfile
from collections import OrderedDict

from seeds.corpus import CORPUS, put

MAGIC = 0x1950a86a20f9469cfc6c


class Global:
    """Pickled as a global name, whether or not it exists here."""

    def __init__(self, name):
        self.name = name


class Storage:
    def __init__(self, key="0", elems=6, kind="FloatStorage", view=()):
        self.id = ("storage", Global(f"torch {kind}"), key, "cpu", elems, *view)


class Tensor:
    def __init__(self, storage, first, shape, stride, rebuild="_rebuild_tensor_v2"):
        self.call = (Global(f"torch._utils {rebuild}"), (storage, first, shape, stride, False,
                                                         OrderedDict()))


class Pickler(pickle._Pickler):  # the one in Python, of which single types can be changed
    dispatch = dict(pickle._Pickler.dispatch)

    def save_name(self, value):
        self.write(b"c" + value.name.replace(" ", "\n").encode() + b"\n")

    def save_tensor(self, value):
        self.save_reduce(*value.call, obj=value)

    def save_reduce(self, func, args, *rest, obj=None):
        if not isinstance(func, Global):
            return super().save_reduce(func, args, *rest, obj=obj)
        self.save(func)
        self.save(args)
        self.write(b"R")

    def persistent_id(self, value):
        return value.id if isinstance(value, Storage) else None

    dispatch[Global] = save_name
    dispatch[Tensor] = save_tensor


def dumped(value, protocol=2) -> bytes:
    out = io.BytesIO()
    Pickler(out, protocol).dump(value)
    return out.getvalue()


def archive(pickled: bytes, storages: dict, compression=zipfile.ZIP_STORED, **more) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as z:
        for name, data in {"data.pkl": pickled, "byteorder": b"little", **more,
                           **{f"data/{key}": data for key, data in storages.items()}}.items():
            z.writestr(zipfile.ZipInfo(f"a/{name}"), data)
    return out.getvalue()


def legacy(value, storages: dict, protocol=1001, little=True, keys=None) -> bytes:
    parts = [dumped(part) for part in (MAGIC, protocol, {"little_endian": little}, value,
                                       list(storages) if keys is None else keys)]
    parts += [struct.pack("<q", count) + data for count, data in storages.values()]
    return b"".join(parts)


def write() -> None:
    def seed(name, content):
        put("torch_file", name, content)

    model = OrderedDict(a=Tensor(Storage(), 0, (2, 3), (3, 1)),
                        b=Tensor(Storage("1", 3), 0, (3,), (1,)))
    transposed = {"a": Tensor(Storage(), 0, (2, 3), (1, 2)), "b": Tensor(Storage(), 3, (3,), (1,))}
    halves = {"state_dict": {"module.a": Tensor(Storage(kind="HalfStorage"), 0, (2, 3), (3, 1)),
                             "module.b": Tensor(Storage("1", 3, "BFloat16Storage"), 0, (3,), (1,))},
              "epoch": 1, "best": 0.5, "none": None, "list": [True, -1, 2**70, "x" * 300]}
    data = {"0": bytes(24), "1": bytes(12)}
    whole = archive(dumped(model), data)
    seed("pickle", dumped(model))
    for protocol in (3, 4, 5):
        seed(f"pickle_protocol_{protocol}", dumped(halves, protocol))
    seed("zip", whole)
    seed("zip_shared", archive(dumped(transposed), data))
    seed("zip_halves", archive(dumped(halves), {"0": bytes(12), "1": bytes(6)}))
    seed("zip_compressed", archive(dumped(model), data, zipfile.ZIP_DEFLATED))
    seed("zip_big_endian", archive(dumped(model), data, byteorder=b"big"))
    seed("zip_script", archive(dumped(model), data, **{"constants.pkl": b""}))
    seed("zip_no_storage", archive(dumped(model), {}))
    seed("zip_short_storage", archive(dumped(model), {"0": bytes(23), "1": bytes(12)}))
    seed("zip_cut", whole[:-30])
    seed("zip_of_nothing", b"PK\3\4PK\5\6" + bytes(18))
    seed("zip_directory_far", whole[:-6] + b"\xff\xff\xff\x7f\0\0")
    seed("zip64_nowhere", whole[:-6] + b"\xff\xff\xff\xff\0\0")
    old = {"0": (6, bytes(24)), "1": (3, bytes(12))}
    seed("legacy", legacy(model, old))
    seed("legacy_view", legacy({"b": Tensor(Storage(view=(("v", 2, 3),)), 0, (3,), (1,))},
                               {"0": (6, bytes(24))}))
    seed("legacy_rebuild", legacy({"a": Tensor(Storage(), 0, (2, 3), (3, 1), "_rebuild_tensor")},
                                  {"0": (6, bytes(24))}))
    seed("legacy_no_keys", legacy(model, {}))
    seed("legacy_unknown_key", legacy(model, old, keys=["0", "2"]))
    seed("legacy_key_twice", legacy(model, old, keys=["0", "0"]))
    seed("legacy_huge_count", legacy(model, {"0": (2**62, b""), "1": (3, bytes(12))}))
    seed("legacy_protocol", legacy(model, old, protocol=1002))
    seed("legacy_big_endian", legacy(model, old, little=False))
    seed("legacy_cut", legacy(model, old)[:-1])
    for name, first, shape, stride in (
            ("beyond", 1, (6,), (1,)), ("negative_place", -1, (1,), (1,)),
            ("negative_stride", 5, (2,), (-1,)), ("repeated", 0, (2**40,), (0,)),
            ("overflow", 0, (2**62, 2**62), (2**62, 1)), ("ranks_differ", 0, (1, 1), (1,)),
            ("empty_and_far", 2**62, (0, 2**62), (2**62, 2**62)), ("deep", 0, (1,) * 65, (1,) * 65)):
        seed(f"view_{name}", archive(dumped({"a": Tensor(Storage(), first, shape, stride)}), data))
    for name, pickled in {
            "system": b"\x80\2cos\nsystem\nX\2\0\0\0idq\0\x85R.",
            "eval": b"\x80\4\x8c\x08builtins\x8c\x04eval\x93\x8c\x011\x85R.",
            "load_from_bytes": b"\x80\2ctorch.storage\n_load_from_bytes\n(U\1xtR.",
            "newobj": b"\x80\2ccollections\nOrderedDict\n)\x81.",
            "itself": b"}q\1X\5\0\0\0modelh\1s.", "long_text": b"X\xff\xff\xff\xff",
            "long_text_8": b"\x8d" + b"\xff" * 8, "huge_memo": b"}r\xff\xff\xff\xff.",
            "deep": b"]" * 20000 + b"a" * 19999 + b".",
            "doubling": b"]q\1" + b"(h\1h\1tq\1" * 1000 + b".",
            "marks": b"(" * 5000, "nothing": b"."}.items():
        seed(f"pickle_{name}", pickled)
        seed(f"zip_{name}", archive(pickled, {}))
    real = CORPUS.parent.parent / "io/torch"
    for file in sorted(real.iterdir()):
        seed("real_" + file.name.replace(".", "_"), file.read_bytes())
