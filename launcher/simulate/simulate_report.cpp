// SPDX-License-Identifier: Apache-2.0
#include "launcher/simulate/simulate_report.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/text/number_format.h"

namespace lockstep {
namespace {

using nlohmann::json;

std::string milliseconds(double seconds) { return fmt::format("{:.3f} ms", seconds * 1e3); }

json to_object(const RankTraffic& traffic) {
  return {{"collectives", traffic.calls},
          {"messages", traffic.messages},
          {"bytes", traffic.bytes},
          {"network_bytes", traffic.network_bytes},
          {"all_messages", traffic.all_messages},
          {"all_bytes", traffic.all_bytes}};
}

void add_table(std::string& text, std::span<const SimulatedRuns> runs) {
  text += fmt::format(
      "{:>7} {:>6} | {:>11} {:>10} {:>11} {:>11} | {:>11} {:>10} {:>11} {:>11} | {:>9} {:>11}\n",
      "ranks",
      "hosts",
      "collectives",
      "messages",
      "bytes",
      "start-up",
      "collectives",
      "messages",
      "bytes",
      "step",
      "here",
      "memory");
  for (const SimulatedRuns& run : runs)
    text += fmt::format(
        "{:>7} {:>6} | {:>11} {:>10} {:>11} {:>11} | {:>11} {:>10} {:>11} {:>11} | {:>7.1f} s "
        "{:>11}\n",
        format_count(run.ranks),
        format_count(run.hosts),
        format_count(double(run.startup.calls)),
        format_count(double(run.startup.messages)),
        format_bytes(double(run.startup.bytes)),
        milliseconds(run.startup_s),
        format_count(double(run.step.calls)),
        format_count(double(run.step.messages)),
        format_bytes(double(run.step.bytes)),
        milliseconds(run.step_s),
        run.wall_s,
        format_bytes(double(run.peak_bytes)));
}

std::string growth_line(std::span<const SimulatedRuns> runs) {
  if (runs.size() < 2) return {};
  return fmt::format(
      "growth:  bytes that a rank sends, between {} and {} ranks: N^{:.2f} at the start, N^{:.2f} "
      "in a step; at 1 all ranks together send N^2\n",
      format_count(runs[runs.size() - 2].ranks),
      format_count(runs.back().ranks),
      growth_of_rank(runs, &RankTraffic::bytes, &SimulatedRuns::startup),
      growth_of_rank(runs, &RankTraffic::bytes, &SimulatedRuns::step));
}

}  // namespace

double growth_of_rank(std::span<const SimulatedRuns> runs,
                      std::uint64_t RankTraffic::*what,
                      RankTraffic SimulatedRuns::*when) {
  if (runs.size() < 2) return 0;
  const SimulatedRuns &a = runs[runs.size() - 2], &b = runs.back();
  const auto before = double((a.*when).*what), after = double((b.*when).*what);
  if (before <= 0 || after <= 0) return 0;
  return std::log(after / before) / std::log(double(b.ranks) / double(a.ranks));
}

std::string to_text(const SimulateFlags& flags, std::span<const SimulatedRuns> runs) {
  const TrainOptions& options = flags.train.options;
  std::string text = fmt::format(
      "training: {}, global batch {}, micro-batch {}, {} steps\n"
      "ranks:    {} with {}; {}\n\n"
      "simulated; of one rank the most, at the start and in a step. Times of start-up and step are "
      "predicted.\n",
      flags.train.model.name,
      options.global_batch,
      options.micro_batch,
      runs.empty() ? 0 : runs.front().steps,
      flags.network.name,
      flags.network.words,
      flags.time.times ? "kernels as measured: " + flags.time.file
                       : format_rate(flags.rate, options.precision));
  add_table(text, runs);
  text += "\n" + growth_line(runs);
  for (const SimulatedRuns& run : runs) {
    text += fmt::format("{} ranks: ", format_count(run.ranks));
    if (run.failures.empty())
      text += fmt::format(
          "{} orders of arrival, every sample once, {}; {} to {} micro-batches a rank; "
          "{:.0f} samples/s\n",
          run.orders,
          run.sums_checked ? fmt::format("{} elements updated from the same tree of sums ({:016x})",
                                         format_count(double(run.summed_elems)),
                                         run.tree)
                           : std::string("sums not followed"),
          run.min_micro_batches,
          run.max_micro_batches,
          run.samples_per_s);
    else
      text += "checks failed\n";
    if (run.failures.empty()) text += "  predicted: " + to_text(run.prediction) + "\n";
    for (const std::string& failure : run.failures) text += "  FAILED: " + failure + "\n";
  }
  return text;
}

std::string to_json(const SimulateFlags& flags,
                    std::span<const SimulatedRuns> runs,
                    std::span<const SimulatedStorm> storms) {
  json rows = json::array();
  for (const SimulatedRuns& run : runs)
    rows.push_back({{"ranks", run.ranks},
                    {"hosts", run.hosts},
                    {"failures", run.failures},
                    {"startup", to_object(run.startup)},
                    {"step", to_object(run.step)},
                    {"predicted_startup_s", run.startup_s},
                    {"predicted_step_s", run.step_s},
                    {"prediction", to_object(run.prediction)},
                    {"predicted_samples_per_s", run.samples_per_s},
                    {"min_micro_batches", run.min_micro_batches},
                    {"max_micro_batches", run.max_micro_batches},
                    {"sums_checked", run.sums_checked},
                    {"summed_elems", run.summed_elems},
                    {"tree", fmt::format("{:016x}", run.tree)},
                    {"arrival_orders", run.orders},
                    {"wall_s", run.wall_s},
                    {"peak_bytes", run.peak_bytes}});
  return json{{"model", flags.train.model.name},
              {"global_batch", flags.train.options.global_batch},
              {"micro_batch", flags.train.options.micro_batch},
              {"network", flags.network.name},
              {"runs", std::move(rows)},
              {"storms", to_object(storms)}}
             .dump(2) +
         "\n";
}

}  // namespace lockstep
