// SPDX-License-Identifier: Apache-2.0
#include "launcher/settings/command_line.h"

#include <cerrno>
#include <fmt/format.h>
#include <iostream>
#include <memory>
#include <sstream>

#include "core/base/file_kind.h"
#include "core/base/parameter_names.h"
#include "launcher/settings/flag_synonyms.h"
#include "launcher/settings/help_format.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

/// Takes the declarations in place of a reader of --help.
const std::function<void(CLI::App&)>* declarations_reader = nullptr;

/// "doctor: ", for what is wrong with its flags.
std::string prefix_of(const CLI::App& app) {
  std::string program, command;
  std::istringstream(app.get_name()) >> program >> command;
  return command + ": ";
}

/// A path that is empty is one of a variable that is not set, and must not count as not given.
void refuse_empty_paths(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    const std::string type = option->get_type_name();
    const bool path = type.find("DIR") != type.npos || type.find("FILE") != type.npos;
    if (!path || option->get_positional() || option->count() == 0) continue;
    for (const std::string& value : option->results())
      if (value.empty())
        throw ConfigError(
            fmt::format(
                "{}--{} is empty: expected {}", prefix_of(app), option->get_lnames().at(0), type),
            "name a path, or give the flag not at all; a variable in it may not be set");
  }
}

[[noreturn]] void unexpected_argument(const CLI::App& app, const std::string& all_flags) {
  const std::string prefix = prefix_of(app);
  const std::vector<std::string> rest = app.remaining();
  const std::string first = rest.empty() ? std::string() : rest.front();
  const std::size_t dashes = first.starts_with("--") ? 2 : 1;
  if (!first.starts_with("-") || first.size() <= dashes)
    throw ConfigError(fmt::format("{}unexpected argument '{}'", prefix, as_written(first)),
                      "flags have the form --name value or --name=value");
  const std::string name = first.substr(dashes, first.find('=') - dashes);
  const std::string hint = flag_hint(app, name, "--");
  throw ConfigError(
      fmt::format("{}unknown flag {}", prefix, as_written(first.substr(0, first.find('=')))),
      hint.empty() ? all_flags : hint);
}

}  // namespace

std::string help_text(CLI::App& app) {
  if (declarations_reader != nullptr) {
    (*declarations_reader)(app);
    return "--help";  // so that the command ends
  }
  app.formatter(std::make_shared<HelpFormat>(help_columns()));
  return app.help();
}

std::string parse_with_own_policies(CLI::App& app,
                                    const std::vector<std::string>& arguments,
                                    const std::string& listing) {
  const std::string all_flags = app.get_name() + " --help " + listing;
  try {
    std::vector<std::string> words = canonical_arguments(app, arguments);
    // CLI11 wants them last first.
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
    refuse_empty_paths(app);
  } catch (const CLI::CallForHelp&) {
    return help_text(app);
  } catch (const CLI::ExtrasError&) {
    unexpected_argument(app, all_flags);
  } catch (const CLI::FileError& error) {  // it was there a moment ago
    throw DataError(prefix_of(app) + as_written(error.what()), read_hint(EIO));
  } catch (const CLI::Error& error) {
    throw ConfigError(prefix_of(app) + as_written(error.what()), all_flags);
  }
  return {};
}

std::string parse_command_line(CLI::App& app,
                               const std::vector<std::string>& arguments,
                               const std::string& listing) {
  // Arguments without a name, as the runs of a report, are a list.
  for (CLI::Option* option : app.get_options())
    if (!option->get_positional()) option->take_last();
  return parse_with_own_policies(app, arguments, listing);
}

bool print_help(const std::string& help) {
  if (declarations_reader == nullptr) std::cout << help << std::flush;
  return !help.empty();
}

void read_declarations(const std::function<int(const std::vector<std::string>&)>& command,
                       const std::function<void(CLI::App&)>& read) {
  struct Reading {
    explicit Reading(const std::function<void(CLI::App&)>& r) { declarations_reader = &r; }
    ~Reading() { declarations_reader = nullptr; }
  } const reading(read);
  command({"--help"});
}

}  // namespace lockstep
