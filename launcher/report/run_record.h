// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/report/metrics_reader.h"
#include "launcher/report/series.h"

namespace lockstep::report {

/// A name and its value as text.
struct Setting {
  std::string name;
  std::string value;
};

/// What a step's time is made of, in the order in which a report shows them. All of them together
/// are the whole step.
enum class Part : std::uint8_t {
  forward,
  backward,
  optimizer,
  data,
  copy,
  comm_exposed,
  device_wait,
  logging,
  checkpoint,
  other,
};
inline constexpr std::size_t kParts = std::size_t(Part::other) + 1;

/// "comm_exposed", as summary.json has it; "exposed communication", for people.
std::string_view name_of(Part part);
std::string_view words_of(Part part);
/// comm_exposed_ms
Quantity quantity_of(Part part);

/// Where a rank's time went, in seconds; an absent part is 0.
struct RankTimeBreakdown {
  int rank = 0;
  std::string host;
  double seconds = 0;
  std::array<double, kParts> parts{};
};

struct Advice {
  std::string cause, text, evidence, remedy;
  std::optional<double> gain;  ///< share of the time that would be saved
};

/// A class or label of the validation part; shares of nothing are NaN.
struct ClassResult {
  std::string name;
  std::int64_t samples = 0;
  double recall = 0, precision = 0, f1 = 0;
};

/// summary.json, as far as this version knows its members. All of them may be missing.
struct Summary {
  std::vector<Setting> values;  ///< every member that is a number, a text or a truth value
  std::vector<RankTimeBreakdown> breakdown;
  std::optional<std::vector<Advice>> advice;           ///< nothing: the run did not look for any
  std::vector<std::pair<std::string, double>> memory;  ///< bytes by category
  std::vector<std::vector<Setting>> gpus;              ///< a list a rank
  std::vector<ClassResult> classes;                    ///< with train --per-class
  /// [class][predicted class], samples; empty, or as many rows and columns as `classes`.
  std::vector<std::vector<std::int64_t>> confusion_matrix;

  /// Nothing where it is missing or no number.
  std::optional<double> number(std::string_view name) const;
  /// Empty where it is missing.
  std::string text(std::string_view name) const;
};

/// One line of history.jsonl: a process of the run.
struct Start {
  std::int64_t time = 0;  ///< seconds since 1970
  std::int64_t step = 0;  ///< that it resumed from
  std::int64_t ranks = 0;
  std::string checkpoint, skipped_checkpoints, overridden, host, lockstep, command;
};

/// Something that happened at a step.
struct Event {
  std::int64_t step = 0;
  std::string what;
};
/// The first kMax - 1 events of a kind, and the last.
struct EventList {
  static constexpr std::size_t kMax = 40;
  std::vector<Event> kept;
  std::int64_t count = 0;
  void add(Event event);
};

/// Device memory over the nodes of one step's program: memory.json.
struct ArenaCurve {
  std::vector<double> live_bytes;   ///< by node, in the order in which they run
  std::vector<std::string> nodes;   ///< their names; as many, or none
  std::int64_t joined = 1;          ///< nodes of the program that one entry stands for
  std::int64_t micro_batch = 0;     ///< samples; 0: unknown
  std::int64_t first_backward = 0;  ///< number of the first node of the backward pass; 0: unknown
};

/// A run's folder. Texts are as the files have them: nothing is escaped.
struct RunRecord {
  std::string folder;
  std::string name;  ///< the folder's own name
  std::vector<Setting> config;
  std::vector<Setting> environment;
  std::vector<Start> starts;
  /// Nothing: the run is still running, or was cut off.
  std::optional<Summary> summary;
  std::optional<ArenaCurve> step_memory;
  std::array<Series, kQuantities> series;  ///< of evaluations: val_loss and val_accuracy
  EventList checkpoints, skips, rollbacks, faults;
  std::int64_t steps = 0;         ///< the last that metrics.jsonl speaks of
  std::int64_t logged_steps = 0;  ///< lines of steps
  std::string last_change;  ///< of metrics.jsonl: "2026-01-31 12:00 UTC"; empty: there is none
  std::vector<std::string> notes;  ///< what is damaged, missing or skipped

  const Series& operator[](Quantity quantity) const { return series[std::size_t(quantity)]; }
  Series& operator[](Quantity quantity) { return series[std::size_t(quantity)]; }
  /// Empty where it is missing.
  std::string config_value(std::string_view key) const;
  std::string environment_value(std::string_view key) const;
};

/// Reads what `folder` holds of config.toml, environment.json, history.jsonl, metrics.jsonl,
/// summary.json and memory.json. Files that are missing or damaged become notes, as does a last
/// line that is cut off. Throws DataError, naming file and line: the folder holds no run, its
/// metrics are not those of one run (see read_metrics(); steps or evaluations that go back without
/// a rollback), files of a newer format.
RunRecord read_run(const std::string& folder);

/// Whether `folder` has one of the files that every run writes.
bool holds_run(const std::string& folder);

/// Fills `run` from the run's text files but metrics.jsonl: read_run()'s first half.
void read_run_files(RunRecord& run);

}  // namespace lockstep::report
