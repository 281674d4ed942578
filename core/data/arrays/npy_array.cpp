// SPDX-License-Identifier: Apache-2.0
#include "core/data/arrays/npy_array.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "core/base/check.h"
#include "core/base/half.h"
#include "core/base/parameter_names.h"
#include "core/base/text/printable.h"
#include "core/data/arrays/deflated_entry.h"
#include "core/data/input_file.h"

namespace lockstep::data {
namespace {

constexpr std::string_view kNpyEnding = ".npy";
constexpr std::uint64_t kHashedBytes = std::uint64_t{1} << 20;
constexpr std::int64_t kVisitedAtOnceBytes = std::int64_t{1} << 20;

[[noreturn]] void refuse_size(const std::string& name, std::uint64_t bytes, const char* what) {
  throw DataError(fmt::format("{}: {} of {} bytes would have to be kept in memory, expected at "
                              "most {}",
                              as_written(name),
                              what,
                              bytes,
                              kMaxFileBytes),
                  "save it with numpy.save(FILE, numpy.ascontiguousarray(x)): such a file is read "
                  "where it lies");
}

template <typename T, typename Number>
void convert_from(std::span<const std::byte> bytes, std::span<Number> to) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
    to[i] = Number(value);
  }
}

template <typename Number>
void convert_halves(std::span<const std::byte> bytes, std::span<Number> to) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, bytes.data() + i * sizeof bits, sizeof bits);
    to[i] = Number(from_f16(bits));
  }
}

template <typename Number>
void convert(const NpyType& type, std::span<const std::byte> bytes, std::span<Number> to) {
  using Kind = NpyType::Kind;
  if (type.kind == Kind::real) {
    if (type.bytes == 2) return convert_halves(bytes, to);
    return type.bytes == 4 ? convert_from<float>(bytes, to) : convert_from<double>(bytes, to);
  }
  const bool is_signed = type.kind == Kind::whole;
  switch (type.bytes) {
    case 1:
      return is_signed ? convert_from<std::int8_t>(bytes, to)
                       : convert_from<std::uint8_t>(bytes, to);
    case 2:
      return is_signed ? convert_from<std::int16_t>(bytes, to)
                       : convert_from<std::uint16_t>(bytes, to);
    case 4:
      return is_signed ? convert_from<std::int32_t>(bytes, to)
                       : convert_from<std::uint32_t>(bytes, to);
    default:
      return is_signed ? convert_from<std::int64_t>(bytes, to)
                       : convert_from<std::uint64_t>(bytes, to);
  }
}

template <typename Number>
void read_as_numbers(const NpyArray& array,
                     std::int64_t first,
                     std::int64_t count,
                     std::span<Number> to) {
  static thread_local std::vector<std::byte> bytes;
  bytes.resize(std::size_t(count) * array.row_bytes());
  LOCKSTEP_ASSERT(to.size() == std::size_t(count * array.row_elems()));
  array.read(first, count, bytes);
  convert(array.type(), std::span<const std::byte>(bytes), to);
}

}  // namespace

NpyArray NpyArray::open(const std::string& path) {
  NpyArray array;
  array.name_ = path;
  auto file = std::make_shared<const FileReader>(path);
  const std::uint64_t bytes = file->bytes();
  array.take(std::move(file), 0, bytes);
  return array;
}

NpyArray NpyArray::open_member(std::shared_ptr<const FileReader> file,
                               const ZipReader& zip,
                               const std::string& member) {
  NpyArray array;
  array.name_ = fmt::format("{}: {}", file->path().string(), printable(member));
  const ZipEntry entry = zip.entry(member + std::string(kNpyEnding));
  if (entry.is_deflated && entry.bytes > kMaxFileBytes + kMaxNpyHeaderBytes)
    refuse_size(array.name_, entry.bytes, "a compressed array");
  if (entry.is_deflated)
    array.take(inflate_entry(array.name_, *file, entry));
  else
    array.take(std::move(file), entry.offset, entry.bytes);
  return array;
}

void NpyArray::take(std::shared_ptr<const FileReader> file,
                    std::uint64_t offset,
                    std::uint64_t bytes) {
  std::vector<std::byte> begin(std::size_t(std::min<std::uint64_t>(bytes, kNpyPrefixBytes)));
  file->read(name_, offset, begin);
  const std::uint64_t header_bytes = npy_header_bytes(name_, begin);
  LOCKSTEP_CHECK(header_bytes <= bytes,
                 DataError,
                 "{}: the file ends after {} bytes, in its header of {}",
                 as_written(name_),
                 bytes,
                 header_bytes);
  begin.resize(std::size_t(header_bytes));
  file->read(name_, offset, begin);
  header_ = parse_npy_header(name_, begin);
  check(bytes - header_bytes);
  begin_ = offset + header_bytes;
  if (header_.is_fortran && header_.data_bytes() > kMaxFileBytes)
    refuse_size(name_, header_.data_bytes(), "an array in Fortran order");
  file_ = std::move(file);
  if (!header_.is_fortran && header_.data_bytes() > kKeptArrayBytes) return;
  std::vector<std::byte> content(std::size_t(header_.data_bytes()));
  file_->read(name_, begin_, content);
  kept_ = std::make_shared<const std::vector<std::byte>>(std::move(content));
  reorder();
}

void NpyArray::take(std::vector<std::byte> content) {
  const std::uint64_t header_bytes =
      npy_header_bytes(name_, std::span(content).first(std::min(content.size(), kNpyPrefixBytes)));
  LOCKSTEP_CHECK(header_bytes <= content.size(),
                 DataError,
                 "{}: ends after {} bytes, in its header of {}",
                 as_written(name_),
                 content.size(),
                 header_bytes);
  header_ = parse_npy_header(name_, std::span(content).first(std::size_t(header_bytes)));
  check(content.size() - header_bytes);
  content.erase(content.begin(), content.begin() + std::ptrdiff_t(header_bytes));
  kept_ = std::make_shared<const std::vector<std::byte>>(std::move(content));
  reorder();
}

void NpyArray::check(std::uint64_t bytes) const {
  LOCKSTEP_CHECK(!header_.shape.empty(),
                 DataError,
                 "{}: expected an array of at least one dimension, got a single number",
                 as_written(name_));
  LOCKSTEP_CHECK(header_.elems() > 0,
                 DataError,
                 "{}: expected at least one element, got {}",
                 as_written(name_),
                 header_.to_string());
  if (bytes == header_.data_bytes()) return;
  const std::uint64_t row = header_.data_bytes() / std::uint64_t(header_.shape[0]);
  throw DataError(
      fmt::format(
          "{}: the header says {}, {} bytes, but {} follow it{}",
          as_written(name_),
          header_.to_string(),
          header_.data_bytes(),
          bytes,
          bytes < header_.data_bytes() ? fmt::format(": it ends in row {}", bytes / row) : ""),
      "the file is cut short or was written over: copy or write it again");
}

/// From the first index innermost to the last one. Axis k has stride prod(shape[0..k)).
void NpyArray::reorder() {
  if (!header_.is_fortran || header_.shape.size() < 2) return;
  const std::size_t rank = header_.shape.size(), width = std::size_t(type().bytes);
  std::vector<std::size_t> strides(rank, width);
  for (std::size_t k = 1; k < rank; ++k)
    strides[k] = strides[k - 1] * std::size_t(header_.shape[k - 1]);
  std::vector<std::byte> ordered(kept_->size());
  std::vector<std::int64_t> index(rank, 0);
  std::size_t from = 0;
  for (std::size_t to = 0; to < ordered.size(); to += width) {
    std::memcpy(ordered.data() + to, kept_->data() + from, width);
    for (std::size_t k = rank; k-- > 0;) {
      from += strides[k];
      if (++index[k] < header_.shape[k]) break;
      from -= strides[k] * std::size_t(header_.shape[k]);
      index[k] = 0;
    }
  }
  kept_ = std::make_shared<const std::vector<std::byte>>(std::move(ordered));
}

void NpyArray::read(std::int64_t first, std::int64_t count, std::span<std::byte> to) const {
  LOCKSTEP_ASSERT(first >= 0 && count >= 0 && first <= rows() - count &&
                  to.size() == std::size_t(count) * row_bytes());
  const std::uint64_t at = std::uint64_t(first) * row_bytes();
  if (kept_)
    std::memcpy(to.data(), kept_->data() + at, to.size());
  else
    file_->read(fmt::format("{}[{}]", name_, first), begin_ + at, to);
}

void NpyArray::read_numbers(std::int64_t first, std::int64_t count, std::span<float> to) const {
  read_as_numbers(*this, first, count, to);
}

void NpyArray::read_numbers(std::int64_t first, std::int64_t count, std::span<double> to) const {
  read_as_numbers(*this, first, count, to);
}

std::uint64_t NpyArray::hash() const {
  const std::string header = to_string();
  const std::uint64_t hash = content_hash(header.data(), header.size());
  if (kept_) return content_hash(kept_->data(), kept_->size(), hash);
  std::vector<std::byte> begin(std::size_t(std::min(kHashedBytes, header_.data_bytes())));
  file_->read(name_, begin_, begin);
  return content_hash(begin.data(), begin.size(), hash);
}

std::string NpyArray::partly_hashed_file() const {
  return kept_ ? std::string() : file_->path().string();
}

namespace {

using RowVisit = std::function<void(std::int64_t, std::span<const double>)>;

std::int64_t rows_visited_at_once(const NpyArray& array) {
  return std::max<std::int64_t>(1, kVisitedAtOnceBytes / std::int64_t(array.row_bytes()));
}

void visit_neighbours(const NpyArray& array,
                      std::int64_t first,
                      std::int64_t count,
                      std::vector<double>& numbers,
                      const RowVisit& visit) {
  const auto width = std::size_t(array.row_elems());
  numbers.resize(std::size_t(count) * width);
  array.read_numbers(first, count, std::span(numbers));
  for (std::int64_t i = 0; i < count; ++i)
    visit(first + i, std::span(numbers).subspan(std::size_t(i) * width, width));
}

}  // namespace

void for_each_row(const NpyArray& array,
                  const std::vector<std::int64_t>& rows,
                  const RowVisit& visit) {
  const std::int64_t most = rows_visited_at_once(array);
  std::vector<double> numbers;
  for (std::size_t begin = 0, end = 0; begin < rows.size(); begin = end) {
    end = begin + 1;
    while (end < rows.size() && rows[end] == rows[end - 1] + 1 && std::int64_t(end - begin) < most)
      ++end;
    visit_neighbours(array, rows[begin], std::int64_t(end - begin), numbers, visit);
  }
}

void for_each_row(const NpyArray& array, const RowVisit& visit) {
  const std::int64_t most = rows_visited_at_once(array);
  std::vector<double> numbers;
  for (std::int64_t first = 0; first < array.rows(); first += most)
    visit_neighbours(array, first, std::min(most, array.rows() - first), numbers, visit);
}

std::vector<std::string> npz_names(const ZipReader& zip) {
  std::vector<std::string> names;
  for (std::string& name : zip.names())
    if (name.ends_with(kNpyEnding))
      names.push_back(name.substr(0, name.size() - kNpyEnding.size()));
  return names;
}

bool is_npy_file(const FileReader& file) {
  std::vector<std::byte> begin(std::size_t(std::min<std::uint64_t>(file.bytes(), kNpyPrefixBytes)));
  file.read(file.path().string(), 0, begin);
  return is_npy(begin);
}

}  // namespace lockstep::data
