# SPDX-License-Identifier: Apache-2.0
"""Seeds of the parsers of images, single and packed. JPEG, which Python's library cannot write, is
committed as it is."""

import struct
import zlib

from seeds.corpus import put


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


def pack(sizes, classes=(b"cat", b"dog"), train=None, sums=True, **changes) -> bytes:
    names = b"".join(name + b"\0" for name in classes)
    pixels, index, at = b"", b"", 88 + len(names)
    for i, (height, width) in enumerate(sizes):
        count = height * width * 3
        sample = bytes(j % 256 for j in range(count))
        index += struct.pack("<QIIII", at, count, i % len(classes), height, width)
        if sums:
            index += struct.pack("<Q", content_hash(sample))
        pixels += sample
        at += count
    head = {"magic": b"LOCKPACK", "version": 2 if sums else 1, "classes": len(classes), "bytes": at + len(index),
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
            "version_1": pack([(2, 3), (4, 4)], sums=False), "version_3": pack([(2, 3)], version=3),
            "rotten": whole.replace(bytes(range(18)), bytes(range(17)) + b"x", 1), "no_samples": pack([]),
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


def write_pack_damage() -> None:
    flip, set_byte, fill, exchange, copy, stuck, cut, insert, remove = range(9)
    for name, file, damages in [
            ("none", 0, []), ("flip", 0, [(flip, 7, 30000, 0)]), ("flip_twice", 1, [(flip, 3, 30000, 0)] * 2),
            ("set", 1, [(set_byte, 9, 200, 0)]), ("fill", 3, [(fill, 0, 20000, 512)]),
            ("exchange", 3, [(exchange, 0, 20000, 128)]), ("copy", 3, [(copy, 1, 40000, 64)]),
            ("stuck", 2, [(stuck, 7, 0, 65535)]), ("cut", 0, [(cut, 0, 60000, 0)]),
            ("insert", 1, [(insert, 0, 65535, 8)]), ("remove", 1, [(remove, 0, 65000, 32)]),
            ("all", 3, [(kind, 1, 9000 + 1000 * kind, 16) for kind in range(6)])]:
        put("pack_damage", name, bytes([file]) + b"".join(struct.pack("<BBHH", *damage) for damage in damages))


def write() -> None:
    write_packed()
    write_pack_damage()
    write_image()
