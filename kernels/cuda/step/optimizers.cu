// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/range_table.cuh"
#include "kernels/cuda/step/flat.h"
#include "kernels/cuda/step/step_counters.cuh"
#include "kernels/cuda/step/step_outcome.cuh"

// Optimizer steps over many ranges of the flat space. A block takes one tile of a range; a thread
// updates four neighbouring elements at a time where addresses allow, each by the operations of the
// CPU's loop in their order, so that both give the same bits. Bytes an element: AdamW 28, SGD 12,
// with momentum 20, and 2 more (8 at a time) where the copy rounded to bf16 is written. Bound by
// memory. Where the step's outcome is bad every block ends at once.
namespace lockstep::cuda {
namespace {

constexpr std::int64_t kTile = 4096;

/// What all ranges share.
struct AdamwFactors {
  float* params;
  const float* grads;
  float* first_moment;
  float* second_moment;
  Bf16* rounded;
  float grad_scale, beta1, beta2, eps;
  const StepOutcome* outcome;
  LaunchCounters counters;
};

/// Calls `body(at, width)` for this thread's elements of the block's tile, `at` being their place
/// in the flat arrays; they start at multiples of 16 bytes where `aligned`.
template <typename Body>
__device__ inline void for_each_in_block(const RangeTable<FlatRange>::Place& place,
                                         bool aligned,
                                         Body body) {
  const FlatRange& range = place.range;
  const std::int64_t begin = place.tile * kTile, end = begin + kTile;
  for_each_in_tile(begin,
                   end < range.elems ? end : range.elems,
                   aligned && range.offset % Pack<float>::kElems == 0,
                   [&](std::int64_t i, auto width) { body(range.offset + i, width); });
}

template <bool has_momentum>
__global__ void sgd_kernel(const __grid_constant__ RangeTable<FlatRange> table,
                           SgdUpdate u,
                           LaunchCounters counters,
                           bool aligned) {
  if (forbids_updates(u.outcome)) return;
  const float grad_scale = grad_scale_of(u.outcome, u.grad_scale);
  const bool first = counters.first();
  const auto place = table.device_sharing_of(std::int32_t(blockIdx.x));
  const float lr = counters.lr() * place.range.lr_scale;
  for_each_in_block(place, aligned, [&](std::int64_t at, auto width) {
    constexpr int kWidth = decltype(width)::value;
    Floats<kWidth> p = load_floats<kWidth>(u.params + at);
    const Floats<kWidth> grad = load_floats<kWidth>(u.grads + at);
    Floats<kWidth> m{};
    if constexpr (has_momentum) m = load_floats<kWidth>(u.momentum_buffer + at);
    for (int i = 0; i < kWidth; ++i) {
      const float g = grad.values[i] * grad_scale + place.range.weight_decay * p.values[i];
      float direction = g;
      if constexpr (has_momentum) {
        m.values[i] = first ? g : u.momentum * m.values[i] + g;
        direction = u.nesterov ? g + u.momentum * m.values[i] : m.values[i];
      }
      p.values[i] = p.values[i] - lr * direction;
    }
    if constexpr (has_momentum) store_floats(u.momentum_buffer + at, m);
    store_floats(u.params + at, p);
    if (u.rounded) store_floats(reinterpret_cast<Bf16*>(u.rounded) + at, p);
  });
}

__global__ void adamw_kernel(const __grid_constant__ RangeTable<FlatRange> table,
                             AdamwFactors f,
                             bool aligned) {
  if (forbids_updates(f.outcome)) return;
  const float grad_scale = grad_scale_of(f.outcome, f.grad_scale);
  const auto place = table.device_sharing_of(std::int32_t(blockIdx.x));
  const double lr = double(f.counters.lr()) * double(place.range.lr_scale);
  const auto keep = float(1.0 - lr * double(place.range.weight_decay));
  const auto step_size = float(lr / f.counters.first_correction());
  const float inverse_root_correction = f.counters.root_correction();
  for_each_in_block(place, aligned, [&](std::int64_t at, auto width) {
    constexpr int kWidth = decltype(width)::value;
    Floats<kWidth> p = load_floats<kWidth>(f.params + at);
    const Floats<kWidth> grad = load_floats<kWidth>(f.grads + at);
    Floats<kWidth> m = load_floats<kWidth>(f.first_moment + at);
    Floats<kWidth> v = load_floats<kWidth>(f.second_moment + at);
    for (int i = 0; i < kWidth; ++i) {
      const float g = grad.values[i] * grad_scale;
      m.values[i] = f.beta1 * m.values[i] + (1.0f - f.beta1) * g;
      v.values[i] = f.beta2 * v.values[i] + (1.0f - f.beta2) * (g * g);
      const float divisor = sqrtf(v.values[i]) * inverse_root_correction + f.eps;
      p.values[i] = p.values[i] * keep - step_size * (m.values[i] / divisor);
    }
    store_floats(f.first_moment + at, m);
    store_floats(f.second_moment + at, v);
    store_floats(f.params + at, p);
    if (f.rounded) store_floats(f.rounded + at, p);
  });
}

}  // namespace

void sgd_update(const Device& device, const SgdUpdate& u, std::span<const FlatRange> ranges) {
  const bool aligned = aligned_to_packs(u.params, u.grads, u.momentum_buffer, u.rounded);
  LaunchCounters counters;
  counters.place = u.counters;
  counters.values = {.lr = u.lr, .first = u.first ? 1u : 0u};
  const auto kernel = u.momentum_buffer == nullptr ? sgd_kernel<false> : sgd_kernel<true>;
  for_each_table(ranges, kTile, [&](const RangeTable<FlatRange>& table) {
    launch("sgd_update",
           {.grid = dim3(unsigned(table.tiles()))},
           device.compute,
           kernel,
           table,
           u,
           counters,
           aligned);
  });
}

void adamw_update(const Device& device, const AdamwUpdate& u, std::span<const FlatRange> ranges) {
  const bool aligned =
      aligned_to_packs(u.params, u.grads, u.first_moment, u.second_moment, u.rounded);
  AdamwFactors factors{.params = u.params,
                       .grads = u.grads,
                       .first_moment = u.first_moment,
                       .second_moment = u.second_moment,
                       .rounded = reinterpret_cast<Bf16*>(u.rounded),
                       .grad_scale = u.grad_scale,
                       .beta1 = u.beta1,
                       .beta2 = u.beta2,
                       .eps = u.eps,
                       .outcome = u.outcome,
                       .counters = {}};
  factors.counters.place = u.counters;
  factors.counters.values = {.step = u.t - 1, .lr = u.lr};
  correct_bias(factors.counters.values, u.beta1, u.beta2);
  for_each_table(ranges, kTile, [&](const RangeTable<FlatRange>& table) {
    launch("adamw_update",
           {.grid = dim3(unsigned(table.tiles()))},
           device.compute,
           adamw_kernel,
           table,
           factors,
           aligned);
  });
}

}  // namespace lockstep::cuda
