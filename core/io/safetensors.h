// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/file_reader.h"

/// The safetensors file format (https://github.com/huggingface/safetensors): eight bytes of header
/// length, little-endian; a JSON header that gives each tensor its dtype, shape and byte range;
/// then the tensors, dense and back to back.
namespace lockstep::io {

/// Element types that Lockstep reads and writes.
enum class ElementType : std::uint8_t { f32, f64, f16, bf16, i32, i64, i16, i8, u8, boolean };

std::size_t size_in_bytes(ElementType type);
/// As files spell it: "F32".
std::string_view name_of(ElementType type);

template <typename T>
struct ElementTypeOf;
template <>
struct ElementTypeOf<float> {
  static constexpr ElementType value = ElementType::f32;
};
template <>
struct ElementTypeOf<double> {
  static constexpr ElementType value = ElementType::f64;
};
template <>
struct ElementTypeOf<std::int32_t> {
  static constexpr ElementType value = ElementType::i32;
};
template <>
struct ElementTypeOf<std::int64_t> {
  static constexpr ElementType value = ElementType::i64;
};
template <>
struct ElementTypeOf<std::uint8_t> {
  static constexpr ElementType value = ElementType::u8;
};

/// What the header says about one tensor.
struct TensorEntry {
  std::string name;
  ElementType type = ElementType::f32;
  std::vector<std::int64_t> shape;  ///< outermost first, any rank
  std::uint64_t offset_bytes = 0;   ///< from the start of the file
  std::uint64_t bytes = 0;
};

using Metadata = std::map<std::string, std::string>;

/// An open file whose header has been checked against the file's true size: every entry lies
/// inside the file, entries neither overlap nor leave holes. Not thread-safe to move, safe to read
/// from several threads.
class SafetensorsReader {
 public:
  /// Throws DataError naming the file, and the tensor where one is at fault: missing, unreadable,
  /// truncated, malformed or oversized header, unknown dtype, duplicate name, wrong byte range.
  explicit SafetensorsReader(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return reader_.path(); }
  /// In the order of their data.
  const std::vector<TensorEntry>& entries() const { return entries_; }
  /// The "__metadata__" of the header; empty where absent.
  const Metadata& metadata() const { return metadata_; }
  bool contains(std::string_view name) const;
  /// Throws DataError: there is no such tensor.
  const TensorEntry& entry(std::string_view name) const;

  /// Reads the whole tensor. Throws DataError: `to` has another size, or the file became shorter.
  void read(const TensorEntry& entry, std::span<std::byte> to) const;
  /// The elements of tensor `name`. Throws DataError: absent, or not of element type T.
  template <typename T>
  std::vector<T> read(std::string_view name) const {
    const TensorEntry& found = typed_entry(name, ElementTypeOf<T>::value);
    std::vector<T> values(found.bytes / sizeof(T));
    read(found, std::as_writable_bytes(std::span<T>(values)));
    return values;
  }

 private:
  const TensorEntry& typed_entry(std::string_view name, ElementType type) const;
  void parse_header(std::string_view header, std::uint64_t data_offset, std::uint64_t data_bytes);

  FileReader reader_;
  std::vector<TensorEntry> entries_;
  std::map<std::string, std::size_t, std::less<>> index_;
  Metadata metadata_;
};

/// A tensor to be written; `data` is dense and must hold what type and shape say.
struct TensorView {
  std::string name;
  ElementType type = ElementType::f32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> data;
};

/// Throws DataError naming `file`: the name of `tensor` is in `names` or is "__metadata__", or its
/// data have another size than type and shape say. Adds the name to `names`.
void check_tensor(const std::string& file, const TensorView& tensor, std::set<std::string>& names);

/// Where everything lies in a safetensors file.
struct SafetensorsLayout {
  std::string header;                ///< all bytes before the data: the length, and the JSON
  std::vector<TensorEntry> entries;  ///< in the order of their data, with offsets from the start
  std::uint64_t bytes = 0;           ///< of the file
};

/// The layout of a file of `tensors`, of whose entries name, type and shape count: that which
/// write_safetensors() writes. Throws DataError naming `file`: a name that repeats, is not UTF-8 or
/// is "__metadata__", an impossible extent.
SafetensorsLayout lay_out_safetensors(const std::string& file,
                                      std::span<const TensorEntry> tensors,
                                      const Metadata& metadata = {});

/// Writes `tensors` to `path` and flushes them to the disk (fsync). Equal arguments give equal
/// bytes. Wider element types come first, so that every tensor is aligned to its elements. Throws
/// DataError: a name that repeats, is not UTF-8 or is "__metadata__", data of another size than
/// type and shape say. Throws EnvironmentError: the file cannot be created or written; what was
/// written of it is then removed.
void write_safetensors(const std::filesystem::path& path,
                       std::span<const TensorView> tensors,
                       const Metadata& metadata = {});

}  // namespace lockstep::io
