// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "launcher/commands/completion/completion_scripts.h"
#include "lockstep/data/sources.h"

namespace lockstep {
namespace {

constexpr const char* kBashHead =
    R"(# bash completion for lockstep, written by: lockstep completion bash

)";

// Bash cuts words at = and :, unless COMP_WORDBREAKS says otherwise; both are taken.
constexpr const char* kBashTail = R"(
_lockstep_reply() {  # PREFIX, then what compgen takes
  local prefix=$1 found
  shift
  while IFS= read -r found; do
    COMPREPLY+=("$found")
  done < <(compgen -P "$prefix" "$@" -- "$cur")
}

_lockstep() {
  local cur=${COMP_WORDS[COMP_CWORD]} at=$COMP_CWORD command=${COMP_WORDS[1]} scope
  local flag= kind= prefix= flags= words= paths= train=
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    _lockstep_reply '' -W "$_lockstep_commands"
    return
  fi
  scope=$command
  ((COMP_CWORD > 2)) && _lockstep_declared "$command ${COMP_WORDS[2]}" && scope="$command ${COMP_WORDS[2]}"
  if [[ $cur == --*=* ]]; then
    flag=${cur%%=*} prefix=$flag= cur=${cur#*=}
  fi
  if [[ $cur == : ]]; then
    kind=${COMP_WORDS[at - 1]} cur= at=$((at - 1))
  elif [[ ${COMP_WORDS[at - 1]} == : ]]; then
    kind=${COMP_WORDS[at - 2]} at=$((at - 2))
  elif [[ $cur == [a-z]*:* ]]; then
    kind=${cur%%:*} prefix+=$kind: cur=${cur#*:}
  fi
  if [[ -z $flag ]]; then
    if [[ $cur == '=' ]]; then
      flag=${COMP_WORDS[at - 1]} cur=
    elif [[ ${COMP_WORDS[at - 1]} == '=' ]]; then
      flag=${COMP_WORDS[at - 2]}
    else
      flag=${COMP_WORDS[at - 1]}
    fi
  fi
  _lockstep_declared "$scope"
  if [[ $flag == --* ]] && { _lockstep_value "$scope $flag" || { [[ " $train " == *" $flag "* ]] && _lockstep_value "train $flag"; }; }; then
    flags=
  elif [[ -n $prefix$kind ]]; then
    return
  fi
  if [[ -n $kind ]]; then
    words=
    _lockstep_source "$kind" || return
  fi
  if [[ -n $flags ]] && [[ $cur == -* || -z $words$paths ]]; then
    flags="$flags $train"
    _lockstep_reply '' -W "$flags"
    return
  fi
  [[ -n $words ]] && _lockstep_reply "$prefix" -W "$words"
  [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *: ]] && compopt -o nospace 2>/dev/null
  [[ -n $paths ]] && compopt -o filenames 2>/dev/null
  [[ $paths == files ]] && _lockstep_reply "$prefix" -f
  [[ $paths == folders ]] && _lockstep_reply "$prefix" -d
  return 0
}

complete -F _lockstep lockstep
)";

std::string bash_names(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, " "));
}

const char* bash_paths(const DeclaredValue& value) {
  return value.files ? "files" : value.folders ? "folders" : "";
}

/// Lines of _lockstep_source(): what lies after the colon of a kind of --data.
std::string bash_sources() {
  std::string cases;
  for (const data::SourceKind& kind : data::source_kinds())
    if (kind.takes_path())
      cases += fmt::format(
          "    {}) paths={} ;;\n", kind.name, kind.argument == "DIR" ? "folders" : "files");
  return cases;
}

std::string bash_flags(const DeclaredCommand& command) {
  std::vector<std::string> names;
  for (const DeclaredFlag& flag : command.flags) names.push_back(flag.name);
  return bash_names(names);
}

/// Those of train that `command` takes.
std::string bash_train_flags(const DeclaredCommand& command, const DeclaredCommand& train) {
  if (!command.takes_train_flags) return "";
  if (command.refused_train_flags.empty()) return "$_lockstep_train_flags";
  std::vector<std::string> names;
  for (const DeclaredFlag& flag : train.flags)
    if (takes_train_flag(command, flag.name)) names.push_back(flag.name);
  return bash_names(names);
}

/// A line of _lockstep_declared() and lines of _lockstep_value().
void add_scope(const DeclaredCommand& command,
               const DeclaredCommand& train,
               const std::string& scope,
               std::string& declared,
               std::string& values) {
  std::vector<std::string> words = command.words.words;
  for (const DeclaredCommand& part : command.parts) words.push_back(part.name);
  declared += fmt::format("    '{}') flags='{}' words='{}' paths='{}' train=\"{}\" ;;\n",
                          scope,
                          bash_flags(command),
                          bash_names(words),
                          bash_paths(command.words),
                          bash_train_flags(command, train));
  for (const DeclaredFlag& flag : command.flags)
    if (flag.takes_value)
      values += fmt::format("    '{} {}') words='{}' paths='{}' ;;\n",
                            scope,
                            flag.name,
                            bash_names(flag.value.words),
                            bash_paths(flag.value));
  for (const DeclaredCommand& part : command.parts)
    add_scope(part, train, scope + " " + part.name, declared, values);
}

}  // namespace

std::string bash_completion(std::span<const DeclaredCommand> commands) {
  std::string names, declared, values;
  const auto train = std::ranges::find(commands, "train", &DeclaredCommand::name);
  for (const DeclaredCommand& command : commands) {
    names += command.name + " ";
    add_scope(command, *train, command.name, declared, values);
  }
  return kBashHead + fmt::format("_lockstep_commands='{}--help'\n", names) +
         fmt::format("_lockstep_train_flags='{}'\n\n", bash_flags(*train)) +
         "_lockstep_declared() {\n  case $1 in\n" + declared + "    *) return 1 ;;\n  esac\n}\n\n" +
         "_lockstep_value() {\n  case $1 in\n" + values + "    *) return 1 ;;\n  esac\n}\n\n" +
         "_lockstep_source() {\n  case $1 in\n" + bash_sources() +
         "    *) return 1 ;;\n  esac\n}\n" + kBashTail;
}

}  // namespace lockstep
