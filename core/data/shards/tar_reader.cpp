// SPDX-License-Identifier: Apache-2.0
#include "core/data/shards/tar_reader.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string_view>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/base/text/printable.h"

namespace lockstep::data {
namespace {

// Where the fields of a header lie (POSIX 1003.1, pax, "ustar Interchange Format").
struct TarField {
  std::size_t offset, bytes;
};
constexpr TarField kTarName{0, 100}, kTarSize{124, 12}, kTarSum{148, 8}, kTarKind{156, 1},
    kTarMagic{257, 5}, kTarPrefix{345, 155};
constexpr std::uint64_t kMaxTarExtension = std::uint64_t{1} << 16;
constexpr std::uint64_t kMaxTarBytes = std::uint64_t{1} << 62;

std::string_view tar_field(std::span<const std::byte> header, TarField field) {
  return {reinterpret_cast<const char*>(header.data()) + field.offset, field.bytes};
}

/// Up to the first zero byte.
std::string_view tar_text(std::span<const std::byte> header, TarField field) {
  const std::string_view text = tar_field(header, field);
  return text.substr(0, text.find('\0'));
}

/// Octal digits between spaces; or, of GNU tar, 80 and a number in network byte order.
std::optional<std::uint64_t> tar_number(std::span<const std::byte> header, TarField field) {
  std::string_view text = tar_field(header, field);
  std::uint64_t number = 0;
  if (std::uint8_t(text[0]) == 0x80) {
    for (const char c : text.substr(1)) {
      if (number >= kMaxTarBytes >> 8) return std::nullopt;
      number = number << 8 | std::uint8_t(c);
    }
    return number;
  }
  while (text.starts_with(' ')) text.remove_prefix(1);
  text = text.substr(0, text.find('\0'));
  while (text.ends_with(' ')) text.remove_suffix(1);
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number, 8);
  if (status != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// Of all bytes, those of the sum itself as spaces.
std::uint64_t tar_sum(std::span<const std::byte> header) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < header.size(); ++i) {
    const bool in_sum = i >= kTarSum.offset && i < kTarSum.offset + kTarSum.bytes;
    sum += in_sum ? std::uint64_t{' '} : std::to_integer<std::uint64_t>(header[i]);
  }
  return sum;
}

bool is_zero_block(std::span<const std::byte> block) {
  return std::ranges::all_of(block, [](std::byte byte) { return byte == std::byte{0}; });
}

std::uint64_t in_blocks(std::uint64_t bytes) {
  return (bytes + kTarBlockBytes - 1) / kTarBlockBytes * kTarBlockBytes;
}

struct TarCompression {
  std::string_view begin, name, remedy;
};
constexpr TarCompression kTarCompressions[] = {{"\x1f\x8b", "gzip", "gunzip"},
                                               {"\x28\xb5\x2f\xfd", "zstd", "unzstd"},
                                               {"BZh", "bzip2", "bunzip2"},
                                               {"\xfd\x37zXZ", "xz", "unxz"}};

}  // namespace

std::string tar_header_name(std::span<const std::byte> header) {
  const std::string_view prefix =
      tar_field(header, kTarMagic) == "ustar" ? tar_text(header, kTarPrefix) : std::string_view();
  const std::string name(tar_text(header, kTarName));
  // GNU tar has times where ustar has the prefix, which then is not a text.
  const bool is_gnu = tar_field(header, {kTarMagic.offset + 5, 1}) == " ";
  return prefix.empty() || is_gnu ? name : fmt::format("{}/{}", prefix, name);
}

TarReader::TarReader(const std::string& path) : path_(path), file_(path) { check_compression(); }

void TarReader::check_compression() const {
  LOCKSTEP_CHECK(file_.bytes() > 0, DataError, "{}: the file is empty", as_written(path_));
  std::array<std::byte, 8> begin{};
  file_.read(path_, 0, std::span(begin).first(std::min<std::uint64_t>(8, file_.bytes())));
  const std::string_view text(reinterpret_cast<const char*>(begin.data()), begin.size());
  for (const TarCompression& kind : kTarCompressions)
    if (text.starts_with(kind.begin))
      throw DataError(
          fmt::format("{}: a tar compressed by {}, whose samples cannot be read in any order",
                      as_written(path_),
                      kind.name),
          fmt::format("decompress it: {} {} (images are compressed already, so it grows little)",
                      kind.remedy,
                      path_));
}

void TarReader::refuse(std::uint64_t at, const std::string& what) const {
  throw DataError(fmt::format("{}: byte {}: {}", as_written(path_), at, what),
                  "copy or write the shard again");
}

std::span<const std::byte> TarReader::block(std::uint64_t at) const {
  if (at < held_at_ || at + kTarBlockBytes > held_at_ + held_bytes_) {
    if (at > file_.bytes() || file_.bytes() - at < kTarBlockBytes)
      refuse(file_.bytes(), "the file is cut off: expected another header or the end mark");
    held_bytes_ = std::size_t(std::min<std::uint64_t>(held_.size(), file_.bytes() - at));
    held_at_ = at;
    file_.read(path_, at, std::span(held_).first(held_bytes_));
  }
  return std::span<const std::byte>(held_).subspan(std::size_t(at - held_at_), kTarBlockBytes);
}

std::span<const std::byte> TarReader::next_header() {
  const std::span<const std::byte> header = block(at_);
  if (is_zero_block(header)) return {};
  const auto sum = tar_number(header, kTarSum);
  if (!sum || *sum != tar_sum(header))
    refuse(at_,
           at_ == 0 ? "not a tar: the sum of its first header does not fit"
                    : "a damaged header: its sum does not fit");
  return header;
}

std::optional<TarMember> TarReader::next() {
  Extended extended;
  for (;;) {
    const std::span<const std::byte> header = next_header();
    if (header.empty()) return std::nullopt;
    const char kind = tar_field(header, kTarKind)[0];
    const std::optional<std::uint64_t> said = tar_number(header, kTarSize);
    if (!said) refuse(at_ + kTarSize.offset, "a size that is not a number");
    const bool is_extension = kind == 'L' || kind == 'K' || kind == 'x' || kind == 'g';
    const std::uint64_t bytes = is_extension ? *said : extended.bytes.value_or(*said);
    TarMember member{extended.name.empty() ? tar_header_name(header) : extended.name,
                     at_ + kTarBlockBytes,
                     bytes};
    if (bytes > file_.bytes() || member.offset > file_.bytes() - bytes)
      refuse(file_.bytes(),
             fmt::format("the file is cut off in {}, which has {} bytes from byte {} on",
                         as_written(printable(member.name)),
                         bytes,
                         member.offset));
    if (is_extension) {
      read_extension(kind, bytes, extended);
      at_ = member.offset + in_blocks(bytes);
      continue;
    }
    const bool is_folder = kind == '5' || member.name.ends_with('/');
    const bool is_file = kind == '0' || kind == '\0' || kind == '7';
    if (!is_folder && !is_file)
      refuse(at_,
             fmt::format("{} is {}, expected a file",
                         as_written(printable(member.name)),
                         kind == '1' || kind == '2'
                             ? std::string("a link")
                             : fmt::format("of kind '{}'", printable(std::string(1, kind)))));
    at_ = member.offset + (kind == '5' ? 0 : in_blocks(bytes));
    if (is_file && !is_folder) return member;
    extended = {};
  }
}

void TarReader::read_extension(char kind, std::uint64_t bytes, Extended& extended) {
  if (bytes > kMaxTarExtension)
    refuse(at_,
           fmt::format(
               "an extended header of {} bytes, expected at most {}", bytes, kMaxTarExtension));
  if (kind == 'K' || kind == 'g') return;  // of links; of all members, as who wrote them
  std::string text(std::size_t(bytes), '\0');
  file_.read(path_, at_ + kTarBlockBytes, std::as_writable_bytes(std::span(text)));
  if (kind == 'x') return read_pax(text, at_ + kTarBlockBytes, extended);
  extended.name = text.substr(0, text.find('\0'));
}

/// Records "LENGTH KEY=VALUE\n", the length being that of all of it.
void TarReader::read_pax(const std::string& text, std::uint64_t at, Extended& extended) const {
  for (std::string_view rest = text; !rest.empty();) {
    std::size_t length = 0;
    const auto [end, status] = std::from_chars(rest.data(), rest.data() + rest.size(), length);
    const auto digits = std::size_t(end - rest.data());
    if (status != std::errc{} || length <= digits + 1 || length > rest.size() ||
        rest[digits] != ' ' || rest[length - 1] != '\n')
      refuse(at, "a damaged pax header");
    const std::string_view record = rest.substr(digits + 1, length - digits - 2);
    rest.remove_prefix(length);
    if (record.starts_with("path=")) extended.name = record.substr(5);
    if (record.starts_with("GNU.sparse."))
      refuse(at, "a sparse file, expected one whose bytes are all there");
    if (!record.starts_with("size=")) continue;
    std::uint64_t bytes = 0;
    const std::string_view number = record.substr(5);
    const auto parsed = std::from_chars(number.data(), number.data() + number.size(), bytes);
    if (parsed.ec != std::errc{} || parsed.ptr != number.data() + number.size())
      refuse(at, "a size that is not a number");
    extended.bytes = bytes;
  }
}

std::string TarReader::read_text(const TarMember& member, std::size_t max_bytes) const {
  if (member.bytes > max_bytes)
    refuse(member.offset,
           fmt::format("{} has {} bytes, expected at most {}",
                       as_written(printable(member.name)),
                       member.bytes,
                       max_bytes));
  std::string text(std::size_t(member.bytes), '\0');
  const bool is_held =
      member.offset >= held_at_ && member.offset + member.bytes <= held_at_ + held_bytes_;
  if (is_held)
    std::memcpy(text.data(), held_.data() + (member.offset - held_at_), text.size());
  else
    file_.read(path_, member.offset, std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace lockstep::data
