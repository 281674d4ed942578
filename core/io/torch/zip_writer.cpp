// SPDX-License-Identifier: Apache-2.0
#include "core/io/torch/zip_writer.h"

#include <algorithm>
#include <string_view>
#include <zlib.h>

#include "core/base/zip/zip_format.h"

namespace lockstep::io::torch {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::uint16_t kVersion = 20, kVersion64 = 45;
constexpr std::uint16_t kDate = 0x21;       // 1 January 1980, the first there is
constexpr std::uint16_t kPadding = 0x4246;  // the extra field "FB", as PyTorch pads with
constexpr std::uint16_t kUtf8 = 1 << 11;    // what names are
constexpr std::size_t kExtraHeaderBytes = 4;

template <typename... Numbers>
std::string packed(Numbers... numbers) {
  std::string text;
  (text.append(reinterpret_cast<const char*>(&numbers), sizeof numbers), ...);
  return text;
}

bool is_wide(std::uint64_t number) { return number >= kInExtra64; }
std::uint32_t narrow(std::uint64_t number) {
  return std::uint32_t(std::min<std::uint64_t>(number, kInExtra64));
}

}  // namespace

void ZipWriter::write(std::string_view bytes) {
  out_.write(std::as_bytes(std::span(bytes)));
  at_ += bytes.size();
}

void ZipWriter::add(const std::string& name, std::span<const std::byte> data) {
  const auto crc =
      std::uint32_t(crc32_z(0, reinterpret_cast<const unsigned char*>(data.data()), data.size()));
  const bool wide = is_wide(data.size());
  std::string extra;
  if (wide)
    extra =
        packed(kExtra64, std::uint16_t(16), std::uint64_t(data.size()), std::uint64_t(data.size()));
  const std::uint64_t unpadded =
      at_ + kLocalHeaderBytes + name.size() + extra.size() + kExtraHeaderBytes;
  const std::size_t padding = (kAlignment - unpadded % kAlignment) % kAlignment;
  extra += packed(kPadding, std::uint16_t(padding)) + std::string(padding, 'Z');
  entries_.push_back({name, crc, data.size(), at_});
  write(packed(kLocalHeader,
               wide ? kVersion64 : kVersion,
               kUtf8,
               std::uint16_t(0),
               std::uint16_t(0),
               kDate,
               crc,
               narrow(data.size()),
               narrow(data.size()),
               std::uint16_t(name.size()),
               std::uint16_t(extra.size())) +
        name + extra);
  out_.write(data);
  at_ += data.size();
}

void ZipWriter::finish() {
  const std::uint64_t start = at_;
  for (const Entry& entry : entries_) {
    std::string extra;
    if (is_wide(entry.bytes)) extra += packed(entry.bytes, entry.bytes);
    if (is_wide(entry.header)) extra += packed(entry.header);
    if (!extra.empty()) extra = packed(kExtra64, std::uint16_t(extra.size())) + extra;
    const std::uint16_t version = extra.empty() ? kVersion : kVersion64;
    write(packed(kCentralHeader,
                 version,
                 version,
                 kUtf8,
                 std::uint16_t(0),
                 std::uint16_t(0),
                 kDate,
                 entry.crc,
                 narrow(entry.bytes),
                 narrow(entry.bytes),
                 std::uint16_t(entry.name.size()),
                 std::uint16_t(extra.size()),
                 std::uint16_t(0),
                 std::uint16_t(0),
                 std::uint16_t(0),
                 std::uint32_t(0),
                 narrow(entry.header)) +
          entry.name + extra);
  }
  const std::uint64_t bytes = at_ - start, count = entries_.size();
  const auto shown = std::uint16_t(std::min<std::uint64_t>(count, 0xffff));
  if (is_wide(start) || is_wide(bytes) || count >= 0xffff) {
    const std::uint64_t record = at_;
    write(packed(kEndRecord64,
                 std::uint64_t(kEndRecord64Bytes - 12),
                 kVersion64,
                 kVersion64,
                 std::uint32_t(0),
                 std::uint32_t(0),
                 count,
                 count,
                 bytes,
                 start));
    write(packed(kEndLocator64, std::uint32_t(0), record, std::uint32_t(1)));
  }
  write(packed(kEndRecord,
               std::uint16_t(0),
               std::uint16_t(0),
               shown,
               shown,
               narrow(bytes),
               narrow(start),
               std::uint16_t(0)));
}

}  // namespace lockstep::io::torch
