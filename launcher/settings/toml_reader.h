// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// One line of a configuration file: a value has one text, a list as many as it has elements.
struct TomlEntry {
  std::string key;
  std::vector<std::string> values;
  int line = 0;  ///< on which it begins, from 1
};

/// Reads the part of TOML that flags need: `key = value` with strings (basic and literal), numbers,
/// booleans and lists, and comments. Words without quotes count as strings.
/// Bytes that are not UTF-8 are kept, as paths may have them; so is the text of numbers.
/// Throws ConfigError naming `file`, as "--config FILE", and the line: anything else, such as a
/// [section], and repeated keys.
std::vector<TomlEntry> read_toml(std::string_view text, std::string_view file);

/// `text` as a string that read_toml() and every other reader of TOML gives back unchanged.
std::string toml_string(std::string_view text);

}  // namespace lockstep
