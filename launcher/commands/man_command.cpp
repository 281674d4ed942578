// SPDX-License-Identifier: Apache-2.0
#include "launcher/commands/man_command.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fmt/format.h>
#include <iostream>
#include <string_view>
#include <utility>

#include "core/io/run_log.h"
#include "launcher/commands/declared_commands.h"
#include "launcher/processes/host_facts.h"
#include "launcher/settings/command_line.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

using Page = std::pair<std::string, std::string>;  // "lockstep-train", text

/// As text of troff: a backslash, a dash, and a dot or an apostrophe that begins a line.
std::string roff(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\') {
      result += "\\e";
    } else if (c == '-') {
      result += "\\-";
    } else {
      if ((c == '.' || c == '\'') && (result.empty() || result.back() == '\n')) result += "\\&";
      result += c;
    }
  }
  return result;
}

std::string dashed(std::string name) {
  for (char& c : name)
    if (c == ' ') c = '-';
  return name;
}

std::string options_of(const CLI::App& app) {
  const CLI::Formatter format;
  std::string text;
  const auto add = [&](const CLI::Option* option) {
    text += fmt::format(".TP\n\\fB{}\\fR{}\n{}\n",
                        roff(format.make_option_name(option, option->get_positional())),
                        roff(format.make_option_opts(option)),
                        roff(format.make_option_desc(option)));
  };
  for (const CLI::Option* option : app.get_options())
    if (option->get_positional()) add(option);
  for (const std::string& group : app.get_groups()) {
    if (group.empty()) continue;
    if (group != "Options") text += fmt::format(".SS {}\n", roff(group));
    for (const CLI::Option* option : app.get_options())
      if (option->get_group() == group && !option->get_positional()) add(option);
  }
  return text;
}

std::string commands_of(const CLI::App& app) {
  std::string text;
  for (const CLI::App* sub : app.get_subcommands({}))
    text +=
        fmt::format(".TP\n\\fB{}\\fR\n{}\n", roff(sub->get_name()), roff(sub->get_description()));
  return text.empty() ? text : ".SH COMMANDS\n" + text;
}

/// `name`: "lockstep-train"; `typed`: "lockstep train".
std::string page_text(const std::string& name,
                      const std::string& typed,
                      const std::string& summary,
                      const CLI::App& app) {
  const bool has_commands = !app.get_subcommands({}).empty();
  std::string text = fmt::format(
      ".TH {} 1 \"\" \"Lockstep {}\" \"User Commands\"\n", roff(name), lockstep_version());
  text += fmt::format(".SH NAME\n{} \\- {}\n", roff(name), roff(summary));
  text += fmt::format(".SH SYNOPSIS\n\\fB{}\\fR{}", roff(typed), has_commands ? " COMMAND" : "");
  for (const CLI::Option* option : app.get_options())
    if (option->get_positional()) text += fmt::format(" [{}]", roff(option->get_name(true, false)));
  text += " [\\fB\\-\\-flag\\fR VALUE] ...\n";
  text += fmt::format(".SH DESCRIPTION\n{}\n", roff(app.get_description()));
  if (!app.get_footer().empty()) text += fmt::format(".PP\n{}\n", roff(app.get_footer()));
  text += commands_of(app) + ".SH OPTIONS\n" + options_of(app);
  if (name != "lockstep")
    text += ".SH SEE ALSO\n\\fBlockstep\\fR(1), \\fBlockstep\\-train\\fR(1)\n";
  return text;
}

std::vector<Page> all_pages(std::span<const Command> commands) {
  CLI::App program("", "lockstep");
  declare_program(program, commands);
  std::vector<Page> pages{
      {"lockstep",
       page_text("lockstep", "lockstep", "data-parallel training of neural networks", program)}};
  for_each_command(commands,
                   [&](const std::string& name, const std::string& summary, CLI::App& app) {
                     const std::string page = "lockstep-" + dashed(name);
                     pages.emplace_back(page, page_text(page, "lockstep " + name, summary, app));
                   });
  return pages;
}

void write_all(std::span<const Command> commands, const std::string& folder) {
  for (const auto& [name, text] : all_pages(commands)) {
    RunLog file((std::filesystem::path(folder) / (name + ".1")).string(), RunLog::Open::empty);
    file.write_line(std::string_view(text).substr(0, text.size() - 1));
    file.close();
    if (!file.error().empty()) throw EnvironmentError(file.error());
  }
}

}  // namespace

int man_command(std::span<const Command> commands, const std::vector<std::string>& arguments) {
  CLI::App app("Prints a manual page.", "lockstep man");
  std::vector<std::string> words;
  std::string to;
  app.add_option("COMMAND", words, "as lockstep man train, or lockstep man bench model");
  app.add_option("--to", to, "write all pages into this folder")->type_name("DIR");
  if (print_help(parse_command_line(app, arguments))) return 0;
  if (!to.empty()) {
    write_all(commands, to);
    return 0;
  }
  std::string wanted = "lockstep";
  for (const std::string& word : words) wanted += "-" + word;
  for (const auto& [name, text] : all_pages(commands))
    if (name == wanted) {
      std::cout << text << std::flush;
      return 0;
    }
  find_command(commands, words[0]);
  throw ConfigError(fmt::format("man: there is no page {}", wanted), "lockstep man " + words[0]);
}

}  // namespace lockstep
