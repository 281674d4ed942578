// SPDX-License-Identifier: Apache-2.0
#include "parallel/memory/micro_batch_timer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "core/data/augment/mix.h"
#include "core/exec/agreement.h"
#include "lockstep/batch_plan.h"
#include "lockstep/data/loader.h"
#include "lockstep/error.h"
#include "parallel/replica/program_set.h"

namespace lockstep {
namespace {

/// A run as short as the clock's own noise is repeated for so long; a long one says enough alone.
constexpr double kSeconds = 0.15, kSecondsOfOne = 1;
constexpr int kMinRuns = 3, kMaxRuns = 100;

template <typename Run>
double median(int runs, const Run& run) {
  std::vector<double> seconds;
  for (int i = 0; i < runs; ++i) seconds.push_back(run());
  std::ranges::nth_element(seconds, seconds.begin() + runs / 2);
  return seconds[std::size_t(runs / 2)];
}

class Zeros final : public data::Dataset {
 public:
  explicit Zeros(const data::SampleSpec& spec) : spec_(spec) {}
  const data::SampleSpec& spec() const override { return spec_; }
  std::int64_t size() const override { return 1; }
  void load(std::uint64_t /*epoch*/,
            std::int64_t /*index*/,
            std::byte* input,
            std::byte* target) const override {
    std::memset(input, 0, spec_.input.bytes());
    std::memset(target, 0, spec_.target.bytes());
  }
  std::string describe() const override { return "zeros"; }
  std::uint64_t fingerprint() const override { return 0; }

 private:
  data::SampleSpec spec_;
};

/// What training computes with.
data::SampleSpec training_samples(const PlanRequest& request) {
  data::SampleSpec spec = request.data.train->spec();
  spec.target = data::target_type(spec, request.options.augmentation);
  return spec;
}

/// One micro-batch that is computed again and again.
class TimedProgram {
 public:
  TimedProgram(RankContext& context, const PlanRequest& request, const BatchPlan& batch)
      : device_(context.backend()),
        programs_(context,
                  request.model,
                  request.loss,
                  request.data.train->spec(),
                  request.options,
                  batch,
                  {}),
        program_(programs_.training(batch.micro_batch)),
        loader_(std::make_shared<Zeros>(training_samples(request)),
                {.workers = 0, .slots = 2, .micro_batch = batch.micro_batch},
                [samples = std::size_t(batch.micro_batch)](data::LoadRequest& asked) {
                  asked.samples.assign(samples, 0);
                  return true;
                }),
        input_bytes_(std::size_t(batch.micro_batch) * request.data.train->spec().input.bytes()),
        target_bytes_(std::size_t(batch.micro_batch) * training_samples(request).target.bytes()) {
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
    const data::LoadedBatch loaded = loader_.next();
    constexpr float kNoWeight = 0;
    device_.copy_to_device(program_.x, loaded.input, input_bytes_);
    device_.copy_to_device(program_.target, loaded.target, target_bytes_);
    device_.copy_to_device(program_.sample_weight, &kNoWeight, sizeof kNoWeight);
    if (program_.teacher != nullptr)
      programs_.teacher()->run(program_.samples, program_.x, program_.x_bytes, program_.teacher);
    const RunState state{.accumulate = true, .group = group_.get()};
    program_.program->run_forward(state);
    program_.program->run_backward(state);
    device_.synchronize();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  /// A shard that is added to another, as most are; the gradients are zeros.
  double add_up() {
    const auto begin = std::chrono::steady_clock::now();
    float* const gradients = programs_.gradients();
    device_.add(
        gradients, gradients, programs_.parameters(), programs_.compiled().gradients().elems());
    device_.synchronize();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

 private:
  Backend& device_;
  ProgramSet programs_;
  const BoundProgram& program_;
  data::Loader loader_;
  std::size_t input_bytes_, target_bytes_;
  std::unique_ptr<Communicator> group_;
};

}  // namespace

std::optional<MicroBatchTime> time_micro_batch(RankContext& context,
                                               const PlanRequest& request,
                                               const BatchPlan& batch) {
  Communicator& ranks = context.host_communicator();
  std::optional<TimedProgram> program;
  try {
    program.emplace(context, request, batch);
  } catch (const OutOfMemory&) {
    // The others have to learn of it.
  }
  if (!all_ranks(ranks, program.has_value())) return std::nullopt;
  program->form_groups(context, batch);
  program->run();  // kernels are made ready, pages come in
  ranks.barrier();
  const double once = largest(ranks, program->run());
  const int runs =
      once > kSecondsOfOne
          ? 1
          : int(std::clamp(std::ceil(kSeconds / once), double(kMinRuns), double(kMaxRuns)));
  ranks.barrier();
  const double compute = runs == 1 ? once : median(runs, [&] { return program->run(); });
  const double sum = median(kMinRuns, [&] { return program->add_up(); });
  return MicroBatchTime{largest(ranks, compute), largest(ranks, sum)};
}

}  // namespace lockstep
