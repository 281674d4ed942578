// SPDX-License-Identifier: Apache-2.0
#include "parallel/console/progress.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <functional>
#include <iterator>
#include <utility>

#include "core/base/text/number_format.h"
#include "core/host/process_memory.h"
#include "parallel/console/console.h"
#include "parallel/console/eta.h"
#include "parallel/session/error_report.h"

namespace lockstep {
namespace {

/// Milliseconds with three significant digits, so that microsecond steps show as well.
std::string milliseconds(double ms) {
  if (ms >= 100) return fmt::format("{:.0f} ms", ms);
  if (ms >= 10) return fmt::format("{:.1f} ms", ms);
  if (ms >= 1) return fmt::format("{:.2f} ms", ms);
  return fmt::format("{:.3g} ms", ms);
}

std::string accuracy(double share) {
  return share < 0 ? std::string() : fmt::format("  acc {:.2f}%", 100 * share);
}

}  // namespace

std::string step_line(const StepRecord& record) {
  return fmt::format("step {}/{}  epoch {:.2f}  loss {:.4f}{}  lr {:.4g}  {} samples/s  {}",
                     record.step,
                     record.steps,
                     record.epoch,
                     record.loss,
                     accuracy(record.accuracy),
                     record.lr,
                     format_count(record.samples_per_s),
                     milliseconds(record.step_ms.total));
}

namespace {

/// "310 GFLOP/s", "1.24 TFLOP/s"
std::string flops_rate(double a_second) {
  constexpr const char* kUnits[] = {
      "FLOP/s", "kFLOP/s", "MFLOP/s", "GFLOP/s", "TFLOP/s", "PFLOP/s"};
  std::size_t unit = 0;
  for (; a_second >= 999.5 && unit + 1 < std::size(kUnits); ++unit) a_second /= 1000;
  return fmt::format("{:.{}f} {}",
                     a_second,
                     a_second >= 99.95   ? 0
                     : a_second >= 9.995 ? 1
                                         : 2,
                     kUnits[unit]);
}

/// Of all ranks; empty where it is not known.
std::string format_flops(const StepRecord& record, const ProgressContext& facts) {
  if (facts.flops_per_step <= 0 || record.step_ms.total <= 0) return {};
  const double rate = facts.flops_per_step / (record.step_ms.total / 1000);
  std::string text = flops_rate(rate);
  if (facts.peak_flops > 0) text += fmt::format(", {:.0f}% of peak", 100 * rate / facts.peak_flops);
  return text;
}

}  // namespace

std::vector<std::string> live_parts(const StepRecord& record,
                                    const ProgressContext& facts,
                                    double seconds_left,
                                    std::uint64_t memory_bytes) {
  std::vector<std::string> parts{format_duration(seconds_left) + " left",
                                 fmt::format("loss {:.4f}", record.loss),
                                 format_count(record.samples_per_s) + " samples/s"};
  if (std::string flops = format_flops(record, facts); !flops.empty()) parts.push_back(flops);
  if (memory_bytes == 0) return parts;
  std::string memory = format_bytes(double(memory_bytes));
  if (facts.planned_bytes > 0) memory += " of " + format_bytes(double(facts.planned_bytes));
  parts.push_back(std::move(memory));
  return parts;
}

std::string plain_line(const StepRecord& record,
                       const ProgressContext& facts,
                       double seconds_left) {
  constexpr std::size_t kColumns = 119;
  std::vector<std::string> parts{step_line(record)};
  if (record.step < record.steps) parts.push_back(format_duration(seconds_left) + " left");
  if (std::string flops = format_flops(record, facts); !flops.empty()) parts.push_back(flops);
  return parts[0].size() > kColumns ? parts[0] : parts_within(kColumns, parts);
}

std::string evaluation_line(const EvaluationRecord& record) {
  std::string line = fmt::format("validation at step {} (epoch {:.2f}): loss {:.4f}{}  ({:.1f} s)",
                                 record.step,
                                 record.epoch,
                                 record.val_loss,
                                 accuracy(record.val_accuracy),
                                 record.seconds);
  if (record.ema_val_loss)
    line += fmt::format(", average of the weights: loss {:.4f}{}",
                        *record.ema_val_loss,
                        accuracy(record.ema_val_accuracy.value_or(-1)));
  if (record.skipped_samples > 0)
    line += fmt::format(", without {} bad samples", format_count(double(record.skipped_samples)));
  return line;
}

std::string slow_rank_line(const SlowRankRecord& record) {
  return fmt::format(
      "[rank {0} {1}] warning: rank {0} is slower than the others: score {2:.1f} in {3} ({4} a "
      "micro-batch, median {5})",
      record.rank,
      record.host,
      record.score,
      record.phase,
      milliseconds(record.ms),
      milliseconds(record.median_ms));
}

struct Progress::State {
  Console& console;
  ProgressContext facts = {};
  Eta left = {};
  std::uint64_t memory_bytes = 0;
  std::chrono::steady_clock::time_point next_look_at_memory = {};
  std::chrono::steady_clock::time_point next_evaluation_line = {};

  /// What rank 0's process holds, looked at once a second: that takes as long as a small step.
  std::uint64_t look_at_memory() {
    const auto now = std::chrono::steady_clock::now();
    if (facts.planned_bytes == 0 || now < next_look_at_memory) return memory_bytes;
    next_look_at_memory = now + std::chrono::seconds(1);
    return memory_bytes = resident_memory().total();
  }
};

Progress::Progress(Console& console) : state_(std::make_unique<State>(State{console})) {}
Progress::~Progress() = default;

void Progress::set_facts(const ProgressContext& facts) { state_->facts = facts; }

void Progress::on_start(const ResumeRecord* resumed) {
  state_->left.resume_from(resumed != nullptr ? resumed->step : 0);
}

void Progress::on_step(const StepRecord& record) {
  state_->left.on_step(record);
  if (!state_->console.shows_bar()) {
    state_->console.line(plain_line(record, state_->facts, state_->left.seconds()));
    return;
  }
  state_->console.line(step_line(record));
  const double share = double(record.step) / double(std::max<std::int64_t>(1, record.steps));
  state_->console.bar(
      share, live_parts(record, state_->facts, state_->left.seconds(), state_->look_at_memory()));
}

void Progress::on_evaluation(const EvaluationRecord& record) {
  state_->left.on_evaluation(record);
  const auto now = std::chrono::steady_clock::now();
  if (now < state_->next_evaluation_line) return;
  state_->next_evaluation_line = now + std::chrono::seconds(1);
  state_->console.line(evaluation_line(record));
}

void Progress::on_checkpoint(const CheckpointRecord& record) {
  for (const std::string& line : record.not_removed)
    print_warning("old checkpoint not removed: " + line, 0);
  if (record.in_memory) {
    print_warning("no snapshots in memory, checkpoints are written all the same: " + record.error,
                  0);
    return;
  }
  if (!record.error.empty()) {
    print_warning(fmt::format("the checkpoint of step {} was not written, the ones before stay: {}",
                              record.step,
                              record.error),
                  0);
    return;
  }
  state_->console.line(fmt::format("checkpoint at step {}: {}  ({:.1f} s; {} stall)",
                                   record.step,
                                   record.path,
                                   record.seconds,
                                   milliseconds(record.stall_ms)));
}

void Progress::on_single_writer(const std::string& why, std::uint64_t bytes) {
  print_warning(fmt::format("rank 0 writes checkpoints alone, and holds {} for them: {}",
                            format_bytes(double(bytes)),
                            why),
                0);
}

void Progress::on_slow_rank(const SlowRankRecord& record) {
  state_->console.line(slow_rank_line(record));
}
void Progress::on_skip(const SkipRecord& record) {
  state_->console.line(fmt::format("step {} skipped: {}", record.step, record.cause));
}

void Progress::on_rollback(const RollbackRecord& record) {
  state_->left.resume_from(record.step);
  state_->console.line(fmt::format(
      "rollback from step {} (loss {:.4g}, mean before {:.4g}, spread {:.3g}) to step {}: "
      "{}; batches {} to {} are skipped",
      record.spike_step,
      record.loss,
      record.mean,
      record.spread,
      record.step,
      record.path,
      record.skipped_batches.first,
      record.skipped_batches.last - 1));
}

namespace {

TimeBreakdown own_breakdown(const TrainSummary& summary) {
  return summary.breakdowns.empty() ? TimeBreakdown{} : summary.breakdowns.front().breakdown;
}

/// Below this, what a run cost and what would speed it up says nothing of a longer one.
constexpr double kBriefSeconds = 5;

/// Takes a line of the end.
using Tell = std::function<void(std::string_view)>;

void print_result(Console& console, const TrainSummary& summary, bool brief) {
  std::string done = fmt::format("done       {} steps, {} samples in {:.1f} s of training",
                                 format_count(double(summary.steps)),
                                 format_count(double(summary.samples)),
                                 summary.wall_s);
  if (brief && summary.evaluated)
    done +=
        fmt::format(", validation loss {:.4f}{}", summary.val_loss, accuracy(summary.val_accuracy));
  console.line(done);
  if (summary.stopped_early)
    console.line(summary.lowest_val_step < 0
                     ? std::string("early stop             no validation loss was a number")
                     : fmt::format("early stop             the best validation was after step {}",
                                   format_count(double(summary.lowest_val_step))));
  if (brief || !summary.evaluated) return;
  if (summary.val_accuracy >= 0)
    console.line(fmt::format("val accuracy           {:.2f}%", 100 * summary.val_accuracy));
  console.line(fmt::format("val loss               {:.4f}", summary.val_loss));
}

/// What the result lacks.
void print_losses(Console& console, const TrainSummary& summary) {
  if (summary.skipped_samples > 0)
    console.line(fmt::format("bad samples            {} skipped{}",
                             format_count(double(summary.skipped_samples)),
                             summary.first_skipped.empty()
                                 ? std::string(" on other ranks")
                                 : "; the first: " + summary.first_skipped));
  if (summary.skipped_steps > 0)
    console.line(fmt::format("skipped steps          {}, not finite",
                             format_count(double(summary.skipped_steps))));
  if (summary.rollbacks > 0)
    console.line(fmt::format("rollbacks              {}", summary.rollbacks));
}

/// Where ranks differ: those that wait least and most; rank 0 may be the one the others wait for.
std::string exposed_of_ranks(const TrainSummary& summary) {
  if (summary.breakdowns.size() < 2) return {};
  const auto share = [](const RankTimeBreakdown& rank) {
    return rank.breakdown.share(TimePart::exchange);
  };
  const auto [least, most] = std::ranges::minmax_element(summary.breakdowns, {}, share);
  return fmt::format(" on rank 0; {:.1f}% on rank {} to {:.1f}% on rank {}",
                     100 * share(*least),
                     least->rank,
                     100 * share(*most),
                     most->rank);
}

void tell_speed(const Tell& tell, const TrainSummary& summary) {
  tell(fmt::format("speed                  {} samples/s", format_count(summary.samples_per_s)));
  tell(
      fmt::format("data                   {} samples/s could be loaded (workers a rank: {}); "
                  "training waited {:.1f}%",
                  format_count(summary.loader_samples_per_s),
                  summary.loader_workers,
                  100 * own_breakdown(summary).share(TimePart::data)));
}

/// What ranks had to do with each other.
void tell_ranks(const Tell& tell, const TrainSummary& summary) {
  // On a GPU the host waits for no exchange.
  const bool by_device = summary.device_steps > 0;
  const double exposed = by_device ? summary.device_times.share(DevicePart::exchange)
                                   : own_breakdown(summary).share(TimePart::exchange);
  const double steps = double(std::max<std::int64_t>(1, summary.steps));
  tell(fmt::format(
      "exposed communication  {} a step, {:.1f}% of it{}",
      milliseconds(1000 * exposed * summary.wall_s / steps),
      100 * exposed,
      by_device ? ", by rank 0's GPU's clock in logged steps" : exposed_of_ranks(summary)));
  tell("noise scale            " + summary.format_noise_scale);
  if (summary.slowest_rank >= 0)
    tell(fmt::format("slowest rank           {} ({}): {:.2f} times the median, in {}",
                     summary.slowest_rank,
                     summary.slowest_host,
                     summary.slowest_score,
                     summary.slowest_phase));
}

void tell_memory(const Tell& tell, const TrainSummary& summary) {
  std::string memory = fmt::format("memory                 planned {} (arena {})",
                                   format_bytes(double(summary.memory_planned_bytes)),
                                   format_bytes(double(summary.activation_bytes)));
  if (const auto below = double(summary.memory_baseline_bytes); below > 0)
    memory += fmt::format("; measured {} at most, above {} of program, libraries and mapped files",
                          format_bytes(std::max(0.0, double(summary.peak_memory_bytes) - below)),
                          format_bytes(below));
  tell(memory);
}

void tell_costs(const Tell& tell, const TrainSummary& summary) {
  tell_speed(tell, summary);
  tell_ranks(tell, summary);
  if (summary.checkpoints > 0)
    tell(fmt::format("checkpoints            {}; stall {:.2f}% of the time, {} at most",
                     summary.checkpoints,
                     100 * summary.checkpoint_stall_share,
                     milliseconds(summary.checkpoint_stall_ms)));
  tell_memory(tell, summary);
}

}  // namespace

std::vector<std::string> Progress::closing_lines(const TrainSummary&) const { return {}; }

void Progress::on_end(const TrainSummary& summary) {
  const bool brief = summary.wall_s < kBriefSeconds;
  print_result(state_->console, summary, brief);
  print_losses(state_->console, summary);
  const auto tell = [&](std::string_view line) {
    brief ? state_->console.copy_line(line) : state_->console.line(line);
  };
  tell_costs(tell, summary);
  for (const std::string& line : closing_lines(summary)) tell(line);
  state_->console.line(fmt::format("weights_sha256         {}", summary.weights_sha256));
}

}  // namespace lockstep
