// SPDX-License-Identifier: Apache-2.0
#include "launcher/commands/auto_micro_batch.h"

#include <algorithm>
#include <charconv>
#include <fmt/ranges.h>

#include "core/base/check.h"
#include "core/base/text/number_format.h"
#include "parallel/memory/micro_batch_choice.h"
#include "parallel/training/resume.h"

namespace lockstep {
namespace {

std::string setting(const ResumePoint& point, const std::string& key) {
  for (const auto& [name, value] : point.state.settings)
    if (name == key) return value;
  throw DataError(fmt::format("{}: its settings have no {}", point.record.path, key),
                  "give --micro-batch as a number");
}

std::uint64_t number(const ResumePoint& point, const std::string& key) {
  const std::string text = setting(point, key);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  LOCKSTEP_CHECK(error == std::errc() && end == text.data() + text.size(),
                 DataError,
                 "{}: its {} is '{}', not a number",
                 point.record.path,
                 key,
                 text);
  return value;
}

/// Bits depend on the micro-batch: a resumed run keeps its own.
std::string take_from(const ResumePoint& point, TrainOptions& options) {
  options.micro_batch = std::int64_t(number(point, "micro-batch"));
  if (options.recompute != Recompute::all && setting(point, "recompute") == "auto") {
    options.recompute = Recompute::automatic;
    // The room may have been the tighter one.
    const std::uint64_t saved = number(point, "memory-limit");
    options.memory_limit =
        options.memory_limit == 0 ? saved : std::min(options.memory_limit, saved);
  }
  return fmt::format("micro-batch auto: {}, as the run had before", options.micro_batch);
}

std::string words_of(const MicroBatchChoice& choice) {
  std::string text = fmt::format("micro-batch auto: {}", choice.micro_batch);
  std::vector<std::string> measured;
  for (const MicroBatchTrial& trial : choice.trials)
    if (trial.step_seconds)
      measured.push_back(
          fmt::format("{:.3g} ms with {}", 1000 * *trial.step_seconds, trial.micro_batch));
  text += fmt::format("; forward and backward of a step take {}", fmt::join(measured, ", "));
  const auto too_large =
      std::ranges::find_if_not(choice.trials, &MicroBatchTrial::fits);  // the smallest
  if (too_large != choice.trials.end())
    text += fmt::format("; {} would take {}",
                        too_large->micro_batch,
                        format_bytes(double(too_large->device_bytes)));
  if (choice.recompute == Recompute::automatic)
    text +=
        fmt::format("; with --recompute auto for {}", format_bytes(double(choice.memory_limit)));
  return text;
}

}  // namespace

std::string resolve_micro_batch(Job& job,
                                const PlanRequest& request,
                                const MemoryTarget& room,
                                TrainFlags& flags) {
  TrainOptions& options = flags.options;
  const auto point = find_resume_point(job.host_communicator(), request.options.checkpoint);
  if (point) return take_from(*point, options);
  PlanRequest open = request;
  open.options.micro_batch = 0;
  const MicroBatchChoice choice = choose_micro_batch(job, open, room);
  options.micro_batch = choice.micro_batch;
  options.recompute = choice.recompute;
  if (choice.recompute == Recompute::automatic) options.memory_limit = choice.memory_limit;
  return words_of(choice);
}

}  // namespace lockstep
