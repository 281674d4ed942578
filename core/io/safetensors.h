// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
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

/// Sees the bytes of a safetensors file, in order, while they are written.
class WriteObserver {
 public:
  virtual ~WriteObserver() = default;
  /// Hands the bytes to write for `tensor`, one of those that were passed, to `put` in order: as
  /// many as it has. So they need not all be in memory at once.
  virtual void make_bytes(const TensorView& tensor,
                          const std::function<void(std::span<const std::byte>)>& put) {
    put(tensor.data);
  }
  virtual void on_bytes(std::span<const std::byte> bytes) = 0;
  /// The bytes seen so far end with the header, or with this tensor.
  virtual void on_header_end() = 0;
  virtual void on_tensor_end(const TensorView& tensor) = 0;
};

/// Writes `tensors` to `path` and flushes them to the disk (fsync). Equal arguments give equal
/// bytes. `observer` may be null. Wider element types come first, so that every tensor is aligned
/// to its elements. Throws DataError: a name that repeats, is not UTF-8 or is "__metadata__", data
/// of another size than type and shape say. Throws EnvironmentError: the file cannot be created or
/// written; what was written of it is then removed.
void write_safetensors(const std::filesystem::path& path,
                       std::span<const TensorView> tensors,
                       const Metadata& metadata = {},
                       WriteObserver* observer = nullptr);

}  // namespace lockstep::io
