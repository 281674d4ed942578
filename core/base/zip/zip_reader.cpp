// SPDX-License-Identifier: Apache-2.0
#include "core/base/zip/zip_reader.h"

#include <algorithm>
#include <vector>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/base/text/printable.h"
#include "core/base/zip/zip_format.h"

namespace lockstep {
namespace {

constexpr std::uint64_t kMaxComment = 0xffff;
constexpr std::uint64_t kMaxEntries = 1 << 18;  // several for each tensor of any model
constexpr std::uint64_t kMaxDirectoryBytes = std::uint64_t{64} << 20;  // of so many with names
constexpr std::uint16_t kEncrypted = 1, kStored = 0, kDeflated = 8;

[[noreturn]] void refuse_zip(const FileReader& file, const std::string& why) {
  throw DataError(fmt::format("{}: {}", as_written(file.path().string()), as_written(why)),
                  "the file is damaged or cut short: copy or download it again");
}

std::vector<std::byte> read_part(const FileReader& file,
                                 std::uint64_t offset,
                                 std::uint64_t bytes) {
  if (bytes > file.bytes() || offset > file.bytes() - bytes)
    refuse_zip(file, "a part of the zip archive lies after the end of the file");
  std::vector<std::byte> part(bytes);
  file.read(file.path().string(), offset, part);
  return part;
}

/// What of an entry's numbers does not fit into 32 bits, in the order of the format.
void read_extra64(std::span<const std::byte> extra, std::initializer_list<std::uint64_t*> numbers) {
  while (extra.size() >= 4) {
    const auto id = number_at<std::uint16_t>(extra, 0);
    const std::size_t bytes =
        std::min<std::size_t>(number_at<std::uint16_t>(extra, 2), extra.size() - 4);
    if (id == kExtra64) {
      std::span<const std::byte> rest = extra.subspan(4, bytes);
      for (std::uint64_t* number : numbers) {
        if (*number != kInExtra64 || rest.size() < 8) continue;
        *number = number_at<std::uint64_t>(rest, 0);
        rest = rest.subspan(8);
      }
      return;
    }
    extra = extra.subspan(4 + bytes);
  }
}

}  // namespace

ZipReader::ZipReader(const FileReader& file) : file_(file) { parse(find_directory()); }

ZipReader::Directory ZipReader::find_directory() const {
  const std::uint64_t tail = std::min(file_.bytes(), kMaxComment + kEndRecordBytes);
  const std::vector<std::byte> end = read_part(file_, file_.bytes() - tail, tail);
  for (std::size_t back = kEndRecordBytes; back <= end.size(); ++back) {
    const std::size_t at = end.size() - back;
    if (number_at<std::uint32_t>(end, at) != kEndRecord ||
        number_at<std::uint16_t>(end, at + 20) != back - kEndRecordBytes)
      continue;
    const Directory directory{.offset = number_at<std::uint32_t>(end, at + 16),
                              .bytes = number_at<std::uint32_t>(end, at + 12),
                              .entries = number_at<std::uint16_t>(end, at + 10)};
    const bool wide = directory.offset == kInExtra64 || directory.bytes == kInExtra64 ||
                      directory.entries == 0xffff;
    return wide ? find_directory64(file_.bytes() - back) : directory;
  }
  refuse_zip(file_, "begins as a zip archive, but has no directory at its end");
}

ZipReader::Directory ZipReader::find_directory64(std::uint64_t end_record) const {
  if (end_record < kEndLocator64Bytes) refuse_zip(file_, "its zip64 directory is missing");
  const auto locator = read_part(file_, end_record - kEndLocator64Bytes, kEndLocator64Bytes);
  if (number_at<std::uint32_t>(locator, 0) != kEndLocator64)
    refuse_zip(file_, "its zip64 directory is missing");
  const auto record = read_part(file_, number_at<std::uint64_t>(locator, 8), kEndRecord64Bytes);
  if (number_at<std::uint32_t>(record, 0) != kEndRecord64)
    refuse_zip(file_, "its zip64 directory is not where it should be");
  return {.offset = number_at<std::uint64_t>(record, 48),
          .bytes = number_at<std::uint64_t>(record, 40),
          .entries = number_at<std::uint64_t>(record, 32)};
}

void ZipReader::parse(const Directory& directory) {
  if (directory.entries > kMaxEntries)
    refuse_zip(file_, fmt::format("claims {} entries", directory.entries));
  if (directory.bytes > kMaxDirectoryBytes)
    refuse_zip(file_, fmt::format("claims a directory of {} bytes", directory.bytes));
  const std::vector<std::byte> bytes = read_part(file_, directory.offset, directory.bytes);
  std::span<const std::byte> rest = bytes;
  for (std::uint64_t i = 0; i < directory.entries; ++i) {
    if (rest.size() < kCentralHeaderBytes || number_at<std::uint32_t>(rest, 0) != kCentralHeader)
      refuse_zip(file_, fmt::format("entry {} of its directory is malformed", i));
    const std::size_t size = kCentralHeaderBytes + number_at<std::uint16_t>(rest, 28) +
                             number_at<std::uint16_t>(rest, 30) +
                             number_at<std::uint16_t>(rest, 32);
    if (rest.size() < size) refuse_zip(file_, fmt::format("entry {} is cut short", i));
    add(rest.first(size));
    rest = rest.subspan(size);
  }
}

void ZipReader::add(std::span<const std::byte> header) {
  const auto name_bytes = number_at<std::uint16_t>(header, 28);
  const std::string name(reinterpret_cast<const char*>(header.subspan(kCentralHeaderBytes).data()),
                         name_bytes);
  Listed listed{.header = number_at<std::uint32_t>(header, 42),
                .bytes = number_at<std::uint32_t>(header, 24),
                .stored_bytes = number_at<std::uint32_t>(header, 20),
                .crc32 = number_at<std::uint32_t>(header, 16),
                .flags = number_at<std::uint16_t>(header, 8),
                .method = number_at<std::uint16_t>(header, 10)};
  read_extra64(
      header.subspan(kCentralHeaderBytes + name_bytes, number_at<std::uint16_t>(header, 30)),
      {&listed.bytes, &listed.stored_bytes, &listed.header});
  if (listed.method == kStored && listed.bytes != listed.stored_bytes)
    refuse_zip(file_, "a stored entry has two sizes: " + printable(name));
  if (!directory_.emplace(name, listed).second)
    refuse_zip(file_, "two entries have the same name: " + printable(name));
}

std::string ZipReader::find_ending(std::string_view suffix) const {
  std::string found;
  for (const auto& [name, listed] : directory_) {
    if (!name.ends_with(suffix) || name.find('/') != name.size() - suffix.size()) continue;
    LOCKSTEP_CHECK(found.empty(),
                   DataError,
                   "{}: holds {} and {}, expected one of them",
                   as_written(file_.path().string()),
                   as_written(printable(found)),
                   as_written(printable(name)));
    found = name;
  }
  return found;
}

ZipEntry ZipReader::entry(std::string_view name) const {
  const auto found = directory_.find(name);
  if (found == directory_.end())
    refuse_zip(file_, fmt::format("{} is missing in the archive", printable(name)));
  const Listed& listed = found->second;
  const bool is_encrypted = (listed.flags & kEncrypted) != 0;
  if (is_encrypted || (listed.method != kStored && listed.method != kDeflated))
    throw DataError(
        fmt::format("{}: {} is {}",
                    as_written(file_.path().string()),
                    as_written(printable(name)),
                    is_encrypted ? std::string("encrypted")
                                 : fmt::format("compressed by method {}", listed.method)),
        "write it anew as it is, or deflated");
  const auto header = read_part(file_, listed.header, kLocalHeaderBytes);
  const std::uint64_t offset = listed.header + kLocalHeaderBytes +
                               number_at<std::uint16_t>(header, 26) +
                               number_at<std::uint16_t>(header, 28);
  if (number_at<std::uint32_t>(header, 0) != kLocalHeader || offset > file_.bytes() ||
      listed.stored_bytes > file_.bytes() - offset)
    refuse_zip(file_, fmt::format("{} does not lie where its directory says", printable(name)));
  return {offset, listed.bytes, listed.stored_bytes, listed.crc32, listed.method == kDeflated};
}

ZipEntry ZipReader::stored_entry(std::string_view name) const {
  const ZipEntry found = entry(name);
  if (found.is_deflated)
    throw DataError(fmt::format("{}: {} is compressed; torch.save() stores entries as they are",
                                as_written(file_.path().string()),
                                as_written(printable(name))),
                    "read it with torch.load() and write it with torch.save()");
  return found;
}

std::vector<std::string> ZipReader::names() const {
  std::vector<std::string> names;
  for (const auto& [name, listed] : directory_) names.push_back(name);
  return names;
}

std::string ZipReader::read_text(std::string_view name, std::uint64_t max_bytes) const {
  const ZipEntry found = stored_entry(name);
  LOCKSTEP_CHECK(found.bytes <= max_bytes,
                 DataError,
                 "{}: {} has {} bytes, expected at most {}",
                 as_written(file_.path().string()),
                 as_written(printable(name)),
                 found.bytes,
                 max_bytes);
  std::string text(found.bytes, '\0');
  file_.read(file_.path().string(), found.offset, std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace lockstep
