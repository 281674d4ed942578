// SPDX-License-Identifier: Apache-2.0
#include "launcher/status/run_status.h"

#include <charconv>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <fmt/format.h>
#include <sys/stat.h>
#include <vector>

#include "core/base/parameter_names.h"
#include "core/base/text/number_format.h"
#include "core/io/checkpoint/checkpoint_names.h"
#include "core/io/run_log.h"
#include "launcher/output/run_folder_files.h"
#include "launcher/output/run_lock.h"
#include "launcher/output/snapshot_folder.h"
#include "launcher/report/run_record.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using report::Quantity;
using State = RunStatus::State;

std::int64_t newest_step_in(const fs::path& folder) {
  try {
    const std::vector<std::int64_t> steps = io::steps_in(folder);
    return steps.empty() ? -1 : steps.back();
  } catch (const std::exception&) {
    return -1;
  }
}

double newest_of(const report::RunRecord& run, Quantity quantity) {
  const report::Series& series = run[quantity];
  return series.empty() ? std::nan("") : series.joined(report::Series::kMaxBuckets).back().mean();
}

std::optional<double> seconds_since_change(const fs::path& file) {
  struct stat status {};
  if (stat(file.c_str(), &status) != 0) return std::nullopt;
  return std::max(0.0, double(std::time(nullptr) - status.st_mtime));
}

const char* words_of(State state) {
  switch (state) {
    case State::running:
      return "running";
    case State::restarting:
      return "starting, or between two starts";
    case State::complete:
      return "complete";
    case State::incomplete:
      return "incomplete: stopped or cut off, and can be resumed";
  }
  return "";
}

std::string step_text(const RunStatus& status) {
  std::string text = format_count(double(status.step));
  if (status.steps > 0)
    text += fmt::format(" of {}, {:.1f}%",
                        format_count(double(status.steps)),
                        100.0 * double(status.step) / double(status.steps));
  if (status.quiet_s && status.state == State::running)
    text += fmt::format("; last logged {} ago", format_duration(*status.quiet_s));
  return text;
}

}  // namespace

RunStatus read_status(const std::string& folder) {
  const fs::path path(folder);
  const report::RunRecord run = report::read_run(folder);
  RunStatus status;
  const auto rank_0 = RunLock::holder(folder, RunLock::kRun);
  const auto supervisor = RunLock::holder(folder, RunLock::kSupervisor);
  status.state = rank_0        ? State::running
                 : supervisor  ? State::restarting
                 : run.summary ? State::complete
                               : State::incomplete;
  status.holder = rank_0 ? *rank_0 : supervisor.value_or("");
  status.starts = std::ssize(run.starts);
  if (!run.starts.empty()) status.ranks = run.starts.back().ranks;
  status.step = run.steps;
  const std::string steps = run.config_value("steps");
  std::from_chars(steps.data(), steps.data() + steps.size(), status.steps);
  status.quiet_s = seconds_since_change(path / "metrics.jsonl");
  status.samples_per_s = newest_of(run, Quantity::samples_per_s);
  status.step_ms = newest_of(run, Quantity::step_ms);
  status.loss = newest_of(run, Quantity::loss);
  status.val_loss = newest_of(run, Quantity::val_loss);
  status.val_accuracy = newest_of(run, Quantity::val_accuracy);
  status.checkpoint = newest_step_in(path / kCheckpointsFolder);
  status.snapshot = SnapshotFolder::newest_step_of(path);
  status.faults = run.faults.count;
  if (!run.faults.kept.empty()) status.last_fault = run.faults.kept.back().what;
  return status;
}

std::string to_text(const RunStatus& status, const std::string& folder) {
  std::string text = fmt::format("run        {}\nstate      {}{}\n",
                                 as_written(folder),
                                 words_of(status.state),
                                 status.holder.empty() ? "" : ": " + status.holder);
  if (status.ranks > 0)
    text += fmt::format("ranks      {}{}\n",
                        status.ranks,
                        status.starts > 1 ? fmt::format(", {} starts", status.starts) : "");
  text += fmt::format("step       {}\n", step_text(status));
  if (!std::isnan(status.samples_per_s))
    text += fmt::format("rate       {} samples/s, {:.3g} ms a step\n",
                        format_count(status.samples_per_s),
                        status.step_ms);
  if (!std::isnan(status.loss)) text += fmt::format("loss       {:.4f}\n", status.loss);
  if (!std::isnan(status.val_loss))
    text += fmt::format("validation loss {:.4f}{}\n",
                        status.val_loss,
                        std::isnan(status.val_accuracy)
                            ? ""
                            : fmt::format(", accuracy {:.2f}%", 100 * status.val_accuracy));
  text += status.checkpoint < 0 ? "checkpoint none\n"
                                : fmt::format("checkpoint step {}\n", status.checkpoint);
  if (status.snapshot >= 0) text += fmt::format("snapshot   step {}, in memory\n", status.snapshot);
  if (status.faults > 0)
    text += fmt::format("faults     {}; the last: {}\n", status.faults, status.last_fault);
  return text;
}

std::string to_json(const RunStatus& status) {
  constexpr const char* kNames[] = {"running", "restarting", "complete", "incomplete"};
  std::vector<JsonField> fields{{"state", std::string(kNames[std::size_t(status.state)])},
                                {"holder", status.holder},
                                {"ranks", status.ranks},
                                {"starts", status.starts},
                                {"step", status.step},
                                {"steps", status.steps},
                                {"quiet_s", status.quiet_s.value_or(std::nan(""))},
                                {"samples_per_s", status.samples_per_s},
                                {"step_ms", status.step_ms},
                                {"loss", status.loss},
                                {"val_loss", status.val_loss},
                                {"val_accuracy", status.val_accuracy},
                                {"checkpoint", status.checkpoint},
                                {"snapshot", status.snapshot},
                                {"faults", status.faults},
                                {"last_fault", status.last_fault}};
  return json_object(fields) + "\n";
}

}  // namespace lockstep
