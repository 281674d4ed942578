// SPDX-License-Identifier: Apache-2.0
#include "launcher/run_folder.h"

#include <cmath>
#include <ctime>
#include <filesystem>
#include <limits>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/io/checkpoint_names.h"
#include "core/io/folder.h"
#include "launcher/advice_words.h"
#include "launcher/error_meeting.h"
#include "launcher/gpu_words.h"
#include "launcher/ledger_json.h"
#include "launcher/metrics_file.h"
#include "launcher/tensorboard_file.h"

namespace lockstep {
namespace fs = std::filesystem;
namespace {

constexpr double kNull = std::numeric_limits<double>::quiet_NaN();

/// Negative values mean "not computed" in records.
double or_null(double value) { return value < 0 ? kNull : value; }

/// Whole bytes; null where they are not known.
JsonField bytes_field(std::string_view name, double bytes) {
  if (std::isnan(bytes)) return {name, bytes};
  return {name, std::int64_t(std::llround(bytes))};
}

std::string memory_json(const TrainSummary& summary) {
  std::vector<JsonField> fields;
  for (const auto& [category, bytes] : summary.memory) fields.push_back({category, bytes});
  return json_object(fields);
}

std::string time_stamp() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d_%H-%M-%S", &local);
  return text;
}

bool is_lock(const fs::path& name) { return name == RunLock::kRun || name == RunLock::kSupervisor; }

/// Or nothing at all.
bool holds_only_locks(const fs::path& folder, std::error_code& error) {
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (!is_lock(entry.path().filename())) return false;
  return !error;
}

/// What `lockstep run` makes before the ranks decide about the folder; or nothing at all.
bool holds_only_raw_output(const fs::path& logs) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(logs, error))
    if (entry.path().filename() != "output") return false;
  return !error;
}

// The first file of every run, and its mark: it is written over, never missing in between, so that
// a start killed at any moment leaves a folder in which the run can go on.
constexpr const char* kHistory = "history.jsonl";
constexpr const char* kCheckpoints = "checkpoints";
constexpr const char* kHint = "choose a writable place with --out DIR";

[[noreturn]] void cannot_create(const fs::path& folder, const std::error_code& error) {
  throw EnvironmentError(
      fmt::format("cannot create the output folder {}: {}", folder.string(), error.message()),
      kHint);
}

/// The name of a new folder outlasts a power cut as what lies in it does.
void sync_parent(const fs::path& folder) {
  const fs::path parent = folder.parent_path();
  io::sync_folder(parent.empty() ? fs::path(".") : parent);
}

/// Creates `folder` and its parents; appends those that were not there, outermost first.
void create(const fs::path& folder, std::vector<fs::path>& created) {
  std::error_code error;
  if (fs::is_directory(folder, error)) return;
  if (fs::exists(folder, error))
    cannot_create(folder, std::make_error_code(std::errc::not_a_directory));
  if (folder.has_parent_path() && folder.parent_path() != folder)
    create(folder.parent_path(), created);
  const bool made = fs::create_directory(folder, error);
  if (error && !fs::is_directory(folder)) cannot_create(folder, error);
  if (!made) return;
  created.push_back(folder);
  sync_parent(folder);
}

/// Creates a folder that no other run has.
std::string make_fresh_folder(std::vector<fs::path>& created) {
  const std::string base = "runs/" + time_stamp();
  create("runs", created);
  std::string name = base;
  for (int i = 2;; ++i) {
    std::error_code error;
    if (fs::create_directory(name, error)) break;
    if (error) cannot_create(name, error);
    name = fmt::format("{}-{}", base, i);
  }
  created.push_back(name);
  sync_parent(name);
  return name;
}

/// Whether a run that was cut off before it wrote its configuration may have left `path`: then it
/// can begin here.
bool is_of_a_start(const fs::path& path, RunFolder::Existing existing) {
  const std::string name = path.filename().string();
  if (is_lock(name) || name.starts_with(".shared-")) return true;
  if (name == "logs" && holds_only_raw_output(path)) return true;
  return existing == RunFolder::Existing::own_run &&
         (name == "logs" || name.starts_with("metrics.jsonl"));
}

/// What save, removal and resuming of checkpoints call their folders.
bool is_of_checkpoints(const std::string& name) {
  return io::step_of(name.substr(0, name.find(".damaged"))) || name.starts_with(".step_");
}

/// Throws ConfigError where others could exchange the files of a run while it writes them.
void check_owner(const std::string& out) {
  struct stat status {};
  if (stat(out.c_str(), &status) != 0 || status.st_uid == geteuid()) return;
  if ((status.st_mode & S_IWOTH) == 0) return;
  throw ConfigError(
      fmt::format("the output folder {} belongs to another user (number {}), and every user can "
                  "write to it",
                  out,
                  status.st_uid),
      "choose a folder of your own with --out, for example one in it; --force takes it as it is");
}

/// Throws ConfigError where a run would begin anew over results that nothing else holds.
void check_begins_anew(const std::string& out) {
  const fs::path folder = fs::path(out) / kCheckpoints;
  if (!io::steps_in(folder).empty()) return;  // it goes on, or says why it cannot
  std::string kept;
  std::error_code ignored;
  for (const char* result : {"summary.json", "model.safetensors"})
    if (fs::exists(fs::path(out) / result, ignored)) kept = result;
  for (const std::string& name : io::names_in(folder))
    if (!name.starts_with(".step_")) kept = fmt::format("{}/{}", kCheckpoints, name);
  if (!kept.empty())
    throw ConfigError(
        fmt::format("the run in {} has no checkpoint to go on from, but {}", out, kept),
        "choose another --out, or begin again over it with --force instead of --resume");
}

}  // namespace

void RunFolder::check(const std::string& out, Existing existing) {
  if (out.empty()) return;
  std::error_code error;
  const fs::file_status status = fs::status(out, error);
  if (status.type() == fs::file_type::not_found) return;
  const auto check_readable = [&] {
    if (error)
      throw EnvironmentError(
          fmt::format("cannot read the output folder {}: {}", out, error.message()), kHint);
  };
  check_readable();
  LOCKSTEP_CHECK(fs::is_directory(status), ConfigError, "--out {} is not a folder", out);
  if (existing == Existing::nothing) check_owner(out);
  bool empty = true;
  for (const auto& entry : fs::directory_iterator(out, error))
    empty = empty && is_of_a_start(entry.path(), existing);
  check_readable();
  if (empty || existing == Existing::anything) return;
  const bool run = fs::exists(fs::path(out) / kHistory, error);
  if (existing == Existing::own_run) {
    if (run) return check_begins_anew(out);
    throw ConfigError(fmt::format("the output folder {} holds no run that could go on", out),
                      "choose another --out");
  }
  throw ConfigError(
      fmt::format("the output folder {} already exists and is not empty", out),
      run ? "choose another --out, write over it with --force, or go on from its newest checkpoint "
            "with --resume auto"
          : "choose another --out, or write over it with --force");
}

std::string RunFolder::create_fresh() {
  std::vector<fs::path> created;
  return make_fresh_folder(created);
}

RunFolder::RunFolder(const std::string& out, Existing existing) : path_(out) {
  check(path_, existing);
  try {
    if (path_.empty()) {
      path_ = make_fresh_folder(created_);
    } else {
      create(fs::path(path_).lexically_normal(), created_);
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
  if (lock_ && holds_only_locks(path_, ignored)) fs::remove(file(RunLock::kRun), ignored);
  for (auto folder = created_.rbegin(); folder != created_.rend(); ++folder)
    fs::remove(*folder, ignored);
}

void RunFolder::begin(const ResumeRecord* resumed) {
  begun_ = true;
  goes_on_ = resumed != nullptr;
  std::vector<fs::path> ignored_list;
  create(fs::path(path_) / "logs", ignored_list);
  if (resumed) {
    keep_metrics_before(file("metrics.jsonl"), *resumed);
    results_are_old_ = true;
  } else {
    remove_earlier_run();
  }
  metrics_ = RunLog(file("metrics.jsonl"), resumed ? RunLog::Open::append : RunLog::Open::empty);
  if (!metrics_.error().empty()) throw EnvironmentError(metrics_.error(), kHint);
  identity_ = identity_of(path_);
}

void RunFolder::remove_results() {
  std::error_code ignored;
  for (const char* result : {"summary.json", "model.safetensors", "profile.txt", "trace.json"})
    fs::remove(fs::path(path_) / result, ignored);
  results_are_old_ = false;
}

void RunFolder::remove_earlier_run() {
  remove_results();
  std::error_code ignored;
  for (int rank = 0; fs::remove(file(fmt::format("logs/rank_{}.log", rank)), ignored); ++rank) {
  }
  const fs::path folder = file(kCheckpoints);
  for (const std::string& name : io::names_in(folder))
    if (is_of_checkpoints(name)) fs::remove_all(folder / name, ignored);
  fs::remove(folder, ignored);  // unless somebody else's files lie in it
  remove_tensorboard_files(file("tensorboard"));
}

void RunFolder::add_history(const std::string& line) {
  RunLog log(file(kHistory), goes_on_ ? RunLog::Open::append : RunLog::Open::empty);
  goes_on_ = true;
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
  std::vector<JsonField> fields{{"step", record.step},
                                {"epoch", record.epoch},
                                {"samples", record.samples},
                                {"loss", record.loss},
                                {"accuracy", or_null(record.accuracy)},
                                {"step_loss", record.step_loss},
                                {"lr", record.lr},
                                {"grad_norm", or_null(record.grad_norm)},
                                {"samples_per_s", record.samples_per_s},
                                {"step_ms", record.step_ms.total},
                                {"loader_samples_per_s", record.loader_samples_per_s}};
  add_parts(fields, record.step_ms);
  if (record.device_ms) {
    // Of a temporary, GCC 14 takes the other kinds of value for uninitialised.
    const JsonText device{device_ms_json(*record.device_ms)};
    fields.push_back({"device", device});
  }
  fields.push_back({"noise_scale", record.noise_scale.value_or(kNull)});
  if (record.gpu) {
    const GpuValues& gpu = record.gpu->values;
    fields.push_back({"gpu_busy", gpu[GpuQuantity::busy]});
    fields.push_back(bytes_field("gpu_memory_bytes", gpu[GpuQuantity::memory_bytes]));
    fields.push_back({"gpu_bus_busy", gpu[GpuQuantity::bus_busy]});
    fields.push_back({"gpu_power_w", gpu[GpuQuantity::power_w]});
    fields.push_back({"gpu_clock_mhz", gpu[GpuQuantity::clock_mhz]});
  }
  metrics_.write_line(json_object(fields));
}

void RunFolder::on_evaluation(const EvaluationRecord& record) {
  metrics_.write_line(json_object({{"step", record.step},
                                   {"epoch", record.epoch},
                                   {"val_loss", record.val_loss},
                                   {"val_accuracy", or_null(record.val_accuracy)},
                                   {"val_samples", record.samples},
                                   {"skipped_samples", record.skipped_samples},
                                   {"seconds", record.seconds}}));
}

void RunFolder::on_checkpoint(const CheckpointRecord& record) {
  look_for_folder();
  metrics_.write_line(json_object({{"step", record.step},
                                   {"checkpoint", record.path},
                                   {"seconds", record.seconds},
                                   {"stall_ms", record.stall_ms},
                                   {"error", record.error}}));
  checkpoint_error_ = record.error;
}

void RunFolder::on_skip(const SkipRecord& record) {
  metrics_.write_line(json_object(
      {{"step", record.step}, {"epoch", record.epoch}, {"skipped_step", record.cause}}));
}

void RunFolder::on_rollback(const RollbackRecord& record) {
  metrics_.write_line(json_object({{"step", record.step},
                                   {"rollback", record.path},
                                   {"spike_step", record.spike_step},
                                   {"loss", record.loss},
                                   {"mean", record.mean},
                                   {"spread", record.spread},
                                   {"first_left_out", record.left_out.first},
                                   {"last_left_out", record.left_out.last - 1}}));
}

void RunFolder::on_stop(const TrainSummary& summary) {
  if (results_are_old_ && summary.steps > summary.resumed_at) remove_results();
}

void RunFolder::on_end(const TrainSummary& summary) {
  look_for_folder();
  const Ledger own = summary.ledgers.empty() ? Ledger{} : summary.ledgers.front().ledger;
  write_file(
      "summary.json",
      json_object({{"steps", summary.steps},
                   {"samples", summary.samples},
                   {"train_loss", summary.train_loss},
                   {"val_loss", summary.evaluated ? summary.val_loss : kNull},
                   {"val_accuracy", summary.evaluated ? or_null(summary.val_accuracy) : kNull},
                   {"samples_per_s", summary.samples_per_s},
                   {"wall_s", summary.wall_s},
                   {"comm_exposed_share", own.share(LedgerPart::exchange)},
                   {"data_wait_share", own.share(LedgerPart::data)},
                   {"noise_scale", summary.noise_scale.value_or(kNull)},
                   {"noise_scale_words", summary.noise_scale_words},
                   {"step_time_error", summary.step_error.value_or(kNull)},
                   {"advice", JsonText{advice_json(summary.advice)}},
                   {"ledger", JsonText{ledgers_json(summary.ledgers)}},
                   {"device_times",
                    JsonText{device_seconds_json(summary.device_times, summary.device_steps)}},
                   {"loader_samples_per_s", summary.loader_samples_per_s},
                   {"loader_workers", std::int64_t(summary.loader_workers)},
                   {"skipped_samples", summary.skipped_samples},
                   {"skipped_steps", summary.skipped_steps},
                   {"rollbacks", summary.rollbacks},
                   {"resumed_at", summary.resumed_at},
                   {"checkpoints", summary.checkpoints},
                   {"checkpoint_stall_ms", summary.checkpoint_stall_ms},
                   {"checkpoint_stall_share", summary.checkpoint_stall_share},
                   {"planned_bytes", summary.planned_bytes},
                   {"activation_bytes", summary.activation_bytes},
                   {"memory_planned_bytes", summary.memory_planned_bytes},
                   {"memory_baseline_bytes", summary.memory_baseline_bytes},
                   {"peak_memory_bytes", summary.peak_memory_bytes},
                   {"memory", JsonText{memory_json(summary)}},
                   {"global_batch", summary.global_batch},
                   {"micro_batch", summary.micro_batch},
                   {"weights_sha256", summary.weights_sha256},
                   {"slowest_rank", std::int64_t(summary.slowest_rank)},
                   {"slowest_rank_score", summary.slowest_rank < 0 ? kNull : summary.slowest_score},
                   {"slowest_rank_phase", summary.slowest_phase},
                   {"ranks", std::int64_t(summary.ranks)},
                   {"device", summary.device},
                   {"graph_use", JsonText{graph_use_json(summary.graph_use)}},
                   {"gpus", JsonText{gpus_json(summary.gpus)}}},
                  2));
}

std::vector<std::string> RunFolder::finish() {
  metrics_.close();
  if (!metrics_.error().empty()) errors_.push_back(metrics_.error());
  if (!checkpoint_error_.empty()) errors_.push_back(checkpoint_error_);
  return errors_;
}

RunFolder::Existing existing_folder(const TrainFlags& flags) {
  if (flags.continues || (!flags.resume.empty() && env().restarted))
    return RunFolder::Existing::own_run;
  return flags.force ? RunFolder::Existing::anything : RunFolder::Existing::nothing;
}

}  // namespace lockstep
