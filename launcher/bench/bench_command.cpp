// SPDX-License-Identifier: Apache-2.0
#include "launcher/bench/bench_command.h"

#include <fmt/format.h>
#include <iostream>
#include <string_view>
#include <unistd.h>

#include "core/base/env.h"
#include "core/base/text/suggest.h"
#include "launcher/bench/bench.h"
#include "launcher/launch/auto_launch.h"
#include "launcher/settings/command_line.h"
#include "lockstep/job.h"
#include "parallel/session/rank_discovery.h"
#include "parallel/session/stop_signals.h"

namespace lockstep {
namespace {

struct Measurement {
  const char* name;
  const char* summary;
  int (*run)(const std::vector<std::string>&);
};
constexpr Measurement kMeasurements[] = {
    {"all-reduce",
     "time and bandwidth of the gradient exchange by size, both reductions",
     bench_all_reduce},
    {"model",
     "a training step of a model: median, samples/s, FLOP/s, share of the peak",
     bench_model},
    {"loader", "samples/s of a data source by loading threads", bench_loader}};

std::string bench_help() {
  CLI::App app(
      "Measures a part of training alone. Under mpirun or srun they take the ranks they are given; "
      "otherwise all-reduce and model start themselves as lockstep train does.",
      "lockstep bench");
  for (const Measurement& measurement : kMeasurements)
    app.add_subcommand(measurement.name, measurement.summary)->group("Commands");
  app.footer("lockstep bench model --help lists its flags.");
  return help_text(app);
}

}  // namespace

bool parse_bench(CLI::App& app, const std::vector<std::string>& arguments) {
  const std::string help = parse_command_line(app, arguments, "lists its flags");
  if (discover_rank(process_variables()).rank <= 0) print_help(help);
  return !help.empty();
}

int run_bench(const TrainFlags& flags,
              const std::vector<std::string>& arguments,
              bool quiet,
              const std::function<void(Job&)>& body) {
  const pid_t parent = getppid();
  const VariableMap variables = process_variables();
  const RankDiscovery discovery = discover_rank(variables);
  if (discovery.launched_by == LaunchedBy::none) {
    StartConditions conditions = start_conditions(flags.device, discovery, variables);
    conditions.command = "bench";
    conditions.doing = "measuring";
    StartPlan plan = plan_start(flags, arguments, conditions);
    if (quiet) plan.message.clear();
    if (plan.ranks <= 1 && !plan.message.empty()) std::cout << plan.message << std::endl;
    if (plan.ranks > 1) {
      // A measurement that is cut short leaves nothing that would be worth waiting for.
      const int code = start(plan, {.grace_s = 0, .hint = {}});
      if (code == int(ExitCode::requeue)) throw Error("bench: stopped by a signal");
      return code;
    }
  }
  // Where mpirun and its supervisor are killed together, no other process ends this rank.
  if (discovery.launched_by == LaunchedBy::mpi && env().started) die_with(parent);
  return run_job(
      0,
      nullptr,
      [&](Job& job) {
        check_launched_ranks(flags, job.size());
        job.open_device(flags.device);
        body(job);
      },
      flags.watch);
}

int bench_command(const std::vector<std::string>& arguments) {
  env();
  if (arguments.empty())
    throw ConfigError("bench: nothing named to measure",
                      "lockstep bench all-reduce, model or loader");
  const std::string what = arguments[0] == "allreduce" ? "all-reduce" : arguments[0];
  if (what == "--help" || what == "-h") {
    print_help(bench_help());
    return 0;
  }
  std::vector<std::string_view> names;
  for (const Measurement& measurement : kMeasurements) {
    if (what == measurement.name) return measurement.run(arguments);
    names.emplace_back(measurement.name);
  }
  const std::string best = nearest(what, names);
  throw ConfigError(fmt::format("bench: cannot measure '{}'", what),
                    best.empty() ? std::string("lockstep bench --help")
                                 : fmt::format("did you mean lockstep bench {}?", best));
}

}  // namespace lockstep
