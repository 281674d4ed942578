// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

namespace lockstep::test {

/// The bytes of an .npy file of version 1.0 with this header and content: descr '<f4', shape
/// "(3, 4)".
std::string npy_file(const std::string& descr,
                     const std::string& shape,
                     const std::string& content,
                     bool is_fortran = false);

/// The same of numbers of one type.
template <typename T>
std::string npy_of(const std::string& descr,
                   const std::string& shape,
                   const std::vector<T>& numbers) {
  return npy_file(
      descr,
      shape,
      std::string(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T)));
}

/// The bytes of a zip file with these entries.
std::string zip_file(const std::map<std::string, std::string>& entries, bool deflated = false);

}  // namespace lockstep::test
