// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/file_reader.h"
#include "core/base/zip/zip_reader.h"
#include "core/data/arrays/npy_header.h"

namespace lockstep::data {

/// An array of at least one dimension and one element, in an .npy file or a member of an .npz.
/// Elements of an uncompressed one are read where they lie, when they are asked for, except of
/// small arrays (kKeptArrayBytes), which are kept in memory as compressed ones and those in Fortran
/// order are. Copies share it. Read by several threads.
class NpyArray {
 public:
  /// Small: reading it again and again would cost more than keeping it.
  static constexpr std::uint64_t kKeptArrayBytes = std::uint64_t{16} << 20;

  /// Throws DataError naming the file: it cannot be read, a header that parse_npy_header() refuses,
  /// fewer or more bytes than the header says, no dimension, no element, a Fortran-order array of
  /// more than kMaxFileBytes.
  static NpyArray open(const std::string& path);
  /// A member of `zip`, which is called "PATH: x_train". Throws as open() does; DataError: damaged
  /// compression, a compressed array of more than kMaxFileBytes.
  static NpyArray open_member(std::shared_ptr<const FileReader> file,
                              const ZipReader& zip,
                              const std::string& member);

  /// For messages: "data/x.npy", "data/mnist.npz: x_train".
  const std::string& name() const { return name_; }
  const NpyType& type() const { return header_.type; }
  const std::vector<std::int64_t>& shape() const { return header_.shape; }
  /// "uint8[60000, 28, 28]"
  std::string to_string() const { return header_.to_string(); }

  /// The first dimension, and what there is of each of its indices.
  std::int64_t rows() const { return header_.shape[0]; }
  std::int64_t row_elems() const { return std::int64_t(header_.elems()) / rows(); }
  std::size_t row_bytes() const { return std::size_t(row_elems()) * std::size_t(type().bytes); }

  /// Copies the elements of rows [first, first + count), the last index innermost. Throws DataError
  /// naming the row: the file has become shorter, or cannot be read.
  void read(std::int64_t first, std::int64_t count, std::span<std::byte> to) const;
  /// The same as numbers.
  void read_numbers(std::int64_t first, std::int64_t count, std::span<float> to) const;
  void read_numbers(std::int64_t first, std::int64_t count, std::span<double> to) const;

  /// Of header and elements; of an array that is not kept in memory, of its first MiB.
  std::uint64_t hash() const;
  /// The file, where hash() is not of all of it; else empty.
  std::string partly_hashed_file() const;

 private:
  NpyArray() = default;
  void take(std::shared_ptr<const FileReader> file, std::uint64_t offset, std::uint64_t bytes);
  void take(std::vector<std::byte> content);
  void check(std::uint64_t bytes) const;
  void reorder();

  std::string name_;
  NpyHeader header_;
  std::shared_ptr<const FileReader> file_;              // where the elements lie; null: in memory
  std::uint64_t begin_ = 0;                             // of the elements, in file_
  std::shared_ptr<const std::vector<std::byte>> kept_;  // the elements, or null
};

/// Calls `visit` with index and numbers of each of `rows`, which ascend; neighbours are read at
/// once, a MiB or one row at a time. Throws as NpyArray::read() does.
void for_each_row(const NpyArray& array,
                  const std::vector<std::int64_t>& rows,
                  const std::function<void(std::int64_t, std::span<const double>)>& visit);
/// The same of all rows.
void for_each_row(const NpyArray& array,
                  const std::function<void(std::int64_t, std::span<const double>)>& visit);

/// Names of the arrays in an .npz, without ".npy", ascending. Members of other names are not looked
/// at.
std::vector<std::string> npz_names(const ZipReader& zip);

/// Whether the file begins as an .npy does. Throws DataError where it cannot be read.
bool is_npy_file(const FileReader& file);

}  // namespace lockstep::data
