// SPDX-License-Identifier: Apache-2.0
#include "launcher/commands/declared_commands.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

#include "launcher/predict/saved_run.h"
#include "launcher/settings/command_line.h"
#include "lockstep/data/sources.h"
#include "lockstep/zoo.h"

namespace lockstep {
namespace {

/// "auto|mpirun" at |
std::vector<std::string> split_at_bars(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('|', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// "csv:" of "csv:FILE", "train" of "train", "A100"; empty for placeholders and examples: N, FILE,
/// 16GiB, a:2,b:2.
std::string fixed_word(std::string part) {
  const std::size_t colon = part.find(':');
  if (colon != part.npos) part.resize(colon + 1);
  const bool capitals = std::ranges::any_of(part, [](unsigned char c) { return std::isupper(c); });
  const bool is_model = capitals && std::isdigit(static_cast<unsigned char>(part.back()));
  const bool fixed = part.size() > 1 && part.find_first_of(",[].") == part.npos;
  return fixed && (!capitals || is_model) ? part : std::string();
}

/// What the name of a value's type says, as "auto|N", "FILE.html" and "SOURCE".
DeclaredValue value_of(const std::string& type) {
  DeclaredValue value;
  if (type == "NAME")
    for (const std::string_view name : nn::model_names()) value.words.emplace_back(name);
  if (type == "SOURCE")
    for (const data::SourceKind& kind : data::source_kinds())
      value.words.push_back(std::string(kind.name) + (kind.takes_path() ? ":" : ""));
  if (!value.words.empty()) return value;
  for (const std::string& part : split_at_bars(type)) {
    value.files |= part.starts_with("FILE");
    value.folders |= part == "DIR";
    if (std::string word = fixed_word(part); !word.empty()) value.words.push_back(std::move(word));
  }
  return value;
}

/// Of a command on a saved run, which --from names.
std::vector<std::string> refused_by(const std::string& command, const CLI::App& app) {
  if (!app.get_allow_extras() || app.get_option_no_throw("--from") == nullptr) return {};
  const bool takes_file = command == "evaluate";
  const auto flags = refused_train_flags(takes_file ? WeightsFile::allowed : WeightsFile::refused);
  return {flags.begin(), flags.end()};
}

DeclaredCommand declared(const std::string& name, const std::string& summary, CLI::App& app) {
  DeclaredCommand command{.name = name,
                          .summary = summary,
                          .flags = {},
                          .words = {},
                          .takes_train_flags = app.get_allow_extras(),
                          .refused_train_flags = refused_by(name, app),
                          .parts = {}};
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional()) {
      const std::string type = option->get_type_name();
      command.words = value_of(type.empty() ? option->get_name() : type);  // as FILE
      continue;
    }
    if (option->get_group().empty()) continue;  // not for people
    DeclaredFlag flag{.name = "--" + option->get_lnames().at(0),
                      .help = option->get_description(),
                      .takes_value = option->get_items_expected_min() > 0,
                      .value = {}};
    if (flag.takes_value) flag.value = value_of(option->get_type_name());
    command.flags.push_back(std::move(flag));
  }
  return command;
}

using Reader = std::function<void(const std::string&, const std::string&, CLI::App&)>;

void read_one(const Command& command, const Reader& read) {
  const std::string name(command.name);
  std::vector<std::pair<std::string, std::string>> parts;
  read_declarations(command.run, [&](CLI::App& app) {
    for (const CLI::App* part : app.get_subcommands({}))
      parts.emplace_back(part->get_name(), part->get_description());
    read(name, std::string(command.summary), app);
  });
  for (const auto& [part, summary] : parts) {
    const auto run = [&](const std::vector<std::string>& arguments) {
      std::vector<std::string> words{part};
      words.insert(words.end(), arguments.begin(), arguments.end());
      return command.run(words);
    };
    read_declarations(run, [&](CLI::App& app) { read(name + " " + part, summary, app); });
  }
}

}  // namespace

bool takes_train_flag(const DeclaredCommand& command, const std::string& name) {
  return command.takes_train_flags &&
         std::ranges::find(command.flags, name, &DeclaredFlag::name) == command.flags.end() &&
         std::ranges::find(command.refused_train_flags, name) == command.refused_train_flags.end();
}

void for_each_command(std::span<const Command> commands, const Reader& read) {
  for (const Command& command : commands)
    if (!command.summary.empty()) read_one(command, read);
}

std::vector<DeclaredCommand> declared_commands(std::span<const Command> all) {
  std::vector<DeclaredCommand> commands;
  for_each_command(all, [&](const std::string& name, const std::string& summary, CLI::App& app) {
    const std::size_t space = name.find(' ');
    auto& list = space == name.npos ? commands : commands.back().parts;
    list.push_back(declared(space == name.npos ? name : name.substr(space + 1), summary, app));
  });
  for (DeclaredCommand& command : commands)
    if (command.name == "help")
      for (const DeclaredCommand& other : commands) command.words.words.push_back(other.name);
  const Command& version = find_command(all, "--version");
  read_declarations(version.run, [&](CLI::App& app) {
    commands.push_back(declared(std::string(version.name), "print the version", app));
  });
  return commands;
}

}  // namespace lockstep
