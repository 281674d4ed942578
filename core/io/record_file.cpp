// SPDX-License-Identifier: Apache-2.0
#include "core/io/record_file.h"

#include <cstdint>

#include "core/base/crc32c.h"

namespace lockstep::io {
namespace {

std::uint32_t masked_checksum(std::string_view bytes) {
  const std::uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

template <typename Number>
void append_number(std::string& to, Number number) {
  for (std::size_t byte = 0; byte < sizeof number; ++byte)
    to += static_cast<char>(number >> (8 * byte) & 0xff);
}

}  // namespace

void RecordFile::add(std::string_view record) {
  if (!log_.is_open() || !log_.error().empty()) return;
  const std::size_t begin = waiting_.size();
  append_number(waiting_, std::uint64_t(record.size()));
  append_number(waiting_, masked_checksum(std::string_view(waiting_).substr(begin)));
  waiting_ += record;
  append_number(waiting_, masked_checksum(record));
  if (std::chrono::steady_clock::now() >= next_write_) flush();
}

void RecordFile::flush() {
  if (waiting_.empty()) return;
  log_.write(waiting_);
  waiting_.clear();
  next_write_ = std::chrono::steady_clock::now() + std::chrono::seconds(1);
}

void RecordFile::close() {
  flush();
  log_.close();
}

}  // namespace lockstep::io
