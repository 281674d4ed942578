# SPDX-License-Identifier: Apache-2.0
"""Small files under the names that the documents use."""
import json
import random
import struct
import zlib


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def mnist(folder):
    """data/mnist: 1,024 and 128 images in which the digit is the place of a bright column."""
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
    """photos: 32 and 8 images of two classes."""
    for part, count in (("train", 16), ("val", 4)):
        for i in range(2 * count):
            write(folder / f"photos/{part}/{('cat', 'dog')[i % 2]}/{i:03}.png",
                  png(40, lambda x, y, i=i: (i % 2 * 150 + x, i * 5 % 100, y * 3)))


def new_photo(folder):
    """new.png: an image of another size, in no class folder."""
    write(folder / "new.png", png(57, lambda x, y: (x, y * 2, 90)))


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


def houses(folder):
    """houses.csv: 160 rows with gaps; sold_houses.csv: 40 others;
    new_houses.csv: 20 without prices."""
    chance = random.Random(4)
    extra = {"north": 0, "old town": 90000, "harbour": 45000}

    def rows(count, first, priced):
        lines = ["id;area;price;district;year" if priced else "id;area;district;year"]
        for i in range(first, first + count):
            area, district = round(chance.uniform(30, 200), 1), chance.choice(list(extra))
            price = 40000 + 2500 * area + extra[district] + chance.gauss(0, 9000)
            shown = "" if chance.random() < 0.1 else area
            middle = f"{price:.2f};" if priced else ""
            lines.append(f"h{i};{shown};{middle}{district};{chance.randint(1900, 2020)}")
        return "\n".join(lines) + "\n"

    write(folder / "houses.csv", rows(160, 0, True))
    write(folder / "sold_houses.csv", rows(40, 500, True))
    write(folder / "new_houses.csv", rows(20, 900, False))


def gpt2_folder(folder):
    """gpt2/: a Hugging Face folder of a small GPT-2 with random weights; corpus.bin: tokens for it."""
    chance = random.Random(5)
    layers, width, context, vocabulary = 2, 16, 32, 64
    shapes = {"wte.weight": [vocabulary, width], "wpe.weight": [context, width],
              "ln_f.weight": [width], "ln_f.bias": [width]}
    for layer in range(layers):
        for name, shape in {"ln_1.weight": [width], "ln_1.bias": [width],
                            "attn.c_attn.weight": [width, 3 * width],
                            "attn.c_attn.bias": [3 * width], "attn.c_proj.weight": [width, width],
                            "attn.c_proj.bias": [width], "ln_2.weight": [width],
                            "ln_2.bias": [width], "mlp.c_fc.weight": [width, 4 * width],
                            "mlp.c_fc.bias": [4 * width], "mlp.c_proj.weight": [4 * width, width],
                            "mlp.c_proj.bias": [width]}.items():
            shapes[f"h.{layer}.{name}"] = shape
    header, data = {}, b""
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        content = struct.pack(f"<{count}f", *(chance.gauss(0, 0.02) for _ in range(count)))
        header["transformer." + name] = {"dtype": "F32", "shape": shape,
                                         "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    write(folder / "gpt2/model.safetensors", struct.pack("<Q", len(text)) + text + data)
    write(folder / "gpt2/config.json", json.dumps(
        {"model_type": "gpt2", "n_layer": layers, "n_head": 2, "n_embd": width,
         "n_positions": context, "vocab_size": vocabulary}))
    write(folder / "corpus.bin", struct.pack("<2000H", *(chance.randrange(vocabulary)
                                                         for _ in range(2000))))


def text(folder):
    """tinyshakespeare.txt: 30,000 characters."""
    chance = random.Random(3)
    words = "ROMEO: JULIET: what light through yonder window breaks it is the east and the sun".split()
    write(folder / "tinyshakespeare.txt",
          "\n".join(" ".join(chance.choices(words, k=8)) for _ in range(700)) + "\n")


FIXTURES = {"mnist": mnist, "photos": photos, "new_photo": new_photo, "iris": iris, "text": text,
            "houses": houses, "gpt2_folder": gpt2_folder}
