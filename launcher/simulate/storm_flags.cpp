// SPDX-License-Identifier: Apache-2.0
#include "launcher/simulate/storm_flags.h"

#include <CLI/CLI.hpp>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "launcher/settings/flag_values.h"
#include "launcher/simulate/fault_source.h"

namespace lockstep {
namespace {

constexpr const char* kOnlyWithFaults[] = {"--storm-hours",
                                           "--storms",
                                           "--exact-ranks",
                                           "--storage-bandwidth",
                                           "--snapshot-bandwidth",
                                           "--launch-seconds",
                                           "--max-restarts",
                                           "--backoff"};

void add_whole(CLI::App& app,
               const std::string& flag,
               std::int64_t& value,
               std::int64_t least,
               std::int64_t most,
               const char* help) {
  app.add_option(flag, value, help)
      ->type_name("N")
      ->capture_default_str()
      ->check(whole_number(flag, least, most));
}

void add_real(CLI::App& app,
              const std::string& flag,
              double& value,
              double least,
              double most,
              const char* unit,
              const char* help) {
  app.add_option(flag, value, help)
      ->type_name(unit)
      ->capture_default_str()
      ->check(real_number(flag, least, most));
}

}  // namespace

void declare_storm_flags(CLI::App& app, StormFlags& flags) {
  app.add_option("--faults",
                 flags.faults,
                 "has a job of hours meet faults: those of a file, or drawn with this mean time to "
                 "failure; one rank count alone")
      ->type_name("FILE|poisson:7.9h");
  add_real(app, "--storm-hours", flags.hours, 0.01, 10'000, "HOURS", "simulated with --faults");
  add_whole(app, "--storms", flags.storms, 1, 10'000, "storms, each by a seed of its own");
  add_whole(
      app,
      "--exact-ranks",
      flags.exact_ranks,
      1,
      16'384,
      "most ranks on which a storm's start-up and step are simulated; more ranks are taken to "
      "have the times of as many, with as many samples each");
  add_real(app,
           "--storage-bandwidth",
           flags.storage_gbps,
           1e-3,
           1e6,
           "GB/s",
           "that checkpoints are written and read with, of all ranks together");
  add_real(app,
           "--snapshot-bandwidth",
           flags.snapshot_gbps,
           1e-3,
           1e3,
           "GB/s",
           "that each rank writes snapshots into its host's memory with, hashing them, and reads "
           "and verifies them with");
  add_real(app,
           "--launch-seconds",
           flags.launch_s,
           0,
           86'400,
           "SECONDS",
           "from a restart until the ranks' processes have met");
  add_whole(app,
            "--max-restarts",
            flags.max_restarts,
            0,
            1'000'000,
            "of lockstep run: in a row without a newer checkpoint");
  add_real(app,
           "--backoff",
           flags.backoff_s,
           0,
           86'400,
           "SECONDS",
           "of lockstep run: pause before a restart; doubles up to 5 minutes");
}

void resolve_storm_flags(const CLI::App& app,
                         const std::vector<int>& ranks,
                         int ranks_per_host,
                         StormFlags& flags) {
  if (!flags.any()) {
    for (const char* flag : kOnlyWithFaults)
      LOCKSTEP_CHECK(app.count(flag) == 0, ConfigError, "{} applies with --faults alone", flag);
    LOCKSTEP_CHECK(
        app.count("--faults") == 0, ConfigError, "--faults is '', expected a file or poisson:MTTF");
    return;
  }
  LOCKSTEP_CHECK(ranks.size() == 1,
                 ConfigError,
                 "--faults takes one rank count, and --ranks has {}",
                 ranks.size());
  constexpr std::string_view kPoisson = "poisson:";
  if (!flags.faults.starts_with(kPoisson)) {
    flags.planted = open_faults(flags.faults, ranks[0], ranks_per_host, flags.hours * 3600);
    LOCKSTEP_CHECK(flags.storms == 1,
                   ConfigError,
                   "--storms {}: the faults of a file are the same in each",
                   flags.storms);
    return;
  }
  const std::string mean = flags.faults.substr(kPoisson.size());
  flags.mean_s = parse_seconds(mean).value_or(0);
  constexpr double kShortest = 1;
  if (flags.mean_s < kShortest)
    throw ConfigError(fmt::format("--faults poisson:MTTF: expected a mean time to failure of at "
                                  "least 1s, got '{}'",
                                  as_written(mean)),
                      "for example --faults poisson:7.9h, or poisson:30m");
  check_drawn(flags.mean_s, flags.hours * 3600);
}

}  // namespace lockstep
