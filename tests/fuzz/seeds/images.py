# SPDX-License-Identifier: Apache-2.0
"""Seeds of the parsers of images: single, packed and in shards. JPEG, which Python's library cannot write, is
committed as it is."""

import io
import struct
import tarfile
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


def xxh64(data: bytes, seed: int = 0) -> int:
    p1, p2, p3, p4, p5 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63,
                          0x27D4EB2F165667C5)
    mask = 2**64 - 1

    def rotl(value: int, bits: int) -> int:
        value &= mask
        return (value << bits | value >> (64 - bits)) & mask

    def taken(accumulator: int, word: int) -> int:
        return rotl(accumulator + word * p2, 31) * p1 & mask

    def word(at: int, size: int) -> int:
        return int.from_bytes(data[at:at + size], "little")

    lanes, at = [seed + p1 + p2, seed + p2, seed, seed - p1], 0
    while at + 32 <= len(data):
        lanes = [taken(lane, word(at + 8 * i, 8)) for i, lane in enumerate(lanes)]
        at += 32
    h = seed + p5
    if at:
        h = sum(rotl(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18)))
        for lane in lanes:
            h = (h ^ taken(0, lane)) * p1 + p4 & mask
    h = h + len(data) & mask
    for size in (8, 4, 1):
        while at + size <= len(data):
            if size == 8:
                h = rotl(h ^ taken(0, word(at, 8)), 27) * p1 + p4
            elif size == 4:
                h = rotl(h ^ word(at, 4) * p1 & mask, 23) * p2 + p3
            else:
                h = rotl(h ^ data[at] * p5 & mask, 11) * p1
            h &= mask
            at += size
    h = (h ^ h >> 33) * p2 & mask
    h = (h ^ h >> 29) * p3 & mask
    return h ^ h >> 32


def pack(sizes, classes=(b"cat", b"dog"), train=None, version=3, **changes) -> bytes:
    checksum = xxh64 if version >= 3 else content_hash
    names = b"".join(name + b"\0" for name in classes)
    pixels, index, at = b"", b"", 88 + len(names)
    for i, (height, width) in enumerate(sizes):
        count = height * width * 3
        sample = bytes(j % 256 for j in range(count))
        index += struct.pack("<QIIII", at, count, i % len(classes), height, width)
        if version > 1:
            index += struct.pack("<Q", checksum(sample))
        pixels += sample
        at += count
    head = {"magic": b"LOCKPACK", "version": version, "classes": len(classes), "bytes": at + len(index),
            "train": len(sizes) if train is None else train,
            "validation": 0 if train is None else (len(sizes) - train) % 2**64, "names": len(names),
            "index": at, "content": 0, "index_hash": checksum(index, checksum(names)),
            "side": 256, "reserved": 0} | changes
    header = struct.pack("<8sIIQQQQQQQII", *head.values())
    return header + struct.pack("<Q", checksum(header)) + names + pixels + index


def write_packed() -> None:
    whole = pack([(2, 3), (4, 4), (1, 9)])
    for name, content in {
            "whole": whole, "validation": pack([(2, 3), (4, 4), (20, 20)], train=2),
            "empty": b"", "header_only": whole[:88], "cut": whole[:-1], "cut_in_header": whole[:40],
            "bad_magic": b"X" + whole[1:], "bad_sum": whole[:60] + b"X" + whole[61:],
            "version_1": pack([(2, 3), (4, 4)], version=1), "version_2": pack([(2, 3), (4, 4)], version=2),
            "version_4": pack([(2, 3)], version=4),
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
    flip, set_byte, fill, exchange, copy, stuck, cut, insert, remove, top_bits = range(10)
    for name, file, damages in [
            ("none", 0, []), ("flip", 0, [(flip, 7, 30000, 0)]), ("flip_twice", 1, [(flip, 3, 30000, 0)] * 2),
            ("set", 1, [(set_byte, 9, 200, 0)]), ("fill", 3, [(fill, 0, 20000, 512)]),
            ("exchange", 3, [(exchange, 0, 20000, 128)]), ("copy", 3, [(copy, 1, 40000, 64)]),
            ("stuck", 2, [(stuck, 7, 0, 65535)]), ("cut", 0, [(cut, 0, 60000, 0)]),
            ("insert", 1, [(insert, 0, 65535, 8)]), ("remove", 1, [(remove, 0, 65000, 32)]),
            # Byte 7 of the first sample: the sum of version 2 misses it.
            ("top_bits", 0, [(top_bits, 0, 8119, 0)]),
            ("all", 3, [(kind, 1, 9000 + 1000 * kind, 16) for kind in range(6)])]:
        put("pack_damage", name, bytes([file]) + b"".join(struct.pack("<BBHH", *damage) for damage in damages))


def tar(members: dict[str, bytes], kind: int = tarfile.USTAR_FORMAT) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=kind) as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
        end = archive.offset
    return file.getvalue()[:end] + bytes(1024)


def write_shards() -> None:
    image = png(4, 4, 8, 2, bytes(52))
    two = {"a.png": image, "a.cls": b"0", "b.png": image, "b.cls": b"1\n"}
    long = "d" * 120 + "/"
    whole = tar(two)
    link = bytearray(whole)
    link[156] = ord("2")
    for name, content in {
            "whole": whole, "gnu": tar({long + k: v for k, v in two.items()}, tarfile.GNU_FORMAT),
            "pax": tar({long + k: v for k, v in two.items()}, tarfile.PAX_FORMAT),
            "prefix": tar({"d" * 90 + "/" + "e" * 20 + "/" + k: v for k, v in two.items()}),
            "json": tar({"a.png": image, "a.json": b'{"label": 0}', "b.json": b'{"class": 1}', "b.jpg": image}),
            "names": tar({"a.png": image, "a.cls": b"cat", "b.png": image, "b.cls": b"dog", "b.txt": b"text"}),
            "mixed": tar({"a.png": image, "a.cls": b"cat", "b.png": image, "b.cls": b"1"}),
            "no_class": tar({"a.png": image}), "no_image": tar({"a.cls": b"1"}), "twice": tar({"a.png": image, "a.jpg": image}),
            "key_again": tar({**two, "c.png": image, "c.cls": b"1", "a.jpg": image}), "not_an_image": tar({**two, "b.png": b"text"}),
            "cut": whole[:700], "no_end": whole[:-1024], "link": bytes(link), "gzip": b"\x1f\x8b\x08" + whole, "empty": b"",
            "end": bytes(1024), "pattern": b"s-{000..010}{a,b}.tar"}.items():
        put("shards", name, content)


def write() -> None:
    write_packed()
    write_shards()
    write_pack_damage()
    write_image()
