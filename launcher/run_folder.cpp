// SPDX-License-Identifier: Apache-2.0
#include "launcher/run_folder.h"

#include <ctime>
#include <filesystem>
#include <limits>

#include "core/base/error.h"

namespace lockstep {
namespace fs = std::filesystem;
namespace {

/// Negative values mean "not computed" in records.
double or_null(double value) {
  return value < 0 ? std::numeric_limits<double>::quiet_NaN() : value;
}

std::string time_stamp() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d_%H-%M-%S", &local);
  return text;
}

std::string fresh_name() {
  const std::string base = "runs/" + time_stamp();
  std::string name = base;
  std::error_code ignored;
  for (int i = 2; fs::exists(name, ignored); ++i) name = fmt::format("{}-{}", base, i);
  return name;
}

bool create(const fs::path& folder) {
  std::error_code error;
  const bool created = fs::create_directories(folder, error);
  if (error) {
    throw EnvironmentError(
        fmt::format("cannot create the output folder {}: {}", folder.string(), error.message()),
        "choose a writable place with --out DIR");
  }
  return created;
}

}  // namespace

void RunFolder::check(const std::string& out, bool force) {
  std::error_code ignored;
  if (out.empty() || !fs::exists(out, ignored)) return;
  LOCKSTEP_CHECK(fs::is_directory(out, ignored), ConfigError, "--out {} is not a folder", out);
  if (force || fs::directory_iterator(out, ignored) == fs::directory_iterator()) return;
  throw ConfigError(fmt::format("the output folder {} already exists and is not empty", out),
                    "choose another --out, or write over it with --force");
}

RunFolder::RunFolder(const std::string& out, bool force) : path_(out.empty() ? fresh_name() : out) {
  check(path_, force);
  created_ = create(path_);
  create(fs::path(path_) / "logs");
  std::error_code ignored;
  for (const char* result : {"summary.json", "model.safetensors"})
    fs::remove(fs::path(path_) / result, ignored);
  metrics_ = RunLog(file("metrics.jsonl"));
  if (!metrics_.error().empty())
    throw EnvironmentError(metrics_.error(), "choose a writable place with --out DIR");
}

RunFolder::~RunFolder() = default;

void RunFolder::write_file(const std::string& name, const std::string& text) {
  RunLog log(file(name));
  const bool ends = !text.empty() && text.back() == '\n';
  log.write_line(std::string_view(text).substr(0, text.size() - (ends ? 1 : 0)));
  log.close();
  if (!log.error().empty()) errors_.push_back(log.error());
}

void RunFolder::on_step(const StepRecord& record) {
  used_ = true;
  metrics_.write_line(json_object({{"step", record.step},
                                   {"epoch", record.epoch},
                                   {"samples", record.samples},
                                   {"loss", record.loss},
                                   {"accuracy", or_null(record.accuracy)},
                                   {"lr", record.lr},
                                   {"grad_norm", or_null(record.grad_norm)},
                                   {"samples_per_s", record.samples_per_s},
                                   {"step_ms", record.step_ms},
                                   {"data_ms", record.data_ms},
                                   {"forward_ms", record.forward_ms},
                                   {"backward_ms", record.backward_ms},
                                   {"comm_exposed_ms", record.comm_exposed_ms},
                                   {"optimizer_ms", record.optimizer_ms}}));
}

void RunFolder::on_evaluation(const EvaluationRecord& record) {
  used_ = true;
  metrics_.write_line(json_object({{"step", record.step},
                                   {"epoch", record.epoch},
                                   {"val_loss", record.val_loss},
                                   {"val_accuracy", or_null(record.val_accuracy)},
                                   {"seconds", record.seconds}}));
}

void RunFolder::on_end(const TrainSummary& summary) {
  used_ = true;
  constexpr double kNull = std::numeric_limits<double>::quiet_NaN();
  write_file(
      "summary.json",
      json_object({{"steps", summary.steps},
                   {"samples", summary.samples},
                   {"train_loss", summary.train_loss},
                   {"val_loss", summary.evaluated ? summary.val_loss : kNull},
                   {"val_accuracy", summary.evaluated ? or_null(summary.val_accuracy) : kNull},
                   {"samples_per_s", summary.samples_per_s},
                   {"wall_s", summary.wall_s},
                   {"comm_exposed_share", summary.comm_exposed_share},
                   {"peak_memory_bytes", summary.peak_memory_bytes},
                   {"weights_sha256", summary.weights_sha256},
                   {"ranks", std::int64_t(summary.ranks)},
                   {"device", summary.device}},
                  2));
}

std::vector<std::string> RunFolder::finish() {
  metrics_.close();
  if (!metrics_.error().empty()) errors_.push_back(metrics_.error());
  return errors_;
}

void RunFolder::discard_unused() {
  std::error_code ignored;
  if (created_ && !used_) fs::remove_all(path_, ignored);
}

}  // namespace lockstep
