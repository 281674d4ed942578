# SPDX-License-Identifier: Apache-2.0
"""Machine code of CUDA kernels in objects, archives and programs, read without a tool of the toolkit.

It lies in such files as ELF files of NVIDIA's (machine 190), uncompressed unless nvcc is told otherwise. Attributes of
kernels are in sections .nv.info.
"""
import struct

EM_CUDA = 190
MAX_THREADS, REGISTER_COUNT, REQUIRED_THREADS = 0x05, 0x2F, 0x10  # attributes of .nv.info


class Cubin:
    """One ELF file of machine code within `data`, from `start` on."""

    def __init__(self, data, start):
        self.data = memoryview(data)[start:]
        (table,) = struct.unpack_from("<Q", self.data, 0x28)
        flags, = struct.unpack_from("<I", self.data, 0x30)
        entry, count, names = struct.unpack_from("<HHH", self.data, 0x3A)
        # The architecture moved with the version of the format that CUDA 13 writes.
        self.architecture = (flags >> 8) & 0xFF if self.data[8] >= 8 else flags & 0xFF
        rows = [struct.unpack_from("<IIQQQQIIQQ", self.data, table + i * entry) for i in range(count)]
        texts = self.body(rows[names])
        self.sections = [(texts[row[0]:texts.index(b"\0", row[0])].decode(), row) for row in rows]

    def body(self, row):
        return bytes(self.data[row[4]:row[4] + row[5]])

    def attributes(self, row):
        """The attributes of a section .nv.info as (number, bytes)."""
        body, at = self.body(row), 0
        while at + 4 <= len(body):
            form, number, size = struct.unpack_from("<BBH", body, at)
            value = body[at + 4:at + 4 + size] if form == 4 else body[at + 2:at + 4]
            at += 4 + (size if form == 4 else 0)
            yield number, value

    def symbols(self):
        """Names by their index."""
        by_name = dict(self.sections)
        table, texts = self.body(by_name[".symtab"]), self.body(by_name[".strtab"])
        names = [struct.unpack_from("<I", table, at)[0] for at in range(0, len(table), 24)]
        return [texts[name:texts.index(b"\0", name)].decode() for name in names]

    def kernels(self):
        """(name, registers a thread, threads a block or None, bytes of static shared memory) of each."""
        by_name = dict(self.sections)
        if ".nv.info" not in by_name:  # a file without kernels, as CUDA 12 writes it
            return
        registers = {}
        symbols = self.symbols()
        for number, value in self.attributes(by_name[".nv.info"]):
            if number == REGISTER_COUNT:
                symbol, count = struct.unpack("<II", value)
                registers[symbols[symbol]] = count
        for section, row in self.sections:
            if not section.startswith(".nv.info."):
                continue
            name, threads = section[len(".nv.info."):], None
            if ".text." + name not in by_name or name not in registers:
                continue
            for number, value in self.attributes(row):
                if number in (MAX_THREADS, REQUIRED_THREADS):
                    x, y, z = struct.unpack("<III", value)
                    threads = x * y * z
            shared = by_name.get(".nv.shared." + name)
            yield name, registers[name], threads, shared[5] if shared else 0

    def code(self, name):
        """The machine code of a kernel."""
        return self.body(dict(self.sections)[".text." + name])


def cubins(data):
    start = data.find(b"\x7fELF")
    while start >= 0:
        if len(data) >= start + 64 and struct.unpack_from("<H", data, start + 18)[0] == EM_CUDA:
            yield Cubin(data, start)
        start = data.find(b"\x7fELF", start + 4)
