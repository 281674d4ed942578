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

constexpr const char* kTableWords =
    "simulated; of one rank the most, at the start and in a step. Times of start-up and step are "
    "predicted.";

std::string milliseconds(double seconds) { return fmt::format("{:.3f} ms", seconds * 1e3); }

json to_object(const RankTraffic& traffic) {
  return {{"collectives", traffic.calls},
          {"messages", traffic.messages},
          {"bytes", traffic.bytes},
          {"network_bytes", traffic.network_bytes},
          {"all_messages", traffic.all_messages},
          {"all_bytes", traffic.all_bytes}};
}

struct Column {
  const char* name;
  const char* page_name;  ///< without the columns next to it to explain it
  int width;
  bool begins_group = false;
};
constexpr Column kColumns[] = {{"ranks", "ranks", 7},
                               {"hosts", "hosts", 6},
                               {"collectives", "start-up: collectives", 11, true},
                               {"messages", "start-up: messages", 10},
                               {"bytes", "start-up: bytes", 11},
                               {"start-up", "start-up, predicted", 11},
                               {"collectives", "step: collectives", 11, true},
                               {"messages", "step: messages", 10},
                               {"bytes", "step: bytes", 11},
                               {"step", "step, predicted", 11},
                               {"here", "time here", 9, true},
                               {"memory", "memory here", 11}};

std::vector<std::string> row_of(const SimulatedRuns& run) {
  return {format_count(run.ranks),
          format_count(run.hosts),
          format_count(double(run.startup.calls)),
          format_count(double(run.startup.messages)),
          format_bytes(double(run.startup.bytes)),
          milliseconds(run.startup_s),
          format_count(double(run.step.calls)),
          format_count(double(run.step.messages)),
          format_bytes(double(run.step.bytes)),
          milliseconds(run.step_s),
          fmt::format("{:.1f} s", run.wall_s),
          format_bytes(double(run.peak_bytes))};
}

std::string line_of(const std::vector<std::string>& cells) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i)
    line += fmt::format("{}{:>{}}",
                        kColumns[i].begins_group ? " | " : (i == 0 ? "" : " "),
                        cells[i],
                        kColumns[i].width);
  return line + "\n";
}

void add_table(std::string& text, std::span<const SimulatedRuns> runs) {
  std::vector<std::string> names;
  for (const Column& column : kColumns) names.emplace_back(column.name);
  text += line_of(names);
  for (const SimulatedRuns& run : runs) text += line_of(row_of(run));
}

std::string growth_of(std::span<const SimulatedRuns> runs) {
  return fmt::format(
      "growth:  bytes that a rank sends, between {} and {} ranks: N^{:.2f} at the start, N^{:.2f} "
      "in a step; at 1 all ranks together send N^2",
      format_count(runs[runs.size() - 2].ranks),
      format_count(runs.back().ranks),
      growth_of_rank(runs, &RankTraffic::bytes, &SimulatedRuns::startup),
      growth_of_rank(runs, &RankTraffic::bytes, &SimulatedRuns::step));
}

void add_checks(std::vector<std::string>& lines, const SimulatedRuns& run) {
  std::string checks = "checks failed";
  if (run.failures.empty())
    checks = fmt::format(
        "{} orders of arrival, every sample once, {}; {} to {} micro-batches a rank; "
        "{:.0f} samples/s",
        run.orders,
        run.sums_checked ? fmt::format("{} elements updated from the same tree of sums ({:016x})",
                                       format_count(double(run.summed_elems)),
                                       run.tree)
                         : std::string("sums not followed"),
        run.min_micro_batches,
        run.max_micro_batches,
        run.samples_per_s);
  lines.push_back(fmt::format("{} ranks: {}", format_count(run.ranks), checks));
  if (run.failures.empty()) lines.push_back("  predicted: " + to_text(run.prediction));
  for (const std::string& failure : run.failures) lines.push_back("  FAILED: " + failure);
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

std::vector<std::string> simulated_subject(const SimulateFlags& flags,
                                           std::span<const SimulatedRuns> runs) {
  const TrainOptions& options = flags.train.options;
  return {fmt::format("training: {}, global batch {}, micro-batch {}, {} steps",
                      flags.train.model.name,
                      options.global_batch,
                      options.micro_batch,
                      runs.empty() ? 0 : runs.front().steps),
          fmt::format("ranks:    {} with {}; {}",
                      flags.network.name,
                      flags.network.words,
                      flags.time.times ? "kernels as measured: " + flags.time.file
                                       : format_rate(flags.rate, options.precision))};
}

report::Table simulated_table(std::span<const SimulatedRuns> runs) {
  report::Table table{kTableWords, {}, {}};
  for (const Column& column : kColumns) table.header.emplace_back(column.page_name);
  for (const SimulatedRuns& run : runs) table.rows.push_back(row_of(run));
  return table;
}

std::vector<std::string> simulated_notes(std::span<const SimulatedRuns> runs) {
  std::vector<std::string> notes;
  if (runs.size() > 1) notes.push_back(growth_of(runs));
  for (const SimulatedRuns& run : runs) add_checks(notes, run);
  return notes;
}

std::string to_text(const SimulateFlags& flags, std::span<const SimulatedRuns> runs) {
  std::string text;
  for (const std::string& line : simulated_subject(flags, runs)) text += line + "\n";
  text += fmt::format("\n{}\n", kTableWords);
  add_table(text, runs);
  text += "\n";
  for (const std::string& line : simulated_notes(runs)) text += line + "\n";
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
