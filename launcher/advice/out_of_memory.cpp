// SPDX-License-Identifier: Apache-2.0
#include "launcher/advice/out_of_memory.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <fmt/format.h>
#include <optional>

#include "core/base/env.h"
#include "core/base/text/number_format.h"
#include "core/exec/agreement.h"
#include "core/exec/gather_records.h"
#include "launcher/advice/memory_consumers.h"
#include "launcher/advice/memory_format.h"
#include "parallel/batch/batch_plan.h"
#include "parallel/replica/communicator_warmup.h"

namespace lockstep {
namespace {

/// More than there is, and little enough to be multiplied by a number of ranks.
constexpr std::uint64_t kUnlimited = std::uint64_t{1} << 50;
constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

/// Of the free memory, what may be gone when the proposed command runs.
constexpr std::uint64_t kNoiseShare = 64;
/// Of what was planned for and is not there, what a proposal saves at least.
constexpr std::uint64_t kSavedShare = 8;

constexpr std::size_t kMaxUsers = 4;
constexpr std::uint64_t kMinUser = 64 * kMiB;

std::uint64_t without_share(std::uint64_t bytes, std::uint64_t share) {
  return bytes - bytes / share;
}

/// Negative: so much is left.
double excess(std::uint64_t needed, const MemoryHeadroom& room) {
  return room.bytes ? double(needed) - double(*room.bytes) : -HUGE_VAL;
}

/// Not an Error: it must not be taken for advice that does not apply.
struct TooLate {};

/// As `request`, which throws TooLate when it is compiled after `deadline`.
PlanRequest until(PlanRequest request, std::chrono::steady_clock::time_point deadline) {
  request.model = [model = std::move(request.model), deadline](Builder& nn, Value input) {
    if (std::chrono::steady_clock::now() > deadline) throw TooLate{};
    return model(nn, input);
  };
  return request;
}

/// Why there is no fix within `target` and the limit of `request`.
std::string format_shortfall(const PlanRequest& request,
                             const MemoryTarget& target,
                             const MemoryAdvice& advice) {
  const MinMemory& least = *advice.least;
  const std::uint64_t limit = request.options.memory_limit;
  std::uint64_t needed = least.needed;
  std::uint64_t missing = needed - std::min(needed, target.bytes);
  if (limit > 0 && least.plan.limited_bytes > limit + missing) {
    needed = least.plan.limited_bytes;
    missing = needed - limit;
  }
  return fmt::format(
      "even a micro-batch of {} with full recompute, which takes the least, takes {}, {} too "
      "much; what would help: {} more memory, {}",
      least.micro_batch,
      format_bytes(double(needed)),
      format_bytes(double(missing)),
      format_bytes(double(missing)),
      format_other_settings(advice));
}

/// Under a launcher of its own, the program is not asked how many ranks there are.
std::string words_of(const MemoryFix& fix, const PlanRequest& request) {
  return format_memory_fix(fix, request.options.global_batch, env().started.has_value());
}

}  // namespace

TrainingMemory::TrainingMemory(RankContext& context, PlanRequest request, std::string model)
    : context_(context),
      request_(std::move(request)),
      model_(std::move(model)),
      own_(memory_headroom(
          context,
          bytes_of_collectives(
              context, request_.options, plan_batch(request_.options, request_.ranks)))),
      least_(least_headroom(context.host_communicator(), own_)) {}

MemoryTarget TrainingMemory::headroom_target() const { return target_in(least_); }

MemoryTarget TrainingMemory::target_in(const MemoryHeadroom& room) const {
  return {.bytes = room.bytes.value_or(kUnlimited),
          .host = request_.on_host,
          .colocated_ranks = room.colocated_ranks};
}

MemoryPlan TrainingMemory::require_headroom() const {
  MemoryPlan plan;
  std::uint64_t own_need = 0;  // of its own plan in its own room
  std::exception_ptr over_limit;
  try {
    plan = plan_memory(context_.backend(), request_);
    // Of a GPU that ranks share, what is gone is not this one's alone.
    if (!request_.on_host && own_.colocated_ranks > 1)
      plan.table[MemoryCategory::context] = std::nullopt;
    own_need = target_in(own_).needed(plan.table);
  } catch (const OutOfMemory&) {
    over_limit = std::current_exception();
  }
  Communicator& ranks = context_.host_communicator();
  const int over = first_rank(ranks, over_limit != nullptr);
  if (over >= 0) {
    const MemoryHeadroom there = headroom_of_rank(ranks, own_, over);
    if (over_limit) std::rethrow_exception(over_limit);
    // Unlike kernels: what they want need not be the same everywhere.
    throw ExplainedOutOfMemory(
        fmt::format("memory: {} exceeds the --memory-limit on rank {}", model_, over),
        "see the message of that rank: its kernels take more memory than those of others",
        {},
        {over, there.host});
  }
  const double own_excess = excess(own_need, own_), most = largest(ranks, own_excess);
  if (most <= 0) return plan;
  const int tightest = first_rank(ranks, own_excess == most);
  const MemoryHeadroom room = headroom_of_rank(ranks, own_, tightest);
  const std::uint64_t needed = record_of_rank(ranks, own_need, tightest);
  MemoryTarget target = target_in(room);
  target.more = needed - std::min(needed, target.needed(plan.table));
  throw ExplainedOutOfMemory(
      fmt::format("memory: {} takes {} ({} bytes) of a rank, {} more than the headroom: "
                  "{}",
                  model_,
                  format_bytes(double(needed)),
                  needed,
                  format_bytes(double(needed - *room.bytes)),
                  to_string(room)),
      headroom_hint(request_, target),
      details(plan, room),
      {room.rank, room.host});
}

std::string TrainingMemory::headroom_hint(const PlanRequest& request,
                                          const MemoryTarget& target) const {
  MemoryTarget cautious = target;
  cautious.bytes = without_share(target.bytes, kNoiseShare);
  MemoryAdvice advice = advise(context_.backend(), request, cautious);
  if (!advice.fix && advice.least->needed <= target.bytes)
    advice = advise(context_.backend(), request, target);
  return advice.fix ? words_of(*advice.fix, request) : format_shortfall(request, target, advice);
}

/// What to do about an error that something has thrown which was planned as `plan`.
std::string TrainingMemory::hint_for(const PlanRequest& request,
                                     const MemoryPlan& plan,
                                     const std::string& otherwise) const {
  // The plan is equal on all ranks, so that the one with the least room is the tightest.
  const std::uint64_t needed = target_in(least_).needed(plan.table);
  const std::uint64_t limit = request.options.memory_limit;
  const bool over_limit = limit > 0 && plan.limited_bytes > limit;
  if (over_limit || excess(needed, least_) > 0) return headroom_hint(request, target_in(least_));
  // There seemed to be room: how much is missing is not known.
  MemoryTarget target = target_in(own_);
  target.bytes = without_share(needed, kSavedShare);
  const MemoryAdvice advice = advise(context_.backend(), request, target);
  return advice.fix ? words_of(*advice.fix, request) : otherwise;
}

std::string TrainingMemory::details(const MemoryPlan& plan, const MemoryHeadroom& room) const {
  std::string text = "  memory of rank 0 as planned\n";
  text += format_memory_table(plan.table, {.on_host = request_.on_host});
  text += fmt::format("  free at the start      {}\n", to_string(room));
  if (room.kept > 0)
    text += fmt::format("                         and {} that stay free for {}\n",
                        format_bytes(double(room.kept)),
                        request_.on_host ? "memory outside the plan" : "collectives");
  const DeviceMemory now = context_.backend().memory();
  if (now.free)
    text += fmt::format("  free now               {} of {}{}\n",
                        format_bytes(double(*now.free)),
                        format_bytes(double(now.total)),
                        now.own ? fmt::format(", and {} of this process's address space",
                                              format_bytes(double(*now.own)))
                                : "");
  const std::vector<MemoryConsumer> users =
      request_.on_host ? largest_processes(kMaxUsers, kMinUser, context_.size() == 1)
                       : gpu_processes(now.pool);
  return text + fmt::format("  others there           {}\n",
                            users.empty() ? "none that holds much of it" : to_string(users));
}

void TrainingMemory::rethrow_explained() const {
  try {
    throw;
  } catch (const ExplainedOutOfMemory&) {
    throw;
  } catch (const OutOfMemory& error) {
    const auto* const known = dynamic_cast<const FaultingRank*>(&error);
    std::optional<ExplainedOutOfMemory> explained;
    try {
      using Clock = std::chrono::steady_clock;
      const bool alone = context_.size() == 1;
      const PlanRequest bounded =
          until(request_, alone ? Clock::time_point::max() : Clock::now() + kAdviceTime);
      const MemoryPlan plan = plan_min_memory(context_.backend(), bounded);
      std::string hint = error.hint();
      try {
        hint = hint_for(bounded, plan, error.hint());
      } catch (const TooLate&) {
      }
      explained.emplace(error.what(), hint, details(plan, own_), known ? *known : FaultingRank{});
    } catch (...) {
      // Without memory for that, or with a device that is lost, what is known must do.
    }
    if (explained) throw *explained;
    throw;
  }
}

}  // namespace lockstep
