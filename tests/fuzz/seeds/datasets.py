# SPDX-License-Identifier: Apache-2.0
"""Seeds of the parsers of data sets: numbers, tables, arrays and tokens."""

import gzip
import io
import struct
import zipfile

from seeds.corpus import put


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
            "minus_zero": "a,b\n-0,-0\n0,0\n1,1\n",
            "trained": "y;b;a;id\n0;x;1;r1\n1;y;;r2\n0;z;3;r3\n",
            "texts": "a,b,c\n1,p,x\n2,,y\n3,q,x\n", "gaps": "a,b,c\n,NA,0.5\n2,null,1\n3,?,2\n",
            "line_in_quotes": 'a,"b\nc",d\n1,"x\r\n""y""",p\n2,z,q\n', "bare_cr": "a,b\r1,x\r2,y\r",
            "tabs": "a\tb\tc\n1\t\t0\n2\tx\t1\n\t\t\n", "decimal_comma": "a;b\n1,5;x\n2;y\n",
            "numbered": "0,1,b\n1,2,x\n3,4,y\n", "first_row": "5.1,3.5,x\n1,2,x\n3,4,y\n",
            "stray": "a,b\n1,0.5\n2,1\nx,2\n3,0\n", "equal": "a,b\n1,x\n1.0,y\np,x\nq,y\n",
            "odd_quotes": 'a,b\n1,x\n"1,x\n3,y\n"4"5,x\n"6","y"\n"2\n', "words": "a,b\n1,inf\n2,x\n3,nan\n",
            "twins": "a,a,b\n1,2,x\n3,4,y\n", "mixed": "a,b\n1,2\nx,3+\n2,1\n"}.items():
        put("csv", name, text)


def write_tokens() -> None:
    def llmc(count, tokens, version=1):
        return struct.pack("<III", 20240520, version, count) + bytes(1012) + tokens

    def wide(count, vocabulary, end):
        return (struct.pack("<IIQII", 20240801, 7, count, vocabulary, end) + bytes(1000) +
                struct.pack("<32I", *range(32)))

    tokens = struct.pack("<64H", *range(64))
    for name, content in {"bare": tokens, "odd": tokens[:-1], "empty": b"", "one": tokens[:2],
                          "llmc": llmc(64, tokens), "llmc_lies": llmc(2**32 - 1, tokens),
                          "llmc_version": llmc(64, tokens, 2), "llmc_none": llmc(0, b""),
                          "past_vocabulary": b"\xff" * 128,
                          "wide": wide(32, 40, 7), "wide_lies": wide(33, 40, 7),
                          "wide_end": wide(32, 40, 41), "wide_far": wide(2**63, 40, 7)}.items():
        put("tokens", name, content)


def npy(descr: str, shape: str, data: bytes, order: str = "False", version: int = 1) -> bytes:
    header = f"{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}\n".encode()
    length = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes([version, 0]) + length + header + data


def npz(arrays: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in arrays.items():
            entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            archive.writestr(entry, content, compression)
    return file.getvalue()


def write_numpy() -> None:
    labels = npy("|u1", "(4,)", bytes([0, 1, 2, 1]))
    floats = struct.pack("<8f", *range(8))
    table = npy("<f4", "(4, 2)", floats)
    for name, (x, y) in {
            "images": (npy("|u1", "(4, 2, 2)", bytes(range(16))), labels),
            "colours": (npy("|u1", "(4, 2, 2, 3)", bytes(range(48))), npy("<i8", "(4, 1)", struct.pack("<4q", 0, 1, 0, 1))),
            "channels_first": (npy("|u1", "(4, 3, 2, 2)", bytes(48)), labels), "table": (table, labels),
            "fortran": (npy("<f4", "(4, 2)", floats, "True"), labels),
            "version_2": (npy("<f4", "(4, 2)", floats, version=2), labels),
            "version_3": (npy("<f4", "(4, 2)", floats, version=3), labels),
            "halves": (npy("<f2", "(4, 2)", bytes(range(16))), npy("<f8", "(4,)", struct.pack("<4d", 1.5, 2, -3, 4))),
            "several": (table, npy("|u1", "(4, 2)", bytes([1, 0, 0, 0, 1, 1, 0, 1]))),
            "one_hot": (table, npy("|b1", "(4, 3)", bytes([1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 1]))),
            "float_images": (npy("<f4", "(4, 1, 2)", floats), labels), "big_endian": (npy(">f4", "(4, 2)", floats), labels),
            "objects": (npy("|O", "(4,)", b"pickle"), labels), "short": (table[:-1], labels), "long": (table + b"\0", labels),
            "huge": (npy("<f4", "(4, 4611686018427387904)", b""), labels), "no_shape": (npy("<f4", "()", floats[:4]), labels),
            "zero": (npy("<f4", "(4, 0)", b""), labels), "dimensions": (npy("<f4", "(1, 1, 1, 1, 1, 1, 1)", floats[:4]), labels),
            "python_2": (npy("<f4", "(4L, 2L)", floats), labels), "nan": (npy("<f4", "(4, 2)", b"\xff" * 32), labels),
            "fewer": (table, npy("|u1", "(3,)", bytes(3))), "nothing": (b"", b"")}.items():
        put("numpy", name, struct.pack("<H", len(x)) + x + y)
    keras = {"x_train.npy": table, "y_train.npy": labels, "x_test.npy": table, "y_test.npy": labels}
    whole, deflated = npz(keras), npz(keras, zipfile.ZIP_DEFLATED)
    bomb = npz({"x.npy": npy("|u1", "(2, 500000)", bytes(1_000_000)), "y.npy": npy("|u1", "(2,)", bytes([0, 1]))},
               zipfile.ZIP_DEFLATED)
    for name, content in {"keras": whole, "keras_deflated": deflated, "deflated_bomb": bomb,
                          "unnamed": npz({"arr_0.npy": table, "arr_1.npy": labels}),
                          "other_names": npz({"a.npy": table, "b.txt": b"text"}), "half": npz({"x_train.npy": table}),
                          "damaged": deflated[:90] + b"\xff" + deflated[91:], "cut": whole[:-30]}.items():
        put("numpy", name, content)
    tokens = struct.pack("<64H", *range(64))
    for name, content in {"npy": npy("<u2", "(64,)", tokens), "npy_wide": npy("<u4", "(32,)", tokens),
                          "npy_lies": npy("<u2", "(65,)", tokens), "npy_floats": npy("<f4", "(32,)", tokens)}.items():
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


def write() -> None:
    write_idx()
    write_cifar()
    write_csv()
    write_tokens()
    write_numpy()
    write_text()
