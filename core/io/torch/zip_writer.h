// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/io/output_file.h"

namespace lockstep::io::torch {

/// Writes a zip file of stored entries, the data of each at a multiple of 64 bytes, as torch.save()
/// does. What needs more than 32 bits is written as zip64.
class ZipWriter {
 public:
  /// `out` must outlive this and be empty.
  explicit ZipWriter(OutputFile& out) : out_(out) {}

  /// `name` has at most 65,535 bytes and must be new. Throws EnvironmentError as OutputFile.
  void add(const std::string& name, std::span<const std::byte> data);
  /// The directory, to be written last. `out` is not finished.
  void finish();

 private:
  struct Entry {
    std::string name;
    std::uint32_t crc = 0;
    std::uint64_t bytes = 0, header = 0;
  };
  void write(std::string_view bytes);

  OutputFile& out_;
  std::uint64_t at_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace lockstep::io::torch
