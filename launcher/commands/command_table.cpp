// SPDX-License-Identifier: Apache-2.0
#include "launcher/commands/command_table.h"

#include <CLI/CLI.hpp>

#include "launcher/bench/bench_command.h"
#include "launcher/commands/commands.h"
#include "launcher/commands/completion/completion_command.h"
#include "launcher/commands/man_command.h"
#include "launcher/settings/command_line.h"
#include "launcher/version/version_command.h"

namespace lockstep {
namespace {

// These read the list themselves.
int run_completion(const std::vector<std::string>& arguments) {
  return completion_command(all_commands(), arguments);
}
int run_man(const std::vector<std::string>& arguments) {
  return man_command(all_commands(), arguments);
}

constexpr Command kAllCommands[] = {
    {"train", "trains a model of the zoo on a data source", train_command},
    {"run", "starts the ranks of a training and restarts them after a failure", run_command},
    {"plan", "what a training would need and what fits, without running it", plan_command},
    {"scale", "runs a training on several rank counts and predicts further ones", scale_command},
    {"simulate",
     "a training on up to 16,384 ranks without them: checks, traffic, times",
     simulate_command},
    {"sweep", "trains with several values of settings and compares the runs", sweep_command},
    {"bench", "measures a part: all-reduce, a model's step, or the loader", bench_command},
    {"evaluate", "loss and accuracy of a saved run", evaluate_command},
    {"predict", "predictions of a saved run for files: images, tables, texts", predict_command},
    {"generate", "text that a saved gpt continues", generate_command},
    {"export",
     "weights of a run or checkpoint as one file for PyTorch: safetensors or .pth",
     export_command},
    {"report", "one HTML file about a run, or comparing several", report_command},
    {"status", "how a run stands: step, rate, checkpoint and snapshot, faults", status_command},
    {"doctor", "checks the machine and says what to repair", doctor_command},
    {"pack", "writes an image folder as one file that loads faster", pack_command},
    {"tokenize",
     "writes texts as tokens, by a tokenizer that it trains or reads",
     tokenize_command},
    {"help", "the flags of a command: lockstep help train", help_command},
    {"completion", "a script for completion in bash, zsh or fish", run_completion},
    {"man", "", run_man},
    {"--version", "", version_command},
};

}  // namespace

std::span<const Command> all_commands() { return kAllCommands; }

int help_command(const std::vector<std::string>& arguments) {
  CLI::App app("Prints the flags of a command, as COMMAND --help does.", "lockstep help");
  std::vector<std::string> words;
  app.add_option("COMMAND", words, "as lockstep help train, or lockstep help bench model");
  if (print_help(parse_command_line(app, arguments))) return 0;
  if (words.empty()) {
    CLI::App program("", "lockstep");
    declare_program(program, kAllCommands);
    print_help(help_text(program));
    return 0;
  }
  const Command& command = find_command(kAllCommands, words[0]);
  std::vector<std::string> rest(words.begin() + 1, words.end());
  rest.emplace_back("--help");
  return command.run(rest);
}

}  // namespace lockstep
