// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/run_folder.h"

#include <exception>
#include <filesystem>
#include <fmt/format.h>
#include <sys/stat.h>

#include "core/base/env.h"
#include "core/io/checkpoint/checkpoint_names.h"
#include "core/io/folder.h"
#include "launcher/output/metrics_file.h"
#include "launcher/output/restart_record.h"
#include "launcher/output/run_folder_files.h"
#include "launcher/output/run_json.h"
#include "launcher/output/snapshot_folder.h"
#include "launcher/output/tensorboard_file.h"
#include "lockstep/error.h"
#include "parallel/session/error_report.h"

namespace lockstep {
namespace fs = std::filesystem;
namespace {

/// What save, removal and resuming of checkpoints call their folders.
bool is_of_checkpoints(const std::string& name) {
  return io::step_of(name.substr(0, name.find(".damaged"))) || name.starts_with(".step_");
}

}  // namespace

std::string RunFolder::create_fresh() {
  std::vector<fs::path> created;
  return create_fresh_output_folder(created);
}

RunFolder::RunFolder(const std::string& out, Existing existing) : path_(out) {
  check(path_, existing);
  try {
    if (path_.empty()) {
      path_ = create_fresh_output_folder(created_);
    } else {
      create_output_folder(fs::path(path_).lexically_normal(), created_);
    }
    lock_ = std::make_unique<RunLock>(path_);
    check(path_, existing);  // another run may have come in between
  } catch (...) {
    remove_created();
    throw;
  }
}

RunFolder::~RunFolder() {
  if (!begun_) remove_created();
}

void RunFolder::remove_created() {
  std::error_code ignored;
  try {
    if (lock_ && holds_only_locks(path_)) fs::remove(file(RunLock::kRun), ignored);
  } catch (const std::exception&) {  // it stays, and locks no other process out
  }
  for (auto folder = created_.rbegin(); folder != created_.rend(); ++folder)
    fs::remove(*folder, ignored);
}

void RunFolder::begin(const ResumeRecord* resumed) {
  begun_ = true;
  resumed_ = resumed != nullptr;
  std::vector<fs::path> ignored_list;
  create_output_folder(fs::path(path_) / "logs", ignored_list);
  if (resumed) {
    keep_metrics_before(file("metrics.jsonl"), *resumed);
    results_are_old_ = true;
  } else {
    remove_earlier_run();
  }
  metrics_ = RunLog(file("metrics.jsonl"), resumed ? RunLog::Open::append : RunLog::Open::empty);
  if (!metrics_.error().empty()) throw EnvironmentError(metrics_.error(), kOutputFolderHint);
  identity_ = identity_of(path_);
}

void RunFolder::remove_results() {
  results_are_old_ = false;
  for (const char* result : {"summary.json",
                             "model.safetensors",
                             io::kAverageFile,
                             "profile.txt",
                             "trace.json",
                             "kernel_times.json"}) {
    std::error_code error;
    fs::remove(file(result), error);
    if (error)
      errors_.push_back(
          fmt::format("{}: that of before cannot be removed: {}", file(result), error.message()));
  }
}

void RunFolder::remove_earlier_run() {
  remove_results();
  // What stays would be taken for this run's, should it be cut off.
  if (!errors_.empty()) throw EnvironmentError(errors_.front(), kOutputFolderHint);
  remove_logs(file("logs"));
  std::error_code ignored;
  const fs::path folder = file(kCheckpointsFolder);
  for (const std::string& name : io::names_in(folder))
    if (is_of_checkpoints(name)) io::remove_tree(folder / name);
  fs::remove(folder, ignored);  // unless files of others lie in it
  remove_tensorboard_files(file("tensorboard"));
  // Snapshots that a supervisor of the earlier run left: that of this one has named its own.
  if (!env().snapshots) fs::remove(file(SnapshotFolder::kLink), ignored);
}

void RunFolder::add_history(const std::string& line) {
  RunLog log(file(kHistoryFile), resumed_ ? RunLog::Open::append : RunLog::Open::empty);
  // Without the mark no later start would take the folder for one of a run.
  if (!log.error().empty() && !resumed_) throw EnvironmentError(log.error(), kOutputFolderHint);
  resumed_ = true;
  log.write_line(line);
  log.close();
  if (!log.error().empty()) errors_.push_back(log.error());
}

void RunFolder::write_file(const std::string& name, const std::string& text) {
  const std::string temporary = file(name + ".tmp");
  RunLog log(temporary);
  const bool ends = !text.empty() && text.back() == '\n';
  log.write_line(std::string_view(text).substr(0, text.size() - (ends ? 1 : 0)));
  log.close();
  std::error_code error;
  if (log.error().empty()) fs::rename(temporary, file(name), error);
  if (error) errors_.push_back(fmt::format("{}: {}", file(name), error.message()));
  if (!log.error().empty()) errors_.push_back(log.error());
  if (error || !log.error().empty()) fs::remove(temporary, error);
}

RunFolder::Identity RunFolder::identity_of(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return {};
  return {std::uint64_t(status.st_dev), std::uint64_t(status.st_ino)};
}

/// Says once that the folder at path_ is not the one that the run began in.
void RunFolder::look_for_folder() {
  if (identity_ == Identity{} || identity_of(path_) == identity_) return;
  identity_ = {};
  errors_.push_back(fmt::format(
      "{}: moved or removed while the run wrote into it; its metrics and logs went with it, later "
      "files are in a new folder of that name",
      path_));
  print_warning(errors_.back(), 0);
  std::error_code error;
  fs::create_directories(path_, error);
}

void RunFolder::on_step(const StepRecord& record) {
  look_for_folder();
  if (results_are_old_) remove_results();
  metrics_.write_line(to_json(record));
}

void RunFolder::on_evaluation(const EvaluationRecord& record) {
  metrics_.write_line(to_json(record));
}

void RunFolder::on_checkpoint(const CheckpointRecord& record) {
  look_for_folder();
  if (record.in_memory) return;
  metrics_.write_line(to_json(record));
  checkpoint_error_ = record.error;
}

void RunFolder::add_fault(const RestartRecord& record) {
  look_for_folder();
  metrics_.write_line(to_json(record));
}

void RunFolder::on_skip(const SkipRecord& record) { metrics_.write_line(to_json(record)); }

void RunFolder::on_rollback(const RollbackRecord& record) { metrics_.write_line(to_json(record)); }

void RunFolder::on_stop(const TrainSummary& summary) {
  if (results_are_old_ && summary.steps > summary.resumed_at) remove_results();
}

void RunFolder::on_end(const TrainSummary& summary) {
  look_for_folder();
  write_file("summary.json", to_json(summary));
}

std::vector<std::string> RunFolder::finish() {
  metrics_.close();
  if (!metrics_.error().empty()) errors_.push_back(metrics_.error());
  if (!checkpoint_error_.empty()) errors_.push_back(checkpoint_error_);
  return errors_;
}

}  // namespace lockstep
