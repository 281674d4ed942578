// SPDX-License-Identifier: Apache-2.0
// The command lines of train and run, an argument a line; what train accepts is accepted again as a
// configuration file and means the same.
#include "launcher/settings/flags.h"

#include <fmt/format.h>

#include "launcher/launch/run_flags.h"
#include "launcher/settings/config_file.h"
#include "tests/fuzz/input_file.h"

using namespace lockstep;

namespace {

std::vector<std::string> arguments_of(std::string_view text) {
  std::vector<std::string> arguments;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    // No argument of a program holds a zero byte.
    arguments.emplace_back(text.substr(0, std::min(end, text.find('\0'))));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return arguments;
}

/// Flags that name a file that would be read: no input may choose that.
bool reads_files(const std::vector<std::string>& arguments) {
  for (const std::string& argument : arguments)
    if (argument.find("config") != argument.npos || argument.find('/') != argument.npos)
      return true;
  return false;
}

void check_round_trip(const TrainFlags& flags) {
  static const fuzz::InputFile file;
  const std::string text = to_toml(flags);
  file.write(text);
  std::string again;
  try {
    again = to_toml(parse_train_flags({"--config", file.path()}));
  } catch (const Error& error) {
    fuzz::finding(fmt::format("its own configuration is refused: {}\n{}", error.what(), text));
  }
  fuzz::require(again == text, "flags changed when written again:\n" + text + "became\n" + again);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  const std::vector<std::string> arguments = arguments_of(fuzz::as_text(data, bytes));
  if (reads_files(arguments)) return 0;
  fuzz::run_parser(bytes, [&] {
    const TrainFlags flags = parse_train_flags(arguments);
    if (flags.help.empty()) check_round_trip(flags);
  });
  fuzz::run_parser(bytes, [&] { (void)parse_run_flags(arguments); });
  return 0;
}
