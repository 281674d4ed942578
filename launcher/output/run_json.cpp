// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/run_json.h"

#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

#include "core/io/run_log.h"
#include "launcher/advice/advice_format.h"
#include "launcher/advice/gpu_usage_format.h"
#include "launcher/output/time_breakdown_json.h"

namespace lockstep {
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

}  // namespace

std::string to_json(const StepRecord& record) {
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
  return json_object(fields);
}

std::string to_json(const EvaluationRecord& record) {
  std::vector<JsonField> fields{{"step", record.step},
                                {"epoch", record.epoch},
                                {"val_loss", record.val_loss},
                                {"val_accuracy", or_null(record.val_accuracy)},
                                {"val_samples", record.samples},
                                {"skipped_samples", record.skipped_samples},
                                {"seconds", record.seconds}};
  if (record.ema_val_loss) {
    fields.push_back({"ema_val_loss", *record.ema_val_loss});
    fields.push_back({"ema_val_accuracy", or_null(record.ema_val_accuracy.value_or(-1))});
  }
  return json_object(fields);
}

std::string to_json(const CheckpointRecord& record) {
  return json_object({{"step", record.step},
                      {"checkpoint", record.path},
                      {"seconds", record.seconds},
                      {"stall_ms", record.stall_ms},
                      {"error", record.error}});
}

std::string to_json(const RestartRecord& record) {
  return json_object({{"step", record.step},
                      {"fault", record.facts.fault},
                      {"exit_code", std::int64_t(record.facts.exit_code)},
                      {"restart", std::int64_t(record.facts.restart)},
                      {"survivors", std::int64_t(record.facts.survivors)},
                      {"reported", record.facts.reported},
                      {"lost_steps", record.lost_steps},
                      {"end_s", record.end_s},
                      {"pause_s", record.pause_s},
                      {"start_s", record.start_s},
                      {"first_step_s", record.first_step_s},
                      {"seconds", record.total_s()}});
}

std::string to_json(const SkipRecord& record) {
  return json_object(
      {{"step", record.step}, {"epoch", record.epoch}, {"skipped_step", record.cause}});
}

std::string to_json(const RollbackRecord& record) {
  return json_object({{"step", record.step},
                      {"rollback", record.path},
                      {"spike_step", record.spike_step},
                      {"loss", record.loss},
                      {"mean", record.mean},
                      {"spread", record.spread},
                      {"first_left_out", record.skipped_batches.first},
                      {"last_left_out", record.skipped_batches.last - 1}});
}

std::string to_json(const TrainSummary& summary, const std::string& evaluation) {
  const TimeBreakdown own =
      summary.breakdowns.empty() ? TimeBreakdown{} : summary.breakdowns.front().breakdown;
  return json_object(
      {{"steps", summary.steps},
       {"samples", summary.samples},
       {"train_loss", summary.train_loss},
       {"val_loss", summary.evaluated ? summary.val_loss : kNull},
       {"val_accuracy", summary.evaluated ? or_null(summary.val_accuracy) : kNull},
       {"val_bits_per_byte", summary.val_bits_per_byte.value_or(kNull)},
       {"samples_per_s", summary.samples_per_s},
       {"wall_s", summary.wall_s},
       {"comm_exposed_share", own.share(TimePart::exchange)},
       {"data_wait_share", own.share(TimePart::data)},
       {"noise_scale", summary.noise_scale.value_or(kNull)},
       {"noise_scale_words", summary.format_noise_scale},
       {"step_time_error", summary.step_error.value_or(kNull)},
       {"advice", JsonText{advice_json(summary.advice)}},
       {"ledger", JsonText{time_breakdowns_json(summary.breakdowns)}},
       {"device_times", JsonText{device_seconds_json(summary.device_times, summary.device_steps)}},
       {"loader_samples_per_s", summary.loader_samples_per_s},
       {"loader_workers", std::int64_t(summary.loader_workers)},
       {"skipped_samples", summary.skipped_samples},
       {"skipped_steps", summary.skipped_steps},
       {"rollbacks", summary.rollbacks},
       {"stopped_early", summary.stopped_early},
       {"lowest_val_step", summary.lowest_val_step >= 0 ? double(summary.lowest_val_step) : kNull},
       {"resumed_at", summary.resumed_at},
       {"checkpoints", summary.checkpoints},
       {"snapshots", summary.snapshots},
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
       {"gpus", JsonText{gpus_json(summary.gpus)}},
       {"evaluation", JsonText{evaluation}}},
      2);
}

}  // namespace lockstep
