# SPDX-License-Identifier: Apache-2.0
"""Small files under the names that the documents use."""
import random
import struct
import zlib


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def mnist(folder):
    """data/mnist: 1,024 and 128 pictures in which the digit is the place of a bright column."""
    chance = random.Random(1)
    for part, count in (("train", 1024), ("t10k", 128)):
        pixels, labels = bytearray(), bytes(i % 10 for i in range(count))
        for label in labels:
            row = bytes(200 if x // 2 == label else chance.randrange(40) for x in range(28))
            pixels += row * 28
        write(folder / f"data/mnist/{part}-images-idx3-ubyte",
              struct.pack(">IIII", 0x803, count, 28, 28) + pixels)
        write(folder / f"data/mnist/{part}-labels-idx1-ubyte",
              struct.pack(">II", 0x801, count) + labels)


def png(size, pixel):
    """An RGB file whose pixel (x, y) is pixel(x, y)."""
    def chunk(name, body):
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    rows = b"".join(b"\0" + bytes(v for x in range(size) for v in pixel(x, y)) for y in range(size))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def photos(folder):
    """photos: 32 and 8 pictures of two classes."""
    for part, count in (("train", 16), ("val", 4)):
        for i in range(2 * count):
            write(folder / f"photos/{part}/{('cat', 'dog')[i % 2]}/{i:03}.png",
                  png(40, lambda x, y, i=i: (i % 2 * 150 + x, i * 5 % 100, y * 3)))


def iris(folder):
    """iris.csv: 150 rows, 4 numbers, three separable kinds."""
    chance = random.Random(2)
    lines = ["sepal_length,sepal_width,petal_length,petal_width,species"]
    for i in range(150):
        numbers = (5 + i % 3 + chance.random(), 3 - i % 3 / 2 + chance.random(),
                   1.5 + 2 * (i % 3) + chance.random(), 0.2 + i % 3 + chance.random() / 2)
        lines.append(",".join(f"{n:.1f}" for n in numbers) + "," +
                     ("setosa", "versicolor", "virginica")[i % 3])
    write(folder / "iris.csv", "\n".join(lines) + "\n")


def text(folder):
    """tinyshakespeare.txt: 30,000 characters."""
    chance = random.Random(3)
    words = "ROMEO: JULIET: what light through yonder window breaks it is the east and the sun".split()
    write(folder / "tinyshakespeare.txt",
          "\n".join(" ".join(chance.choices(words, k=8)) for _ in range(700)) + "\n")


FIXTURES = {"mnist": mnist, "photos": photos, "iris": iris, "text": text}
