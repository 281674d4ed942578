// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <fmt/format.h>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/host/cores.h"
#include "launcher/bench/bench.h"
#include "launcher/plan/plan_request.h"
#include "launcher/scale/scale_flags.h"
#include "launcher/settings/command_line.h"
#include "launcher/settings/flag_values.h"
#include "launcher/settings/flags.h"
#include "launcher/settings/open_data.h"
#include "lockstep/data/loader.h"
#include "lockstep/training_feed.h"
#include "parallel/batch/batch_plan.h"
#include "parallel/replica/replica_parts.h"
#include "parallel/session/rank_discovery.h"
#include "parallel/training/run_loaders.h"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

struct LoaderFlags {
  std::vector<int> workers;
  double seconds = 2;
  bool json = false;
  TrainFlags train;
};

std::vector<int> default_workers() {
  std::vector<int> workers{0, 1};
  for (int count = 2; count <= available_cores().count; count *= 2) workers.push_back(count);
  return workers;
}

bool parse(const std::vector<std::string>& arguments, LoaderFlags& flags) {
  CLI::App app(
      "Samples a second that a data source delivers, by the number of loading threads; no "
      "training runs concurrently.",
      "lockstep bench loader");
  std::string workers;
  app.add_option("--workers", workers, "loading threads; 0: the training thread itself")
      ->type_name("0,1,2")
      ->default_str("0, 1, 2, ... as many as cores");
  app.add_option("--seconds", flags.seconds, "for each number of them")
      ->type_name("S")
      ->capture_default_str()
      ->check(real_number("--seconds", 1e-3, 3600));
  app.add_flag("--json", flags.json, "one JSON object instead of text");
  app.allow_extras();
  app.footer(
      "All other flags are those of lockstep train (lockstep train --help): --data, --micro-batch, "
      "--image-size, --augment, ...");
  if (parse_bench(app, arguments)) return false;
  flags.workers = workers.empty()
                      ? default_workers()
                      : parse_counts("--workers", workers, 0, data::Loader::kMaxWorkers);
  std::vector<std::string> words = app.remaining();
  words.insert(words.end(), {"--steps", "1"});
  flags.train = parse_train_flags(words);
  return true;
}

/// Samples a second.
double loading_rate(const data::DataSplit& data,
                    const TrainOptions& options,
                    int workers,
                    double seconds) {
  const BatchPlan batch = plan_batch(options, 1);
  data::LoaderOptions loading = training_loader(options, batch);
  loading.workers = workers;
  loading.slots = std::max(loading.slots, workers + 2);
  const std::int64_t size = data.train->size();
  const std::int64_t whole = std::min(options.global_batch, size);
  const Schedule schedule = training_schedule(batch, whole, 0);
  TrainingRequests requests({std::max<std::int64_t>(1, size / whole) * whole,
                             whole,
                             std::numeric_limits<std::int64_t>::max(),
                             options.seed,
                             schedule,
                             schedule});
  data::Loader loader(
      data.train, loading, [&](data::LoadRequest& request) { return requests.next(request); });
  for (int i = 0; i <= loading.slots; ++i) loader.next();  // what was loaded ahead
  const auto begin = Clock::now();
  double spent = 0;
  std::int64_t samples = 0;
  while (spent < seconds) {
    samples += loader.next().samples;
    spent = std::chrono::duration<double>(Clock::now() - begin).count();
  }
  return double(samples) / spent;
}

}  // namespace

int bench_loader(const std::vector<std::string>& arguments) {
  LoaderFlags flags;
  if (!parse({arguments.begin() + 1, arguments.end()}, flags)) return 0;
  if (print_help(flags.train.help)) return 0;
  if (discover_rank(process_variables()).rank > 0) return 0;  // rank 0 loads
  TrainOptions options = training_options(flags.train);
  if (options.micro_batch == 0) options.micro_batch = default_micro_batch(options.global_batch);
  const data::DataSplit data = open_data(flags.train);
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  if (!flags.json)
    std::cout << fmt::format("data       {}\nbatch      micro-batches of {}\n\n  {:>7} {:>14}\n",
                             data.train->describe(),
                             options.micro_batch,
                             "workers",
                             "samples/s")
              << std::flush;
  for (const int workers : flags.workers) {
    const double samples = loading_rate(data, options, workers, flags.seconds);
    rows.push_back({{"workers", workers}, {"samples_per_s", samples}});
    if (!flags.json) std::cout << fmt::format("  {:>7} {:>14.1f}", workers, samples) << std::endl;
  }
  if (flags.json) {
    const nlohmann::ordered_json json{{"data", data.train->describe()},
                                      {"micro_batch", options.micro_batch},
                                      {"cores", available_cores().count},
                                      {"rates", std::move(rows)}};
    std::cout << json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << std::endl;
  }
  return 0;
}

}  // namespace lockstep
