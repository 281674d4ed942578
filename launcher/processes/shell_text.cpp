// SPDX-License-Identifier: Apache-2.0
#include "launcher/processes/shell_text.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string_view>

#include "core/base/env.h"
#include "launcher/processes/program_path.h"

namespace lockstep {

bool plain_for_shell(const std::string& text) {
  const auto plain = [](char c) {
    const bool ascii = static_cast<unsigned char>(c) < 0x80;
    return ascii &&
           (std::isalnum(c) || std::string_view("_-+=.,:/@%").find(c) != std::string_view::npos);
  };
  return !text.empty() && std::ranges::all_of(text, plain);
}

std::string for_shell(const std::string& argument) {
  if (plain_for_shell(argument)) return argument;
  std::string quoted = "'";
  for (const char c : argument) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string resume_command(const std::string& command,
                           const std::string& out,
                           const std::vector<std::string>& flags) {
  const std::string own = own_path();
  const std::string found = find_program("lockstep", process_variables());
  std::error_code error;
  const bool in_path = !found.empty() && std::filesystem::equivalent(found, own, error);
  std::string text = (in_path ? std::string("lockstep") : for_shell(own)) + " " + command +
                     " --resume auto --out " + for_shell(out);
  for (const std::string& flag : flags) text += " " + for_shell(flag);
  return text;
}

}  // namespace lockstep
