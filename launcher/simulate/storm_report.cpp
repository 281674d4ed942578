// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/text/number_format.h"
#include "launcher/simulate/simulated_storms.h"

namespace lockstep {
namespace {

using nlohmann::json;

/// Blank where there is none.
std::string seconds_or_blank(const std::optional<double>& seconds) {
  return seconds ? fmt::format("{:.1f} s", *seconds) : std::string();
}

std::string time_of_day(double seconds) {
  const auto whole = std::int64_t(seconds);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string name_words(const FaultOutcome& outcome) {
  if (outcome.named < 0) return "-";
  std::string words = fmt::format("rank {} {}", outcome.named, outcome.verdict);
  if (!outcome.is_right) words += ", WRONG";
  return words;
}

std::string length_words(double seconds) {
  return seconds == simulation::PlantedFault::kForEver ? std::string()
                                                       : fmt::format(" for {:.0f} s", seconds);
}

const std::vector<std::string> kFaultHeader{
    "time", "fault", "in", "named", "detected", "restart", "steps lost", "next step", "note"};

std::vector<std::string> row_of(const FaultOutcome& outcome) {
  return {time_of_day(outcome.fault.at),
          to_string(outcome.fault) + length_words(outcome.fault.seconds),
          outcome.met_in,
          name_words(outcome),
          seconds_or_blank(outcome.detected_s),
          seconds_or_blank(outcome.restart_s),
          outcome.lost_steps > 0 ? format_count(double(outcome.lost_steps)) : "",
          seconds_or_blank(outcome.next_step_s),
          outcome.note};
}

/// Without the last, which is of any length.
std::string fault_line(const std::vector<std::string>& cells) {
  return fmt::format("{:>9}  {:<26} {:<9} {:<20} {:>9} {:>9} {:>11} {:>10}",
                     cells[0],
                     cells[1],
                     cells[2],
                     cells[3],
                     cells[4],
                     cells[5],
                     cells[6],
                     cells[7]);
}

void add_faults(std::string& text, const StormResult& result) {
  text += fault_line(kFaultHeader) + "\n";
  for (const FaultOutcome& outcome : result.faults)
    text += fmt::format(
        "{}{}{}\n", fault_line(row_of(outcome)), outcome.note.empty() ? "" : "  ", outcome.note);
}

json or_null(const std::optional<double>& value) { return value ? json(*value) : json(); }

json to_object(const FaultOutcome& outcome) {
  const simulation::PlantedFault& fault = outcome.fault;
  const bool lasts = fault.seconds == simulation::PlantedFault::kForEver;
  return {
      {"at_s", fault.at},
      {"kind", name_of(fault.kind)},
      {"who", scope_of(fault.kind) == simulation::FaultScope::storage ? json() : json(fault.who)},
      {"seconds", lasts ? json() : json(fault.seconds)},
      {"factor", fault.factor},
      {"met_in", outcome.met_in},
      {"named", outcome.named < 0 ? json() : json(outcome.named)},
      {"verdict", outcome.verdict},
      {"right", outcome.is_right},
      {"ranks_that_name_another", outcome.others_wrong},
      {"detected_s", or_null(outcome.detected_s)},
      {"restart_s", or_null(outcome.restart_s)},
      {"lost_steps", outcome.lost_steps},
      {"next_step_s", or_null(outcome.next_step_s)},
      {"note", outcome.note}};
}

}  // namespace

std::string storm_subject(const SimulateFlags& flags, const SimulatedStorm& storm) {
  const StormRequest& request = storm.request;
  return fmt::format(
      "storm, seed {}: {:g} h of {} ranks with faults {}; all times and steps are predicted: "
      "a step {:.1f} ms, start-up {:.1f} s and launch {:g} s, a checkpoint of {} {:.1f} s",
      request.seed,
      request.seconds / 3600,
      format_count(request.ranks),
      flags.storm.faults,
      request.step_s * 1e3,
      request.startup_s,
      request.launch_s,
      format_bytes(request.checkpoint_bytes),
      request.checkpoint_bytes / request.storage_bytes_per_s);
}

report::Table fault_table(const SimulatedStorm& storm, std::size_t max_rows) {
  const std::vector<FaultOutcome>& faults = storm.result.faults;
  report::Table table{fmt::format("Faults of the storm with seed {}", storm.request.seed),
                      kFaultHeader,
                      {},
                      report::Table::Cells::words};
  for (const FaultOutcome& outcome : std::span(faults).first(std::min(max_rows, faults.size())))
    table.rows.push_back(row_of(outcome));
  if (faults.size() > max_rows)
    table.caption += fmt::format(": the first {} of {}",
                                 format_count(double(max_rows)),
                                 format_count(double(faults.size())));
  return table;
}

std::vector<std::string> storm_summary(const SimulatedStorm& storm) {
  const StormResult& result = storm.result;
  return {
      fmt::format("goodput {:.2f}%: {} steps in the final run, {} lost; {} restarts{}{}",
                  result.goodput * 100,
                  format_count(double(result.kept_steps)),
                  format_count(double(result.lost_steps)),
                  result.restarts,
                  result.refused.empty() ? "" : "; ",
                  result.refused),
      fmt::format("checkpoints: {} whole, {} failed, {} cut off; snapshots in memory: {}",
                  format_count(double(result.saves)),
                  result.failed_saves,
                  result.lost_saves,
                  format_count(double(result.snapshots))),
      fmt::format("detection of {} faults: median {:.1f} s, longest {:.1f} s; wrongly named: {}",
                  result.detected,
                  result.median_detection_s,
                  result.longest_detection_s,
                  result.wrongly_named),
      fmt::format("{:.1f} s here, {}", storm.wall_s, format_bytes(double(storm.peak_bytes)))};
}

std::string goodput_of_all(std::span<const SimulatedStorm> storms) {
  double least = 1, most = 0, sum = 0;
  for (const SimulatedStorm& storm : storms) {
    least = std::min(least, storm.result.goodput);
    most = std::max(most, storm.result.goodput);
    sum += storm.result.goodput;
  }
  return fmt::format("{} storms: goodput {:.2f}% to {:.2f}%, mean {:.2f}%",
                     storms.size(),
                     least * 100,
                     most * 100,
                     sum / double(storms.size()) * 100);
}

std::string to_text(const SimulateFlags& flags, std::span<const SimulatedStorm> storms) {
  std::string text;
  for (const SimulatedStorm& storm : storms) {
    text += "\n" + storm_subject(flags, storm) + "\n";
    add_faults(text, storm.result);
    for (const std::string& line : storm_summary(storm)) text += line + "\n";
  }
  if (storms.size() > 1) text += "\n" + goodput_of_all(storms) + "\n";
  return text;
}

json to_object(std::span<const SimulatedStorm> storms) {
  json rows = json::array();
  for (const SimulatedStorm& storm : storms) {
    const StormResult& result = storm.result;
    json faults = json::array();
    for (const FaultOutcome& outcome : result.faults) faults.push_back(to_object(outcome));
    rows.push_back({{"ranks", storm.request.ranks},
                    {"seed", storm.request.seed},
                    {"seconds", result.seconds},
                    {"predicted_goodput", result.goodput},
                    {"predicted_step_s", storm.request.step_s},
                    {"predicted_startup_s", storm.request.startup_s},
                    {"checkpoint_bytes", storm.request.checkpoint_bytes},
                    {"kept_steps", result.kept_steps},
                    {"lost_steps", result.lost_steps},
                    {"restarts", result.restarts},
                    {"refused", result.refused},
                    {"checkpoints", result.saves},
                    {"failed_checkpoints", result.failed_saves},
                    {"cut_off_checkpoints", result.lost_saves},
                    {"snapshots", result.snapshots},
                    {"wrongly_named", result.wrongly_named},
                    {"detected", result.detected},
                    {"median_detection_s", result.median_detection_s},
                    {"longest_detection_s", result.longest_detection_s},
                    {"wall_s", storm.wall_s},
                    {"peak_bytes", storm.peak_bytes},
                    {"faults", std::move(faults)}});
  }
  return rows;
}

}  // namespace lockstep
