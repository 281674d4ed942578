// SPDX-License-Identifier: Apache-2.0
#include "core/io/safetensors.h"

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/io/strict_json.h"

namespace lockstep::io {

static_assert(std::endian::native == std::endian::little, "safetensors data are little-endian");

namespace {

using nlohmann::json;

constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the reference implementation's bound
constexpr std::string_view kMetadataKey = "__metadata__";

struct TypeName {
  ElementType type;
  std::string_view name;
  std::size_t bytes;
};
constexpr TypeName kTypes[] = {{ElementType::f32, "F32", 4},
                               {ElementType::f64, "F64", 8},
                               {ElementType::f16, "F16", 2},
                               {ElementType::bf16, "BF16", 2},
                               {ElementType::i32, "I32", 4},
                               {ElementType::i64, "I64", 8},
                               {ElementType::i16, "I16", 2},
                               {ElementType::i8, "I8", 1},
                               {ElementType::u8, "U8", 1},
                               {ElementType::boolean, "BOOL", 1}};

const TypeName& type_name(ElementType type) {
  for (const TypeName& known : kTypes)
    if (known.type == type) return known;
  throw InternalError("safetensors: element type without a name");
}

/// Bytes of a dense tensor; nothing where they exceed 2^63 or an extent is negative.
std::optional<std::uint64_t> dense_bytes(ElementType type, std::span<const std::int64_t> shape) {
  std::int64_t bytes = std::int64_t(size_in_bytes(type));
  bool too_large = false;
  for (std::int64_t extent : shape) {
    if (extent < 0) return std::nullopt;
    if (extent == 0) return 0;
    too_large = too_large || __builtin_mul_overflow(bytes, extent, &bytes);
  }
  if (too_large) return std::nullopt;
  return std::uint64_t(bytes);
}

std::int64_t to_extent(const json& value, const std::string& where) {
  LOCKSTEP_CHECK(value.is_number_unsigned() && value.get<std::uint64_t>() <= INT64_MAX,
                 DataError,
                 "{}: expected a whole number of at least 0, got {}",
                 as_written(where),
                 as_written(value.dump()));
  return value.get<std::int64_t>();
}

ElementType to_element_type(const json& value, const std::string& where) {
  for (const TypeName& known : kTypes)
    if (value == known.name) return known.type;
  throw DataError(
      fmt::format("{}: dtype {} is not supported", as_written(where), as_written(value.dump())),
      "convert it to one of F32, F64, I32, I64, U8");
}

TensorEntry parse_entry(const std::string& file, const std::string& name, const json& value) {
  const std::string where = fmt::format("{}: tensor '{}'", file, name);
  LOCKSTEP_CHECK(value.is_object() && value.size() == 3 && value.contains("dtype") &&
                     value.contains("shape") && value.contains("data_offsets"),
                 DataError,
                 "{}: expected exactly dtype, shape and data_offsets",
                 as_written(where));
  TensorEntry entry;
  entry.name = name;
  entry.type = to_element_type(value["dtype"], where);
  LOCKSTEP_CHECK(
      value["shape"].is_array(), DataError, "{}: shape must be a list", as_written(where));
  for (const json& extent : value["shape"]) entry.shape.push_back(to_extent(extent, where));
  const json& range = value["data_offsets"];
  LOCKSTEP_CHECK(range.is_array() && range.size() == 2,
                 DataError,
                 "{}: data_offsets must be a list of two numbers",
                 as_written(where));
  const std::int64_t begin = to_extent(range[0], where), end = to_extent(range[1], where);
  LOCKSTEP_CHECK(begin <= end,
                 DataError,
                 "{}: data_offsets {} run backwards",
                 as_written(where),
                 range.dump());
  entry.offset_bytes = std::uint64_t(begin);
  entry.bytes = std::uint64_t(end - begin);
  const std::optional<std::uint64_t> expected = dense_bytes(entry.type, entry.shape);
  LOCKSTEP_CHECK(expected == entry.bytes,
                 DataError,
                 "{}: dtype and shape {} need {} bytes, data_offsets give {}",
                 as_written(where),
                 value["shape"].dump(),
                 expected ? std::to_string(*expected) : "more than 2^63",
                 entry.bytes);
  return entry;
}

/// Sorts by position and checks that the tensors fill [0, data_bytes) exactly.
void check_layout(const std::string& file,
                  std::vector<TensorEntry>& entries,
                  std::uint64_t data_bytes) {
  std::sort(entries.begin(), entries.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return std::tie(a.offset_bytes, a.bytes, a.name) < std::tie(b.offset_bytes, b.bytes, b.name);
  });
  std::uint64_t expected = 0;
  for (const TensorEntry& entry : entries) {
    LOCKSTEP_CHECK(entry.offset_bytes == expected,
                   DataError,
                   "{}: tensor '{}' starts at byte {} of the data, where {} was expected ({})",
                   as_written(file),
                   as_written(entry.name),
                   entry.offset_bytes,
                   expected,
                   entry.offset_bytes < expected ? "tensors overlap" : "a hole lies before it");
    expected += entry.bytes;  // both at most 2^63
    LOCKSTEP_CHECK(
        expected <= data_bytes,
        DataError,
        "{}: tensor '{}' ends at byte {} of the data, but the file holds {} (truncated?)",
        as_written(file),
        as_written(entry.name),
        expected,
        data_bytes);
  }
  LOCKSTEP_CHECK(expected == data_bytes,
                 DataError,
                 "{}: {} bytes after the last tensor belong to none",
                 as_written(file),
                 data_bytes - expected);
}

}  // namespace

std::size_t size_in_bytes(ElementType type) { return type_name(type).bytes; }
std::string_view name_of(ElementType type) { return type_name(type).name; }

SafetensorsReader::SafetensorsReader(const std::filesystem::path& path) : reader_(path) {
  const std::string file = path.string();
  const std::uint64_t file_bytes = reader_.bytes();
  LOCKSTEP_CHECK(
      file_bytes >= 8, DataError, "{}: too short for a safetensors file", as_written(file));
  std::uint64_t header_bytes = 0;
  reader_.read(file, 0, std::as_writable_bytes(std::span(&header_bytes, 1)));
  LOCKSTEP_CHECK(header_bytes <= kMaxHeaderBytes && header_bytes <= file_bytes - 8,
                 DataError,
                 "{}: claims a header of {} bytes in a file of {} (at most {} are allowed)",
                 as_written(file),
                 header_bytes,
                 file_bytes,
                 kMaxHeaderBytes);
  std::string header(header_bytes, '\0');
  reader_.read(file, 8, std::as_writable_bytes(std::span(header)));
  parse_header(header, 8 + header_bytes, file_bytes - 8 - header_bytes);
}

void SafetensorsReader::parse_header(std::string_view header,
                                     std::uint64_t data_offset,
                                     std::uint64_t data_bytes) {
  const std::string file = path().string();
  constexpr int kMaxDepth = 3;  // {name: {"shape": [...]}}
  const json parsed =
      parse_strict_json(header, file + ": the header", kMaxDepth, data_offset + data_bytes);
  LOCKSTEP_CHECK(
      parsed.is_object(), DataError, "{}: the header is not a JSON object", as_written(file));
  for (const auto& [name, value] : parsed.items()) {
    if (name != kMetadataKey) {
      entries_.push_back(parse_entry(file, name, value));
      continue;
    }
    LOCKSTEP_CHECK(value.is_object(),
                   DataError,
                   "{}: {} is not an object",
                   as_written(file),
                   as_written(name));
    for (const auto& [key, text] : value.items()) {
      LOCKSTEP_CHECK(text.is_string(),
                     DataError,
                     "{}: {}.{} is not a string",
                     as_written(file),
                     as_written(name),
                     as_written(key));
      metadata_[key] = text.get<std::string>();
    }
  }
  check_layout(file, entries_, data_bytes);
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    entries_[i].offset_bytes += data_offset;
    index_[entries_[i].name] = i;
  }
}

bool SafetensorsReader::contains(std::string_view name) const {
  return index_.find(name) != index_.end();
}

const TensorEntry& SafetensorsReader::entry(std::string_view name) const {
  const auto found = index_.find(name);
  LOCKSTEP_CHECK(found != index_.end(),
                 DataError,
                 "{}: no tensor '{}'",
                 as_written(path().string()),
                 as_written(name));
  return entries_[found->second];
}

const TensorEntry& SafetensorsReader::typed_entry(std::string_view name, ElementType type) const {
  const TensorEntry& found = entry(name);
  LOCKSTEP_CHECK(found.type == type,
                 DataError,
                 "{}: tensor '{}' is {}, expected {}",
                 as_written(path().string()),
                 as_written(name),
                 name_of(found.type),
                 name_of(type));
  return found;
}

void SafetensorsReader::read(const TensorEntry& entry, std::span<std::byte> to) const {
  const std::string what = fmt::format("{}: tensor '{}'", path().string(), entry.name);
  LOCKSTEP_CHECK(to.size() == entry.bytes,
                 DataError,
                 "{} has {} bytes, expected {}",
                 as_written(what),
                 entry.bytes,
                 to.size());
  reader_.read(what, entry.offset_bytes, to);
}

}  // namespace lockstep::io
