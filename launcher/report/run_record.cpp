// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/run_record.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fmt/format.h>
#include <sys/stat.h>

#include "core/base/file_kind.h"
#include "lockstep/error.h"

namespace lockstep::report {
namespace {

namespace fs = std::filesystem;
using Q = Quantity;

struct PartNames {
  std::string_view name, words;
  Quantity quantity;
};
constexpr PartNames kPartNames[kParts] = {
    {"forward", "forward", Q::forward_ms},
    {"backward", "backward", Q::backward_ms},
    {"optimizer", "optimizer", Q::optimizer_ms},
    {"data", "waiting for data", Q::data_ms},
    {"copy", "copies to the device", Q::copy_ms},
    {"comm_exposed", "exposed communication", Q::comm_exposed_ms},
    {"device_wait", "waiting for the device", Q::device_wait_ms},
    {"logging", "logging", Q::logging_ms},
    {"checkpoint", "checkpoints", Q::checkpoint_ms},
    {"other", "other", Q::other_ms},
};

std::string value_in(const std::vector<Setting>& settings, std::string_view name) {
  for (const Setting& setting : settings)
    if (setting.name == name) return setting.value;
  return {};
}

/// Puts the lines of metrics.jsonl together.
class MetricsBuilder {
 public:
  MetricsBuilder(RunRecord& run, std::string file) : run_(run), file_(std::move(file)) {}

  void take(const MetricsLine& line) {
    switch (line.kind) {
      case LineKind::step:
        return take_step(line);
      case LineKind::evaluation:
        return take_evaluation(line);
      case LineKind::checkpoint:
        take_checkpoint(line);
        break;
      case LineKind::skip:
        run_.skips.add({line.step, line.cause});
        break;
      case LineKind::rollback:
        take_rollback(line);
        break;
      case LineKind::fault:
        take_fault(line);
        break;
      case LineKind::other:
        break;
    }
  }

 private:
  void take_step(const MetricsLine& line) {
    if (run_.logged_steps == 0 && !run_.starts.empty())  // a run that branched off another
      last_ = std::min(std::max<std::int64_t>(0, run_.starts[0].step), line.step - 1);
    if (line.step <= last_) refuse(line, "step", last_);
    const auto weight = double(line.step - last_);
    last_ = line.step;
    ++run_.logged_steps;
    for (std::size_t i = 0; i < kQuantities; ++i) {
      // A loss that is not a number leaves a gap; others are absent.
      const bool given = !std::isnan(line.values[i]) || i == std::size_t(Q::loss);
      if (given) run_.series[i].add(double(line.step), line.values[i], weight);
    }
  }

  /// The end of a run may come right after another evaluation of the same step.
  void take_evaluation(const MetricsLine& line) {
    if (line.step < last_evaluation_) refuse(line, "the evaluation of step", last_evaluation_);
    last_evaluation_ = line.step;
    run_[Q::val_loss].add(double(line.step), line[Q::val_loss]);
    for (const Q known : {Q::val_accuracy, Q::ema_val_loss, Q::ema_val_accuracy})
      if (!std::isnan(line[known])) run_[known].add(double(line.step), line[known]);
  }

  /// A start from a checkpoint takes the lines after it out of the file first.
  [[noreturn]] void refuse(const MetricsLine& line, const char* what, std::int64_t before) const {
    throw DataError(
        fmt::format("{} line {}: {} {} comes after step {}, and no rollback says why",
                    file_,
                    line.number,
                    what,
                    line.step,
                    before),
        "are lines of another run or rank mixed in? a report needs metrics.jsonl as one run wrote "
        "it");
  }

  void drop_after(std::int64_t step) {
    for (Series& series : run_.series) series.drop_after(double(step));
    last_ = std::min(last_, step);
    last_evaluation_ = std::min(last_evaluation_, step);
  }

  void take_checkpoint(const MetricsLine& line) {
    std::string what = line.error.empty() ? fmt::format("checkpoint {}", line.path)
                                          : fmt::format("no checkpoint: {}", line.error);
    if (!std::isnan(line[Q::stall_ms])) what += fmt::format(", {:.1f} ms stall", line[Q::stall_ms]);
    run_.checkpoints.add({line.step, std::move(what)});
  }

  void take_fault(const MetricsLine& line) {
    std::string what = line.cause;
    if (!std::isnan(line[Q::seconds]))
      what += fmt::format(": {:.1f} s to the next step", line[Q::seconds]);
    if (line[Q::lost_steps] >= 0)
      what += fmt::format(", at least {:.0f} steps again", line[Q::lost_steps]);
    run_.faults.add({line.step, std::move(what)});
  }

  void take_rollback(const MetricsLine& line) {
    run_.rollbacks.add(
        {line.step,
         fmt::format("back to {} after a loss of {:.4g} in step {:.0f} (mean before: {:.4g})",
                     line.path,
                     line[Q::loss],
                     line[Q::spike_step],
                     line[Q::mean])});
    if (line.step < std::max(last_, last_evaluation_)) drop_after(line.step);
  }

  RunRecord& run_;
  std::string file_;
  std::int64_t last_ = 0, last_evaluation_ = 0;
};

std::string utc_of_last_change(const std::string& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) {
    const int code = errno;
    throw DataError(fmt::format("{}: cannot look it up: {}", file, std::strerror(code)),
                    read_hint(code));
  }
  std::tm utc{};
  gmtime_r(&status.st_mtime, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &utc);
  return text;
}

void check_holds_run(const std::string& folder) {
  const fs::file_type kind = file_kind(folder);
  if (kind == fs::file_type::not_found)
    throw DataError(fmt::format("{}: there is no such folder", folder),
                    "name the folder of a run, as train's --out did");
  if (kind != fs::file_type::directory)
    throw DataError(fmt::format("{} is not a folder", folder),
                    "name the folder of a run, not a file in it");
  if (holds_run(folder)) return;
  throw DataError(
      fmt::format("{} holds no run: neither metrics.jsonl nor config.toml nor history.jsonl",
                  folder),
      "name the folder of a run, as train's --out did");
}

/// "runs/a/" and "." have names too.
std::string own_name(const std::string& folder) {
  std::error_code ignored;
  fs::path path = fs::absolute(folder, ignored).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  return path.filename().empty() ? folder : path.filename().string();
}

}  // namespace

std::string_view name_of(Part part) { return kPartNames[std::size_t(part)].name; }
std::string_view words_of(Part part) { return kPartNames[std::size_t(part)].words; }
Quantity quantity_of(Part part) { return kPartNames[std::size_t(part)].quantity; }

void EventList::add(Event event) {
  ++count;
  if (kept.size() == kMax) kept.pop_back();
  kept.push_back(std::move(event));
}

std::optional<double> Summary::number(std::string_view name) const {
  const std::string value = value_in(values, name);
  if (value.empty()) return std::nullopt;
  char* end = nullptr;
  const double number = std::strtod(value.c_str(), &end);
  return *end == '\0' && std::abs(number) <= Series::kLargest ? std::optional(number)
                                                              : std::nullopt;
}

std::string Summary::text(std::string_view name) const { return value_in(values, name); }

std::string RunRecord::config_value(std::string_view key) const { return value_in(config, key); }
std::string RunRecord::environment_value(std::string_view key) const {
  return value_in(environment, key);
}

bool holds_run(const std::string& folder) {
  for (const char* name : {"metrics.jsonl", "config.toml", "history.jsonl"})
    if (is_there(fs::path(folder) / name)) return true;
  return false;
}

RunRecord read_run(const std::string& folder) {
  check_holds_run(folder);
  RunRecord run;
  run[Q::samples_per_s] = Series(Series::Values::rates);
  run.folder = folder;
  run.name = own_name(folder);
  read_run_files(run);
  const std::string file = (fs::path(folder) / "metrics.jsonl").string();
  if (!is_there(file)) {
    run.notes.emplace_back("there is no metrics.jsonl: the run ended before its first step");
    return run;
  }
  MetricsBuilder builder(run, file);
  const MetricsEnd end = read_metrics(file, [&](const MetricsLine& line) {
    run.steps = std::max(run.steps, line.step);
    builder.take(line);
  });
  run.last_change = utc_of_last_change(file);
  if (end.cut_off) run.notes.emplace_back("the last line of metrics.jsonl is cut off");
  if (end.unknown_lines > 0)
    run.notes.push_back(
        fmt::format("{} lines of metrics.jsonl are of a kind that this version does not know",
                    end.unknown_lines));
  if (const std::int64_t gaps = run[Q::loss].not_finite(); gaps > 0)
    run.notes.push_back(fmt::format("in {} logged steps the loss was not a finite number", gaps));
  return run;
}

}  // namespace lockstep::report
