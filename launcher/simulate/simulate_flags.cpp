// SPDX-License-Identifier: Apache-2.0
#include "launcher/simulate/simulate_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "launcher/plan/forecast.h"
#include "launcher/plan/network_file.h"
#include "launcher/scale/scale_flags.h"
#include "launcher/settings/command_line.h"
#include "launcher/settings/flag_values.h"
#include "launcher/settings/flags.h"
#include "parallel/batch/batch_plan.h"

namespace lockstep {
namespace {

constexpr int kMaxRanks = 16'384;
constexpr std::int64_t kDefaultSteps = 3;

struct RawSimulate {
  std::string ranks, hosts, network = "nvlink", rate = "H100";
  bool no_sums = false;
};

void declare(CLI::App& app, SimulateFlags& flags, RawSimulate& raw) {
  app.add_option("--ranks", raw.ranks, "rank counts to simulate, one after another")
      ->type_name("8,64,1024");
  app.add_option("--hosts", raw.hosts, "hosts and ranks on each, in place of --ranks")
      ->type_name("128x8");
  app.add_option("--network", raw.network, "what connects the ranks; as in lockstep plan")
      ->type_name("nvlink|ib|ethernet|FILE")
      ->capture_default_str();
  app.add_option("--device-rate",
                 raw.rate,
                 "the GPU of each rank, at an assumed share of its data sheet's peaks, or the "
                 "TFLOP/s that a rank reaches")
      ->type_name("A100|H100|H200|B200|TFLOPS")
      ->capture_default_str();
  app.add_option("--arrival-orders",
                 flags.arrival_orders,
                 "random orders in which ranks come to their collectives, each tried once, in "
                 "addition to that of their clocks")
      ->type_name("N")
      ->capture_default_str()
      ->check(whole_number("--arrival-orders", 0, 1'000'000));
  app.add_flag("--no-sums",
               raw.no_sums,
               "does not follow who adds which gradient to which, which saves time and memory");
  app.add_option("--spread",
                 flags.spread,
                 "how much the steps of a rank differ: the standard deviation of the logarithm of "
                 "their times")
      ->type_name("X")
      ->capture_default_str()
      ->check(real_number("--spread", 0, 1));
  declare_time_flags(app, flags.time);
  app.add_option("--timeline",
                 flags.timeline,
                 "writes the last step on the largest rank count, for ui.perfetto.dev")
      ->type_name("FILE");
  app.add_option("--page",
                 flags.page,
                 "writes an HTML page as of lockstep report: the table, the last step on the "
                 "largest rank count, and what became of faults")
      ->type_name("FILE");
  declare_storm_flags(app, flags.storm);
  app.add_flag("--json", flags.json, "one JSON object instead of text");
  app.allow_extras();
  app.footer(
      "All other flags are those of lockstep train (lockstep train --help); --steps is 3 where it "
      "is omitted. Exact: collectives, samples and sums. Modelled: times. Not simulated: the start "
      "of the processes, loader threads, checkpoints, and what NCCL and MPI do inside.");
}

/// "128x8"
void take_hosts(const std::string& text, SimulateFlags& flags) {
  int hosts = 0, each = 0;
  const char* const end = text.data() + text.size();
  const auto [middle, bad] = std::from_chars(text.data(), end, hosts);
  const bool has_x = bad == std::errc() && middle != end && *middle == 'x';
  const auto [last, worse] = has_x ? std::from_chars(middle + 1, end, each)
                                   : std::from_chars_result{middle, std::errc::invalid_argument};
  LOCKSTEP_CHECK(has_x && worse == std::errc() && last == end && hosts > 0 && each > 0 &&
                     std::int64_t(hosts) * each <= kMaxRanks,
                 ConfigError,
                 "--hosts: expected hosts x ranks on each, of at most {} ranks in all, as 128x8, "
                 "got '{}'",
                 kMaxRanks,
                 as_written(text));
  LOCKSTEP_CHECK(flags.ranks.empty() || (flags.ranks.size() == 1 && flags.ranks[0] == hosts * each),
                 ConfigError,
                 "--hosts {} are {} ranks, and --ranks says otherwise",
                 as_written(text),
                 hosts * each);
  flags.ranks = {hosts * each};
  flags.network.ranks_per_host = each;
}

/// Whether one of `names` is given.
bool says(const std::vector<std::string>& arguments,
          std::initializer_list<std::string_view> names) {
  return std::ranges::any_of(arguments, [&](const std::string& argument) {
    return std::ranges::any_of(names, [&](std::string_view name) {
      return argument == name || argument.starts_with(std::string(name) + "=");
    });
  });
}

/// Of a storm's ranks, so many as are simulated exactly, with as many samples each.
void take_exact_ranks(SimulateFlags& flags) {
  flags.storm_ranks = flags.ranks[0];
  if (flags.storm_ranks <= flags.storm.exact_ranks) return;
  TrainOptions all = flags.train.options;
  make_shards_for(all, flags.storm_ranks);
  validate(all);
  (void)plan_batch(all, flags.storm_ranks);
  const std::int64_t times = flags.storm_ranks / flags.storm.exact_ranks;
  LOCKSTEP_CHECK(flags.storm_ranks % flags.storm.exact_ranks == 0 && all.global_batch % times == 0,
                 ConfigError,
                 "--exact-ranks {} cannot stand for {} ranks with a global batch of {}: both have "
                 "to be whole multiples",
                 flags.storm.exact_ranks,
                 flags.storm_ranks,
                 all.global_batch);
  flags.ranks = {int(flags.storm.exact_ranks)};
  flags.train.options.global_batch /= times;
}

void parse_train(SimulateFlags& flags, std::vector<std::string> arguments) {
  const PlaceholderData placeholder{0};
  if (!says(arguments, {"--steps", "--epochs", "--samples", "--config"}))
    arguments.push_back(fmt::format("--steps={}", kDefaultSteps));
  flags.train = parse_train_flags(arguments, &placeholder);
  if (!flags.train.help.empty()) return;
  TrainOptions& options = flags.train.options;
  LOCKSTEP_CHECK(!flags.train.measures_micro_batch && !flags.train.chooses_sharding,
                 ConfigError,
                 "simulate: {} auto asks a device what fits it, and there is none",
                 flags.train.measures_micro_batch ? "--micro-batch" : "--shard");
  if (options.micro_batch == 0 && options.accumulation == 0)
    options.micro_batch = default_micro_batch(options.global_batch);
  if (flags.storm.any()) take_exact_ranks(flags);
  make_shards_for(options, flags.ranks.back());
  validate(options);
  for (const int ranks : flags.ranks) (void)plan_batch(options, ranks);
}

}  // namespace

SimulateFlags parse_simulate_flags(const std::vector<std::string>& arguments) {
  CLI::App app(
      "Runs a training's own code on up to 16,384 ranks in this process, over devices that compute "
      "nothing and a network that moves nothing: what ranks agree on, send and add is checked, and "
      "times are predicted.",
      "lockstep simulate");
  SimulateFlags flags;
  RawSimulate raw;
  declare(app, flags, raw);
  flags.help = parse_command_line(app, arguments, "lists its flags");
  if (!flags.help.empty()) return flags;
  if (!raw.ranks.empty()) flags.ranks = parse_counts("--ranks", raw.ranks, 1, kMaxRanks);
  flags.network = open_network(raw.network);
  resolve_time_flags(flags.time,
                     says(arguments, {"--device-rate"}),
                     says(arguments, {"--network"}),
                     flags.network);
  if (!raw.hosts.empty()) take_hosts(raw.hosts, flags);
  if (flags.time.times && !flags.time.times->gpu && !says(arguments, {"--network"}) &&
      !flags.ranks.empty() && std::ranges::max(flags.ranks) > flags.network.ranks_per_host)
    throw ConfigError("--kernel-times of a processor on several hosts needs --network",
                      "without it ranks have shared memory between them, as those of one host");
  if (flags.ranks.empty())
    throw ConfigError("simulate needs --ranks or --hosts", "--ranks 8,64,1024, or --hosts 128x8");
  flags.rate = parse_device_rate(raw.rate);
  flags.traces_sums = !raw.no_sums;
  resolve_storm_flags(app, flags.ranks, flags.network.ranks_per_host, flags.storm);
  parse_train(flags, app.remaining());
  if (!flags.train.help.empty()) flags.help = flags.train.help;
  return flags;
}

}  // namespace lockstep
