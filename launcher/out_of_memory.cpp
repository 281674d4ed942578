// SPDX-License-Identifier: Apache-2.0
#include "launcher/out_of_memory.h"

#include <algorithm>
#include <fmt/format.h>

#include "core/base/bytes_words.h"
#include "core/base/env.h"
#include "launcher/memory_text.h"
#include "launcher/memory_users.h"

namespace lockstep {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

/// Of the free memory, what may be gone when the proposed command runs.
constexpr std::uint64_t kNoiseShare = 64;
/// Of what was planned for and is not there, what a proposal saves at least.
constexpr std::uint64_t kSavedShare = 8;

constexpr std::size_t kMostUsers = 4;
constexpr std::uint64_t kLeastUser = 64 * kMiB;

std::uint64_t without_share(std::uint64_t bytes, std::uint64_t share) {
  return bytes - bytes / share;
}

}  // namespace

TrainingMemory::TrainingMemory(RankContext& context, PlanRequest request, std::string model)
    : context_(context),
      request_(std::move(request)),
      model_(std::move(model)),
      room_(memory_room(context)) {}

MemoryTarget TrainingMemory::room_target() const {
  MemoryTarget target{.bytes = room_.bytes.value_or(~std::uint64_t{0}),
                      .host = request_.on_host,
                      .sharers = room_.sharers};
  target.snapshot_sharers = room_.sharers > 1 || room_.rank == 0 ? room_.sharers : 0;
  return target;
}

void TrainingMemory::require_room() const {
  const MemoryPlan plan = plan_memory(context_.backend(), request_);
  if (!room_.bytes) return;
  MemoryTarget target = room_target();
  const std::uint64_t needed = target.needed(plan.table);
  if (needed <= target.bytes) return;
  target.bytes = without_share(target.bytes, kNoiseShare);
  throw ExplainedOutOfMemory(
      fmt::format("memory: {} takes {} ({} bytes) of a rank, {} more than the room that there is: "
                  "{}",
                  model_,
                  bytes_words(double(needed)),
                  needed,
                  bytes_words(double(needed - *room_.bytes)),
                  to_string(room_)),
      hint(target),
      details(plan),
      {room_.rank, room_.host});
}

/// What to do about `error`, which something has thrown that was planned as `plan`.
std::string TrainingMemory::hint_for(const OutOfMemory& error, const MemoryPlan& plan) const {
  const std::uint64_t limit = request_.options.memory_limit;
  if (limit > 0 && plan.limited_bytes > limit) return hint({.bytes = limit});
  MemoryTarget target = room_target();
  const std::uint64_t needed = target.needed(plan.table);
  if (room_.bytes && needed > target.bytes) return hint(target);
  // There seemed to be room: how much is missing is not known.
  target.bytes = without_share(needed, kSavedShare);
  return hint(target, error.hint());
}

std::string TrainingMemory::details(const MemoryPlan& plan) const {
  std::string text = "  memory of rank 0 as planned\n";
  text += memory_table_text(plan.table, {.on_host = request_.on_host});
  text += fmt::format("  free at the start      {}\n", to_string(room_));
  if (room_.kept > 0)
    text += fmt::format("                         and {} that stay free for what no plan counts\n",
                        bytes_words(double(room_.kept)));
  const DeviceMemory now = context_.backend().memory();
  if (now.free)
    text += fmt::format("  free now               {} of {}{}\n",
                        bytes_words(double(*now.free)),
                        bytes_words(double(now.total)),
                        now.own ? fmt::format(", and {} of this process's address space",
                                              bytes_words(double(*now.own)))
                                : "");
  const std::vector<MemoryUser> users =
      request_.on_host ? largest_processes(kMostUsers, kLeastUser, context_.size() == 1)
                       : gpu_processes(now.pool);
  return text + fmt::format("  others there           {}\n",
                            users.empty() ? "nobody who holds much of it" : to_string(users));
}

std::string TrainingMemory::hint(const MemoryTarget& target, const std::string& otherwise) const {
  const MemoryAdvice advice = advise(context_.backend(), request_, target);
  // Under a launcher of its own, the program is not asked how many ranks there are.
  if (advice.fix)
    return fix_words(*advice.fix, request_.options.global_batch, env().started.has_value());
  if (!otherwise.empty()) return otherwise;
  const LeastMemory& least = *advice.least;
  const std::uint64_t missing = least.needed - std::min(least.needed, target.bytes);
  return fmt::format(
      "even a micro-batch of {} with full recompute, which takes the least, takes {}, {} too "
      "much; what would help: {} more memory, {}",
      least.micro_batch,
      bytes_words(double(least.needed)),
      bytes_words(double(missing)),
      bytes_words(double(missing)),
      other_words(advice));
}

void TrainingMemory::rethrow_explained() const {
  try {
    throw;
  } catch (const ExplainedOutOfMemory&) {
    throw;
  } catch (const OutOfMemory& error) {
    const auto* const known = dynamic_cast<const Culprit*>(&error);
    std::optional<ExplainedOutOfMemory> explained;
    try {
      const MemoryPlan plan = plan_least(context_.backend(), request_);
      explained.emplace(
          error.what(), hint_for(error, plan), details(plan), known ? *known : Culprit{});
    } catch (...) {
      // Without memory for that, or with a device that is lost, what is known must do.
    }
    if (explained) throw *explained;
    throw;
  }
}

}  // namespace lockstep
