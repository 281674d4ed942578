// SPDX-License-Identifier: Apache-2.0
#include "tests/support/tar_files.h"

#include <fmt/format.h>

namespace lockstep::test {
namespace {

std::string header_of(const std::string& name, std::size_t bytes, char kind) {
  std::string header(512, '\0');
  header.replace(0, std::min<std::size_t>(name.size(), 100), name.substr(0, 100));
  const std::string size = fmt::format("{:011o}", bytes), mode = "0000644";
  header.replace(100, mode.size(), mode);
  header.replace(124, size.size(), size);
  header.replace(136, 11, "00000000000");
  header.replace(148, 8, "        ");
  header[156] = kind;
  header.replace(257, 8, std::string("ustar\00000", 8));
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  header.replace(148, 7, fmt::format("{:06o}", sum) + std::string(1, '\0'));
  return header;
}

std::string padded(std::string content) {
  content.resize((content.size() + 511) / 512 * 512);
  return content;
}

/// "LENGTH path=NAME\n", the length being that of all of it.
std::string pax_record(const std::string& name) {
  const std::string rest = " path=" + name + "\n";
  std::size_t length = rest.size() + 1;
  while (std::to_string(length).size() + rest.size() != length) ++length;
  return std::to_string(length) + rest;
}

}  // namespace

std::string tar_member(const std::string& name,
                       const std::string& content,
                       char kind,
                       TarNames names) {
  std::string result;
  if (names == TarNames::gnu)
    result = header_of("././@LongLink", name.size() + 1, 'L') + padded(name + '\0');
  if (names == TarNames::pax) {
    const std::string record = pax_record(name);
    result = header_of("PaxHeaders/x", record.size(), 'x') + padded(record);
  }
  return result + header_of(name, content.size(), kind) + padded(content);
}

std::string tar_file(const std::vector<std::pair<std::string, std::string>>& members,
                     TarNames names) {
  std::string file;
  for (const auto& [name, content] : members) file += tar_member(name, content, '0', names);
  return file + tar_end();
}

}  // namespace lockstep::test
