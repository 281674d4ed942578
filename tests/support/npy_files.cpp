// SPDX-License-Identifier: Apache-2.0
#include "tests/support/npy_files.h"

#include <cstdint>
#include <zlib.h>

namespace lockstep::test {
namespace {

template <typename T>
std::string bytes_of(T number) {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}

std::string deflated_bytes(const std::string& content) {
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 9, Z_DEFAULT_STRATEGY);
  std::string result(deflateBound(&stream, content.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = unsigned(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(result.data());
  stream.avail_out = unsigned(result.size());
  deflate(&stream, Z_FINISH);
  result.resize(stream.total_out);
  deflateEnd(&stream);
  return result;
}

}  // namespace

std::string npy_file(const std::string& descr,
                     const std::string& shape,
                     const std::string& content,
                     bool is_fortran) {
  std::string header = "{'descr': '" + descr +
                       "', 'fortran_order': " + (is_fortran ? "True" : "False") +
                       ", 'shape': " + shape + ", }";
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  return std::string("\x93NUMPY\x01\x00", 8) + bytes_of(std::uint16_t(header.size())) + header +
         content;
}

std::string zip_file(const std::map<std::string, std::string>& entries, bool deflated) {
  std::string file, directory;
  for (const auto& [name, content] : entries) {
    const std::string stored = deflated ? deflated_bytes(content) : content;
    const auto sum = std::uint32_t(
        crc32(0, reinterpret_cast<const Bytef*>(content.data()), uInt(content.size())));
    const std::string middle =
        bytes_of(std::uint16_t{0}) + bytes_of(std::uint16_t(deflated ? 8 : 0)) +
        bytes_of(std::uint32_t{0}) + bytes_of(sum) + bytes_of(std::uint32_t(stored.size())) +
        bytes_of(std::uint32_t(content.size())) + bytes_of(std::uint16_t(name.size())) +
        bytes_of(std::uint16_t{0});
    directory += bytes_of(std::uint32_t{0x02014b50}) + bytes_of(std::uint32_t{20 << 16 | 20}) +
                 middle + bytes_of(std::uint16_t{0}) + bytes_of(std::uint32_t{0}) +
                 bytes_of(std::uint32_t{0}) + bytes_of(std::uint32_t(file.size())) + name;
    file +=
        bytes_of(std::uint32_t{0x04034b50}) + bytes_of(std::uint16_t{20}) + middle + name + stored;
  }
  const auto count = std::uint16_t(entries.size());
  return file + directory + bytes_of(std::uint32_t{0x06054b50}) + bytes_of(std::uint32_t{0}) +
         bytes_of(count) + bytes_of(count) + bytes_of(std::uint32_t(directory.size())) +
         bytes_of(std::uint32_t(file.size())) + bytes_of(std::uint16_t{0});
}

}  // namespace lockstep::test
