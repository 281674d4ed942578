// SPDX-License-Identifier: Apache-2.0
#include "parallel/micro_batch_timer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <vector>

#include "core/base/error.h"
#include "parallel/batch_plan.h"
#include "parallel/program_set.h"

namespace lockstep {
namespace {

/// A run as short as the clock's own noise is repeated for so long; a long one says enough alone.
constexpr double kSeconds = 0.15, kSecondsOfOne = 1;
constexpr int kFewestRuns = 3, kMostRuns = 100;

double most_over_ranks(Communicator& communicator, double own) {
  std::vector<double> all(std::size_t(communicator.size()));
  communicator.all_gather(&own, all.data(), sizeof own);
  return *std::ranges::max_element(all);
}

/// One micro-batch that is computed again and again.
class TimedProgram {
 public:
  TimedProgram(RankContext& context, const PlanRequest& request, const BatchPlan& batch)
      : device_(context.backend()),
        programs_(device_,
                  request.model,
                  request.loss,
                  request.data.train->spec(),
                  request.options,
                  batch,
                  {}),
        program_(programs_.training(batch.micro_batch)),
        zeros_(std::size_t(batch.micro_batch) *
               std::max(request.data.train->spec().input.bytes(),
                        request.data.train->spec().target.bytes())),
        input_bytes_(std::size_t(batch.micro_batch) * request.data.train->spec().input.bytes()),
        target_bytes_(std::size_t(batch.micro_batch) * request.data.train->spec().target.bytes()) {
    programs_.set_position(&context.position());
    programs_.packed().invalidate();
  }

  /// Collective, where ranks form batch-norm groups.
  void form_groups(RankContext& context, const BatchPlan& batch) {
    if (batch.cluster > 1)
      group_ = context.communicator().split(context.rank() / batch.cluster,
                                            context.rank() % batch.cluster);
  }

  double run() {
    const auto begin = std::chrono::steady_clock::now();
    // The arena has written over the last ones.
    device_.copy_to_device(program_.x, zeros_.data(), input_bytes_);
    device_.copy_to_device(program_.target, zeros_.data(), target_bytes_);
    device_.copy_to_device(program_.sample_weight, zeros_.data(), sizeof(float));
    const RunState state{.accumulate = true, .group = group_.get()};
    program_.program->run_forward(state);
    program_.program->run_backward(state);
    device_.synchronize();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

 private:
  Backend& device_;
  ProgramSet programs_;
  const BoundProgram& program_;
  std::vector<std::byte> zeros_;
  std::size_t input_bytes_, target_bytes_;
  std::unique_ptr<Communicator> group_;
};

}  // namespace

std::optional<double> time_micro_batch(RankContext& context, const PlanRequest& request) {
  Communicator& ranks = context.host_communicator();
  const BatchPlan batch = plan_batch(request.options, request.ranks);
  std::optional<TimedProgram> program;
  try {
    program.emplace(context, request, batch);
  } catch (const OutOfMemory&) {
    // The others have to learn of it.
  }
  if (most_over_ranks(ranks, program ? 0 : 1) > 0) return std::nullopt;
  program->form_groups(context, batch);
  program->run();  // kernels are made ready, pages come in
  ranks.barrier();
  const double once = most_over_ranks(ranks, program->run());
  if (once > kSecondsOfOne) return once;
  const int runs =
      int(std::clamp(std::ceil(kSeconds / once), double(kFewestRuns), double(kMostRuns)));
  std::vector<double> seconds;
  ranks.barrier();
  for (int i = 0; i < runs; ++i) seconds.push_back(program->run());
  std::ranges::nth_element(seconds, seconds.begin() + runs / 2);
  return most_over_ranks(ranks, seconds[std::size_t(runs / 2)]);
}

}  // namespace lockstep
