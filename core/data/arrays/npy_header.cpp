// SPDX-License-Identifier: Apache-2.0
#include "core/data/arrays/npy_header.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <fmt/ranges.h>
#include <optional>
#include <string_view>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/base/text/printable.h"
#include "lockstep/shape.h"

namespace lockstep::data {
namespace {

static_assert(std::endian::native == std::endian::little, "arrays are read as they lie");

constexpr std::string_view kNpyMagic = "\x93NUMPY";
constexpr std::uint64_t kMaxNpyArrayBytes = std::uint64_t{1} << 62;

/// A type that is not read: what it is, and what to do.
[[noreturn]] void refuse_npy_type(const std::string& name,
                                  std::string_view descr,
                                  const std::string& what,
                                  const std::string& hint) {
  throw DataError(
      fmt::format("{}: elements of type '{}' {}", as_written(name), printable(descr), what), hint);
}

NpyType parse_npy_type(const std::string& name, std::string_view descr) {
  constexpr const char* kTypes =
      "expected bool, int8 to int64, uint8 to uint64 or float16 to float64";
  if (descr.find('O') != descr.npos)
    refuse_npy_type(name,
                    descr,
                    "are pickled Python objects, which are not read",
                    "save an array of numbers: numpy.save(FILE, numpy.stack(list_of_arrays))");
  constexpr std::string_view kOrders = "<>=|";
  const bool is_sized = descr.size() == 3 && kOrders.find(descr[0]) != kOrders.npos;
  const int bytes = is_sized ? descr[2] - '0' : 0;
  using Kind = NpyType::Kind;
  std::optional<Kind> kind;
  if (is_sized) {
    const bool whole_size = bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
    if (descr[1] == 'b' && bytes == 1) kind = Kind::boolean;
    if (descr[1] == 'u' && whole_size) kind = Kind::unsigned_whole;
    if (descr[1] == 'i' && whole_size) kind = Kind::whole;
    if (descr[1] == 'f' && whole_size && bytes > 1) kind = Kind::real;
  }
  if (!kind) refuse_npy_type(name, descr, "are not read", kTypes);
  if (descr[0] == '>' && bytes > 1)
    refuse_npy_type(name,
                    descr,
                    "are big-endian",
                    fmt::format("convert them: x.astype('<{}')", descr.substr(1)));
  return {*kind, bytes};
}

/// Reads the Python dictionary of a header.
class NpyHeaderParser {
 public:
  NpyHeaderParser(const std::string& name, std::string_view text) : name_(name), text_(text) {}

  NpyHeader parse() {
    expect('{');
    while (!take('}')) {
      const std::string_view key = quoted();
      expect(':');
      member(key);
      if (take('}')) break;
      expect(',');
    }
    skip_space();
    require(at_ == text_.size(), "the end of the header");
    require(has_descr_ && has_order_ && has_shape_, "descr, fortran_order and shape");
    return std::move(header_);
  }

 private:
  void member(std::string_view key) {
    if (key == "descr") {
      skip_space();
      if (at_ < text_.size() && text_[at_] == '[')
        refuse_npy_type(name_, "[...]", "are records of several fields", "save one array a field");
      header_.type = parse_npy_type(name_, quoted());
      require(!std::exchange(has_descr_, true), "descr once");
    } else if (key == "fortran_order") {
      header_.is_fortran = word("True");
      require(header_.is_fortran || word("False"), "True or False");
      require(!std::exchange(has_order_, true), "fortran_order once");
    } else if (key == "shape") {
      shape();
      require(!std::exchange(has_shape_, true), "shape once");
    } else {
      require(false, "descr, fortran_order and shape");
    }
  }

  void shape() {
    expect('(');
    while (!take(')')) {
      header_.shape.push_back(whole_number());
      require(header_.shape.size() <= std::size_t(Shape::kMaxRank), "at most 6 dimensions");
      if (take(')')) return;
      expect(',');
    }
  }

  std::int64_t whole_number() {
    skip_space();
    std::int64_t number = 0;
    const char* const end = text_.data() + text_.size();
    const auto [next, status] = std::from_chars(text_.data() + at_, end, number);
    require(status == std::errc{} && number >= 0, "an extent of 0 or more");
    at_ = std::size_t(next - text_.data());
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // of Python 2
    return number;
  }

  std::string_view quoted() {
    skip_space();
    require(at_ < text_.size() && (text_[at_] == '\'' || text_[at_] == '"'), "a text in quotes");
    const std::size_t end = text_.find(text_[at_], at_ + 1);
    require(end != text_.npos, "a quote that closes");
    const std::string_view result = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return result;
  }

  bool word(std::string_view expected) {
    skip_space();
    if (!text_.substr(at_).starts_with(expected)) return false;
    at_ += expected.size();
    return true;
  }

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool take(char c) {
    skip_space();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) { require(take(c), fmt::format("'{}'", c)); }

  void require(bool holds, std::string_view expected) const {
    if (holds) return;
    throw DataError(fmt::format("{}: the header is damaged: expected {} at its character {}, got "
                                "\"{}\"",
                                as_written(name_),
                                expected,
                                at_,
                                as_written(printable(text_.substr(at_), 40))),
                    "write the array anew with numpy.save()");
  }

  const std::string& name_;
  std::string_view text_;
  std::size_t at_ = 0;
  NpyHeader header_;
  bool has_descr_ = false, has_order_ = false, has_shape_ = false;
};

struct NpyPrefix {
  std::uint64_t length_bytes = 2;  ///< of the number that says how long the dictionary is
  std::uint64_t dictionary = 0;
  std::uint64_t begin() const { return kNpyMagic.size() + 2 + length_bytes; }
};

NpyPrefix parse_npy_prefix(const std::string& name, std::span<const std::byte> bytes) {
  if (!is_npy(bytes))
    throw DataError(as_written(name) + ": expected an .npy file, which begins with \\x93NUMPY",
                    "numpy.save(FILE, array) writes one");
  const auto at = [&](std::size_t i) {
    LOCKSTEP_CHECK(i < bytes.size(),
                   DataError,
                   "{}: the file ends after {} bytes, in its header",
                   as_written(name),
                   bytes.size());
    return std::to_integer<std::uint64_t>(bytes[i]);
  };
  const std::uint64_t major = at(6), minor = at(7);
  LOCKSTEP_CHECK(major >= 1 && major <= 3 && minor == 0,
                 DataError,
                 "{}: expected an .npy file of version 1.0, 2.0 or 3.0, got {}.{}",
                 as_written(name),
                 major,
                 minor);
  NpyPrefix prefix{.length_bytes = major == 1 ? std::uint64_t{2} : std::uint64_t{4}};
  for (std::size_t i = 0; i < prefix.length_bytes; ++i) prefix.dictionary |= at(8 + i) << (8 * i);
  LOCKSTEP_CHECK(prefix.dictionary <= kMaxNpyHeaderBytes,
                 DataError,
                 "{}: the header claims {} bytes, expected at most {}",
                 as_written(name),
                 prefix.dictionary,
                 kMaxNpyHeaderBytes);
  return prefix;
}

}  // namespace

std::string NpyType::name() const {
  if (kind == Kind::boolean) return "bool";
  const char* const family = kind == Kind::real ? "float" : kind == Kind::whole ? "int" : "uint";
  return fmt::format("{}{}", family, 8 * bytes);
}

std::uint64_t NpyHeader::elems() const {
  std::uint64_t count = 1;
  for (const std::int64_t extent : shape) count *= std::uint64_t(extent);
  return count;
}

std::string NpyHeader::to_string() const {
  return fmt::format("{}[{}]", type.name(), fmt::join(shape, ", "));
}

bool is_npy(std::span<const std::byte> bytes) {
  return bytes.size() >= kNpyMagic.size() &&
         std::memcmp(bytes.data(), kNpyMagic.data(), kNpyMagic.size()) == 0;
}

std::uint64_t npy_header_bytes(const std::string& name, std::span<const std::byte> prefix) {
  const NpyPrefix parsed = parse_npy_prefix(name, prefix);
  return parsed.begin() + parsed.dictionary;
}

NpyHeader parse_npy_header(const std::string& name, std::span<const std::byte> bytes) {
  const NpyPrefix prefix = parse_npy_prefix(name, bytes);
  LOCKSTEP_ASSERT(bytes.size() == prefix.begin() + prefix.dictionary);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  NpyHeader header = NpyHeaderParser(name, text.substr(prefix.begin())).parse();
  std::uint64_t room = kMaxNpyArrayBytes / std::uint64_t(header.type.bytes);
  for (const std::int64_t extent : header.shape) {
    LOCKSTEP_CHECK(std::uint64_t(extent) <= room,
                   DataError,
                   "{}: the header claims an array of {}, more than any file has",
                   as_written(name),
                   header.to_string());
    if (extent > 0) room /= std::uint64_t(extent);
  }
  header.bytes = bytes.size();
  return header;
}

}  // namespace lockstep::data
