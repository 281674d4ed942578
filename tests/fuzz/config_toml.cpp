// SPDX-License-Identifier: Apache-2.0
// Configuration files: the reader of TOML, and the flags that it gives.
#include <fmt/format.h>

#include "launcher/settings/config_file.h"
#include "launcher/settings/flags.h"
#include "launcher/settings/toml_reader.h"
#include "tests/fuzz/input_file.h"

using namespace lockstep;

namespace {

std::string to_text(const std::vector<TomlEntry>& entries) {
  std::string text;
  for (const TomlEntry& entry : entries) {
    std::string values;
    for (const std::string& value : entry.values)
      values += (values.empty() ? "" : ", ") + toml_string(value);
    text += fmt::format("{} = [{}]\n", toml_string(entry.key), values);
  }
  return text;
}

void check_reader(std::string_view text) {
  const std::vector<TomlEntry> entries = read_toml(text, "--config x.toml");
  const std::vector<TomlEntry> again = read_toml(to_text(entries), "--config x.toml");
  fuzz::require(again.size() == entries.size(), "keys were lost");
  for (std::size_t i = 0; i < entries.size(); ++i)
    fuzz::require(again[i].key == entries[i].key && again[i].values == entries[i].values,
                  "a value changed when written again");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  static const fuzz::InputFile file;
  const std::string_view text = fuzz::as_text(data, bytes);
  fuzz::run_parser(bytes, [&] { check_reader(text); });
  file.write(data, bytes);
  fuzz::run_parser(bytes, [&] {
    const std::string once = to_toml(parse_train_flags({"--config", file.path()}));
    file.write(once);
    fuzz::require(to_toml(parse_train_flags({"--config", file.path()})) == once,
                  "flags changed when written again:\n" + once);
  });
  return 0;
}

namespace lockstep::fuzz {

std::vector<std::string> large_inputs() {
  constexpr std::size_t kBytes = 1'000'000;
  std::string keys;
  for (int i = 0; keys.size() < kBytes; ++i) keys += fmt::format("k{}=1\n", i);
  return {keys,
          "hidden = [" + repeated("1,", kBytes) + "1]",
          "hidden = " + repeated("[", kBytes),
          repeated("k", kBytes) + " = 1",
          "freeze = '" + repeated("(", kBytes) + "'",
          "freeze = '" + repeated("a|", kBytes) + "'",
          "model = \"" + repeated("\\u0041", kBytes) + "\""};
}

}  // namespace lockstep::fuzz
