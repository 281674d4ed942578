// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string_view>

#include "launcher/commands/completion/completion_scripts.h"

namespace lockstep {
namespace {

constexpr const char* kFishHead =
    R"(# fish completion for lockstep, written by: lockstep completion fish

function __lockstep_on  # commands, or a command and its part as one word
    set -l given (commandline -opc)
    set -q given[2]; and contains -- "$given[2]" $argv; and return 0
    set -q given[3]; and contains -- "$given[2] $given[3]" $argv
end

function __lockstep_at  # how many words stand before the cursor
    test (count (commandline -opc)) -eq $argv[1]
end

complete -c lockstep -f
)";

std::string fish_text(std::string_view text) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') result += '\\';
    result += c;
  }
  return result + "'";
}

std::string fish_value(const DeclaredValue& value) {
  std::string words = fmt::format("{}", fmt::join(value.words, " "));
  if (value.folders)
    words += (words.empty() ? "" : " ") + std::string("(__fish_complete_directories)");
  if (value.files) return " -r -F" + (words.empty() ? "" : " -a " + fish_text(words));
  return " -x" + (words.empty() ? "" : " -a " + fish_text(words));
}

/// `scopes`: quoted names of the commands that take `flag`.
std::string fish_flag(const DeclaredFlag& flag, const std::string& scopes) {
  return fmt::format("complete -c lockstep -n \"__lockstep_on {}\" -l {}{} -d {}\n",
                     scopes,
                     flag.name.substr(2),
                     flag.takes_value ? fish_value(flag.value) : "",
                     fish_text(flag.help));
}

struct Scope {
  std::string name;
  const DeclaredCommand* command;
};

std::string fish_flags(const std::vector<Scope>& scopes) {
  std::string lines;
  for (const Scope& scope : scopes)
    for (const DeclaredFlag& flag : scope.command->flags) {
      std::string names = fish_text(scope.name);
      for (const Scope& other : scopes)
        if (scope.name == "train" && takes_train_flag(*other.command, flag.name))
          names += " " + fish_text(other.name);
      lines += fish_flag(flag, names);
    }
  return lines;
}

}  // namespace

std::string fish_completion(std::span<const DeclaredCommand> commands) {
  std::string lines = kFishHead;
  std::vector<Scope> scopes;
  const auto add_word = [&](const char* when, const std::string& word, const std::string& help) {
    lines +=
        fmt::format("complete -c lockstep -n \"{}\" -a {} -d {}\n", when, word, fish_text(help));
  };
  lines += "complete -c lockstep -n \"__lockstep_at 1\" -l help\n";
  for (const DeclaredCommand& command : commands) {
    add_word("__lockstep_at 1", command.name, command.summary);
    const std::string on = fmt::format("__lockstep_on {}", fish_text(command.name));
    const DeclaredValue& words = command.words;
    if (!words.words.empty() || words.files || words.folders)
      lines += fmt::format("complete -c lockstep -n \"{}\"{}\n", on, fish_value(words));
    scopes.push_back({command.name, &command});
    for (const DeclaredCommand& part : command.parts) {
      add_word((on + "; and __lockstep_at 2").c_str(), part.name, part.summary);
      scopes.push_back({command.name + " " + part.name, &part});
    }
  }
  return lines + fish_flags(scopes);
}

}  // namespace lockstep
