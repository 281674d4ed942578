// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <string_view>

#include "launcher/commands/completion/completion_scripts.h"

namespace lockstep {
namespace {

constexpr const char* kZshHead = R"(#compdef lockstep
# zsh completion for lockstep, written by: lockstep completion zsh

_lockstep_value() {  # words, or -f for files, -d for folders; after "csv:" a path
  local word found=1
  if compset -P '[a-z0-9]##:'; then
    _files
    return
  fi
  for word; do
    case $word in
      -f) _files && found=0 ;;
      -d) _files -/ && found=0 ;;
      *:) compadd -S '' -- $word && found=0 ;;
      *) compadd -- $word && found=0 ;;
    esac
  done
  return found
}

_lockstep() {
  setopt localoptions extendedglob
  local -a commands own train
)";

/// Within '...' of zsh, and within a spec of _arguments.
std::string zsh_text(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') result += '\\';
    if (c == '\'') {
      result += "'\\''";
    } else {
      result += c;
    }
  }
  return result;
}

std::string zsh_action(const DeclaredValue& value) {
  if (value.words.empty() && !value.files && !value.folders) return " ";
  std::string action = "_lockstep_value";
  for (const std::string& word : value.words) action += " " + zsh_text(word);
  return action + (value.files ? " -f" : "") + (value.folders ? " -d" : "");
}

std::string zsh_specs(const DeclaredCommand& command) {
  std::string specs;
  for (const DeclaredFlag& flag : command.flags)
    specs += fmt::format("    '*{}{}[{}]{}'\n",
                         flag.name,
                         flag.takes_value ? "=" : "",
                         zsh_text(flag.help),
                         flag.takes_value ? fmt::format(":value: {}", zsh_action(flag.value)) : "");
  return specs;
}

void add_case(const DeclaredCommand& command, const std::string& scope, std::string& cases) {
  DeclaredValue words = command.words;
  for (const DeclaredCommand& part : command.parts) words.words.push_back(part.name);
  std::string own = zsh_specs(command);
  if (!words.words.empty() || words.files || words.folders)
    own += fmt::format("    '*:word: {}'\n", zsh_action(words));
  std::string names;
  for (const DeclaredFlag& flag : command.flags)
    names += (names.empty() ? "" : "|") + flag.name.substr(2);
  for (const std::string& flag : command.refused_train_flags) names += "|" + flag.substr(2);
  cases += fmt::format("    '{}') own=(\n{}    )\n", scope, own);
  if (command.takes_train_flags)
    cases += fmt::format("    own+=(${{train:#\\*--({})(=|\\[)*}})\n", names);
  cases += "    ;;\n";
  for (const DeclaredCommand& part : command.parts) add_case(part, scope + " " + part.name, cases);
}

}  // namespace

std::string zsh_completion(std::span<const DeclaredCommand> commands) {
  std::string names, cases, train;
  for (const DeclaredCommand& command : commands) {
    names += fmt::format("    '{}:{}'\n", command.name, zsh_text(command.summary));
    if (command.name == "train") train = zsh_specs(command);
    add_case(command, command.name, cases);
  }
  std::string parts;
  for (const DeclaredCommand& command : commands)
    for (const DeclaredCommand& part : command.parts)
      parts += fmt::format("{}'{} {}'", parts.empty() ? "" : "|", command.name, part.name);
  return kZshHead + fmt::format("  commands=(\n{}  )\n", names) +
         fmt::format("  train=(\n{}  )\n", train) +
         "  if (( CURRENT == 2 )); then\n"
         "    _describe -t commands command commands\n"
         "    compadd -- --help\n"
         "    return\n"
         "  fi\n"
         "  local scope=$words[2]\n"
         "  shift words\n"
         "  (( CURRENT-- ))\n" +
         fmt::format(
             "  if (( CURRENT > 2 )) && [[ \"$scope $words[2]\" == ({}) ]]; then\n"
             "    scope=\"$scope $words[2]\"\n"
             "    shift words\n"
             "    (( CURRENT-- ))\n"
             "  fi\n",
             parts) +
         "  case $scope in\n" + cases +
         "    *) return 1 ;;\n"
         "  esac\n"
         "  _arguments $own\n"
         "}\n\n"
         "if [[ $funcstack[1] == _lockstep ]]; then\n"
         "  _lockstep \"$@\"\n"
         "else\n"
         "  compdef _lockstep lockstep\n"
         "fi\n";
}

}  // namespace lockstep
