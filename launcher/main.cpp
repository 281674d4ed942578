// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/suggest.h"
#include "launcher/bench_command.h"
#include "launcher/commands.h"
#include "launcher/doctor_command.h"
#include "launcher/error_meeting.h"
#include "launcher/host_facts.h"
#include "launcher/memory_words.h"
#include "launcher/pack_command.h"
#include "launcher/plan_command.h"
#include "launcher/report_command.h"
#include "launcher/run_command.h"
#include "launcher/scale_command.h"
#include "launcher/train_command.h"
#include "launcher/uncaught.h"

namespace {

constexpr std::string_view kUsage =
    "usage: lockstep <command> [--config FILE.toml] [--flag value | --flag=value]\n"
    "\n"
    "commands\n"
    "  train      trains a model of the zoo on a data source (lockstep train --help)\n"
    "  run        starts the ranks of a training and restarts them after a failure\n"
    "  plan       what a training would need and what fits, without running it\n"
    "  scale      runs a training on several numbers of ranks and predicts further ones\n"
    "  bench      measures a part: all-reduce, a model's step, or the loader\n"
    "  evaluate   loss and accuracy of a saved run\n"
    "  predict    what a saved run says of single samples\n"
    "  generate   text that a saved gpt continues\n"
    "  export     weights of a run or checkpoint as one safetensors file for PyTorch\n"
    "  report     one HTML file about a run, or comparing several (lockstep report --help)\n"
    "  doctor     looks at the machine and says what to mend (lockstep doctor --help)\n"
    "  pack       writes an image folder as one file that loads faster (lockstep pack --help)\n"
    "\n"
    "flags\n"
    "  --help     prints this\n"
    "  --version  prints the version\n"
    "\n"
    "exit codes\n"
    "  0 done, 1 error, 2 usage, 3 environment, 4 out of memory, 5 a rank died, is frozen or\n"
    "  stuck, or never joined, 6 replicas differ, 7 loss not finite, 75 stopped by a signal, with "
    "a checkpoint to go on from\n";

int run(const std::vector<std::string>& arguments) {
  using lockstep::ConfigError;
  if (arguments.empty())
    throw ConfigError("no command given", "lockstep train, or lockstep --help");
  const std::string& command = arguments[0];
  if (command == "--help" || command == "-h" || command == "help") {
    std::cout << kUsage << std::flush;
    return 0;
  }
  if (command == "--version") {
    std::cout << "lockstep " << lockstep::lockstep_version() << std::endl;
    return 0;
  }
  constexpr std::pair<std::string_view, int (*)(const std::vector<std::string>&)> kRun[] = {
      {"train", lockstep::train_command},
      {"run", lockstep::run_command},
      {"plan", lockstep::plan_command},
      {"scale", lockstep::scale_command},
      {"bench", lockstep::bench_command},
      {"evaluate", lockstep::evaluate_command},
      {"predict", lockstep::predict_command},
      {"generate", lockstep::generate_command},
      {"export", lockstep::export_command},
      {"report", lockstep::report_command},
      {"doctor", lockstep::doctor_command},
      {"pack", lockstep::pack_command}};
  for (const auto& [name, run_command] : kRun)
    if (command == name) return run_command({arguments.begin() + 1, arguments.end()});
  constexpr std::string_view kCommands[] = {"train",
                                            "run",
                                            "plan",
                                            "scale",
                                            "bench",
                                            "evaluate",
                                            "predict",
                                            "generate",
                                            "export",
                                            "report",
                                            "doctor",
                                            "pack",
                                            "--help",
                                            "--version"};
  const std::string best = lockstep::nearest(command, kCommands);
  throw ConfigError(fmt::format("unknown command '{}'", command),
                    best.empty() ? "lockstep --help" : "did you mean lockstep " + best + "?");
}

}  // namespace

namespace {

// Before all other objects of this program are made, since that needs memory too.
struct HandlesUncaught {
  HandlesUncaught() { std::set_terminate(lockstep::report_uncaught); }
};
[[gnu::init_priority(101)]] const HandlesUncaught handles_uncaught;

}  // namespace

// So that an error can say how much was asked for. Sanitizers bring their own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
void* operator new(std::size_t bytes) {
  if (void* const memory = std::malloc(bytes > 0 ? bytes : 1)) return memory;
  lockstep::note_refused_bytes(bytes);
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*bytes*/) noexcept { std::free(memory); }
#endif

int main(int argc, char** argv) {
  // Neither a reader that goes away nor a limit on the size of files must end the training.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    lockstep::report_aborts();
    return run({argv + 1, argv + argc});
  } catch (...) {
    return lockstep::report_alone(std::current_exception());
  }
}
