// SPDX-License-Identifier: Apache-2.0
#include "launcher/predict/evaluation_report.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "core/base/text/printable.h"
#include "launcher/predict/json_line.h"

namespace lockstep {
namespace {

using data::Task;
using nlohmann::ordered_json;

constexpr std::size_t kMaxName = 40;

std::string percentage(double part) {
  return std::isnan(part) ? "-" : fmt::format("{:.2f}%", part * 100);
}

}  // namespace

std::string class_table(const EvaluationReport& report) {
  std::vector<std::string> names{report.task == Task::multi_label ? "label" : "class"};
  for (const ClassMetrics& one : report.metrics->classes)
    names.push_back(printable_start(one.name, kMaxName));
  std::size_t width = 0;
  for (const std::string& name : names) width = std::max(width, name.size());
  std::string text = fmt::format("{:<{}}  {:>9}  {:>8}  {:>9}  {:>8}\n",
                                 names[0],
                                 width,
                                 "samples",
                                 "recall",
                                 "precision",
                                 "F1");
  for (std::size_t i = 0; i < report.metrics->classes.size(); ++i) {
    const ClassMetrics& one = report.metrics->classes[i];
    text += fmt::format("{:<{}}  {:>9}  {:>8}  {:>9}  {:>8}\n",
                        names[i + 1],
                        width,
                        one.samples,
                        percentage(one.recall()),
                        percentage(one.precision()),
                        percentage(one.f1()));
  }
  for (const Confusion& pair : report.metrics->confusions)
    text += fmt::format("confused   {} with {}: {} samples\n",
                        printable_start(pair.label, kMaxName),
                        printable_start(pair.predicted, kMaxName),
                        pair.samples);
  return text;
}

namespace {

void add_metrics(Task task, const EvaluationMetrics& metrics, ordered_json& result) {
  const bool labels = task == Task::multi_label;
  if (metrics.top5) result["top5"] = number_json(*metrics.top5);
  if (!metrics.targets.empty()) result["targets"] = ordered_json::array();
  for (const TargetMetrics& target : metrics.targets)
    result["targets"].push_back({{"target", target.name},
                                 {"r2", number_json(target.r2)},
                                 {"rmse", number_json(target.rmse)},
                                 {"mae", number_json(target.mae)}});
  const char* const list = labels ? "per_label" : "per_class";
  if (!metrics.classes.empty()) result[list] = ordered_json::array();
  for (const ClassMetrics& one : metrics.classes)
    result[list].push_back({{labels ? "label" : "class", one.name},
                            {"samples", one.samples},
                            {"recall", number_json(one.recall())},
                            {"precision", number_json(one.precision())},
                            {"f1", number_json(one.f1())}});
  if (task != Task::classification) return;
  result["confusions"] = ordered_json::array();
  for (const Confusion& pair : metrics.confusions)
    result["confusions"].push_back(
        {{"class", pair.label}, {"predicted", pair.predicted}, {"samples", pair.samples}});
  if (!metrics.matrix.empty()) result["confusion_matrix"] = metrics.matrix;
}

}  // namespace

std::string metrics_json(Task task, const EvaluationMetrics& metrics) {
  ordered_json result = ordered_json::object();
  add_metrics(task, metrics, result);
  std::string line = json_line(result);
  line.pop_back();
  return line;
}

std::string evaluation_text(const EvaluationReport& report) {
  const EvaluationRecord& record = report.record;
  const auto& metrics = report.metrics;
  std::string text = fmt::format("loss {:.6f}", record.val_loss);
  if (record.val_accuracy >= 0)
    text += fmt::format("  accuracy {:.2f}%", record.val_accuracy * 100);
  if (metrics && metrics->top5) text += fmt::format("  top-5 {:.2f}%", *metrics->top5 * 100);
  if (report.task == Task::next_token)
    text += fmt::format("  perplexity {:.6g}", std::exp(record.val_loss));
  if (report.bits_per_byte) text += fmt::format("  bits per byte {:.6f}", *report.bits_per_byte);
  text += fmt::format("  ({} samples, {:.0f} samples/s)\n",
                      report.samples,
                      double(report.samples) / record.seconds);
  if (record.skipped_samples > 0)
    text += fmt::format("skipped    {} samples that cannot be read; the first: {}\n",
                        record.skipped_samples,
                        record.first_skipped);
  if (!metrics) return text;
  for (const TargetMetrics& target : metrics->targets)
    text += fmt::format("target     {}  R2 {:.4f}  RMSE {:.6g}  MAE {:.6g}\n",
                        printable_start(target.name, kMaxName),
                        target.r2,
                        target.rmse,
                        target.mae);
  if (report.per_class || report.task == Task::multi_label) text += class_table(report);
  return text;
}

std::string evaluation_json(const EvaluationReport& report) {
  const EvaluationRecord& record = report.record;
  ordered_json result{{"samples", report.samples},
                      {"skipped_samples", record.skipped_samples},
                      {"loss", number_json(record.val_loss)}};
  if (record.val_accuracy >= 0) result["accuracy"] = record.val_accuracy;
  if (report.task == Task::next_token)
    result["perplexity"] = number_json(std::exp(record.val_loss));
  if (report.bits_per_byte) result["bits_per_byte"] = number_json(*report.bits_per_byte);
  if (report.metrics) add_metrics(report.task, *report.metrics, result);
  result["seconds"] = record.seconds;
  result["samples_per_s"] = number_json(double(report.samples) / record.seconds);
  return json_line(result);
}

}  // namespace lockstep
