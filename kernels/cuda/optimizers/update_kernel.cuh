// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/optimizers/optimizer_kernels.h"
#include "kernels/cuda/range_table.cuh"
#include "kernels/cuda/step/step_counters.cuh"
#include "kernels/cuda/step/step_outcome.cuh"

/// The kernel of every optimizer: a step over many ranges of the flat space. A block takes one tile
/// of a range; a thread updates four neighbouring elements at a time where addresses allow. Bound
/// by memory: an element reads and writes its parameter and each state array once (fp32) and reads
/// its gradient, so 12 bytes and 8 more for each array, and 2 more where the copy rounded to bf16
/// is written. Where the step's outcome is bad every block ends at once.
///
/// An optimizer is a rule of one element:
///
///     struct Rule {
///       static constexpr int kState;  // arrays of state
///       // Called first, by every thread: sets what elements of the range have in common.
///       __device__ void enter(const FlatRange& range, const LaunchCounters& counters);
///       // The new parameter. `grad` is scaled; `state[i]` is read and written.
///       __device__ float update(float param, float grad, float* state) const;
///     };
///
/// One of a phase that knows tensors (Note [Phases of an update]) takes their facts as well, and
/// scales the gradient itself, which may be a direction:
///
///       __device__ void enter(const FlatRange&, const LaunchCounters&, const TensorFacts&);
///
/// and one that writes directions has `float direction(float param, float grad, float* state)
/// const` instead of update(), whose result is stored in place of the gradient.
///
/// Its operations are those of the CPU's kernel in their order, so that both give the same bits.
namespace lockstep::cuda {

inline constexpr std::int64_t kUpdateTile = 4096;

/// What all optimizers' kernels are given.
struct UpdateArguments {
  float* params;
  float* grads;
  float* state[kMaxOptimizerState];
  Bf16* rounded;
  float grad_scale;
  bool aligned;  ///< the arrays start at multiples of 16 bytes
  const StepOutcome* outcome;
  LaunchCounters counters;
  const double* weight_norms;  ///< squared, by FlatRange::tensor; null: none
  const double* direction_norms;
  const double* tensor_elems;
};

/// What a rule may ask of the tensor that a range is of.
struct TensorFacts {
  float grad_scale = 1;
  bool is_tensor = false;  ///< FlatRange::tensor is one
  double weight_norm = 0, direction_norm = 0;
  double elems = 0;  ///< of the whole tensor
};

template <typename Rule>
concept KnowsTensors = requires(Rule rule, FlatRange range, LaunchCounters counters) {
  rule.enter(range, counters, TensorFacts{});
};
template <typename Rule>
concept WritesDirections = requires(const Rule rule) {
  rule.direction(0.0f, 0.0f, nullptr);
};

__device__ inline TensorFacts tensor_facts(const UpdateArguments& u, const FlatRange& range) {
  TensorFacts facts;
  facts.grad_scale = grad_scale_of(u.outcome, u.grad_scale);
  facts.is_tensor = range.tensor >= 0;
  if (facts.is_tensor && u.weight_norms != nullptr)
    facts.weight_norm = sqrt(u.weight_norms[range.tensor]);
  if (facts.is_tensor && u.direction_norms != nullptr)
    facts.direction_norm = sqrt(u.direction_norms[range.tensor]);
  if (facts.is_tensor && u.tensor_elems != nullptr) facts.elems = u.tensor_elems[range.tensor];
  return facts;
}

template <typename Rule>
__global__ void update_kernel(const __grid_constant__ RangeTable<FlatRange> table,
                              const __grid_constant__ UpdateArguments u,
                              Rule rule) {
  wait_for_earlier_work();
  if (forbids_updates(u.outcome)) return;
  const float grad_scale = KnowsTensors<Rule> ? 1.0f : grad_scale_of(u.outcome, u.grad_scale);
  const auto place = table.place_of(std::int32_t(blockIdx.x));
  const FlatRange& range = place.range;
  if constexpr (KnowsTensors<Rule>)
    rule.enter(range, u.counters, tensor_facts(u, range));
  else
    rule.enter(range, u.counters);
  constexpr int kState = Rule::kState, kSlots = kState > 0 ? kState : 1;
  const std::int64_t begin = place.tile * kUpdateTile, end = begin + kUpdateTile;
  for_each_in_tile(
      begin,
      end < range.elems ? end : range.elems,
      u.aligned && range.offset % Pack<float>::kElems == 0,
      [&](std::int64_t i, auto width) {
        constexpr int kWidth = decltype(width)::value;
        const std::int64_t at = range.offset + i;
        Floats<kWidth> p = load_floats<kWidth>(u.params + at);
        Floats<kWidth> grad = load_floats<kWidth>(u.grads + at);
        Floats<kWidth> state[kSlots];
#pragma unroll
        for (int s = 0; s < kState; ++s) state[s] = load_floats<kWidth>(u.state[s] + at);
#pragma unroll
        for (int k = 0; k < kWidth; ++k) {
          float of_element[kSlots];
#pragma unroll
          for (int s = 0; s < kState; ++s) of_element[s] = state[s].values[k];
          if constexpr (WritesDirections<Rule>)
            grad.values[k] = rule.direction(p.values[k], grad.values[k] * grad_scale, of_element);
          else
            p.values[k] = rule.update(p.values[k], grad.values[k] * grad_scale, of_element);
#pragma unroll
          for (int s = 0; s < kState; ++s) state[s].values[k] = of_element[s];
        }
#pragma unroll
        for (int s = 0; s < kState; ++s) store_floats(u.state[s] + at, state[s]);
        if constexpr (WritesDirections<Rule>) {
          store_floats(u.grads + at, grad);
        } else {
          store_floats(u.params + at, p);
          if (u.rounded) store_floats(u.rounded + at, p);
        }
      });
}

/// Enqueues the kernel of `rule`; `name`: a literal, the kernel's in errors.
template <typename Rule>
void launch_update(const char* name,
                   const Device& device,
                   const Rule& rule,
                   const OptimizerUpdate& update,
                   std::span<const FlatRange> ranges) {
  UpdateArguments arguments{
      .params = update.params,
      .grads = update.grads,
      .state = {},
      .rounded = reinterpret_cast<Bf16*>(update.rounded),
      .grad_scale = update.grad_scale,
      .aligned = aligned_to_packs(update.params, update.grads, update.rounded),
      .outcome = update.outcome,
      .counters = {},
      .weight_norms = update.weight_norms,
      .direction_norms = update.direction_norms,
      .tensor_elems = update.tensor_elems};
  for (int s = 0; s < Rule::kState; ++s) {
    arguments.state[s] = update.state[std::size_t(s)];
    arguments.aligned = arguments.aligned && aligned_to_packs(arguments.state[s]);
  }
  arguments.counters.place = update.counters;
  // One by one: the front end of nvcc 13.5 loses designators that are assigned in a template.
  StepCounters& values = arguments.counters.values;
  values.step = update.step;
  values.scalars = step_scalars(update.optimizer, update.step);
  values.lr = update.lr;
  for_each_table(ranges, kUpdateTile, [&](const RangeTable<FlatRange>& table) {
    launch(name,
           {.grid = dim3(unsigned(table.tiles()))},
           device.compute,
           update_kernel<Rule>,
           table,
           arguments,
           rule);
  });
}

}  // namespace lockstep::cuda
