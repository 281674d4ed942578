// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "core/io/run_log.h"

namespace lockstep::io {

/// A file of records in TFRecord's framing: length as 8 bytes, its checksum, the bytes, theirs.
/// Numbers are little-endian; a checksum is crc32c() turned right by 15 bits plus 0xa282ead8.
/// Source: tensorflow/core/lib/io/record_writer.
///
/// Records are collected in memory and written when a second has gone by since the last write, so
/// that writing costs a run little and a reader that follows the file sees whole seconds at worst.
/// As with RunLog errors do not throw: the first is kept, and later records are dropped.
class RecordFile {
 public:
  RecordFile() = default;
  /// Creates or empties `file`.
  explicit RecordFile(const std::string& file) : log_(file) {}
  ~RecordFile() { flush(); }
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;
  RecordFile(RecordFile&&) = default;
  RecordFile& operator=(RecordFile&&) = default;

  /// Steady state allocates nothing.
  void add(std::string_view record);
  /// Writes what is waiting.
  void flush();
  /// flush(), and to the device; what fails late fails here.
  void close();
  /// "FILE: No space left on device"; empty while all went well.
  const std::string& error() const { return log_.error(); }

 private:
  RunLog log_;
  std::string waiting_;
  std::chrono::steady_clock::time_point next_write_{};
};

}  // namespace lockstep::io
