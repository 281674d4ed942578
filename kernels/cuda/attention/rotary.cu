// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/ops/rotary.h"
#include "kernels/cuda/bound_kernel.h"
#include "kernels/cuda/group_access.cuh"
#include "kernels/cuda/kernel_list.h"

// A thread turns a group of neighbouring pairs of one head of one token, or copies as many columns
// of the values, and walks on by the grid. Angles are computed where they are used (Note [Phases of
// rotary positions]): about 30 instructions a pair of 8 to 16 bytes; the phases travel as arguments
// of the launch. Bytes: each tensor once. Bound by memory.
namespace lockstep::cuda {
namespace {

constexpr std::int64_t kMaxPairs = ops::kMaxRotaryDepth / 2;

/// Of qkv, and of queries, keys and values apart.
template <typename T>
struct RotaryArgs {
  const T* from[3] = {};  // where each part's first head begins
  T* to[3] = {};
  std::int64_t from_row = 0, to_row = 0;  // elements between tokens; 0: those of the part
  std::int64_t samples = 0, tokens = 0, heads = 0, kv_heads = 0, depth = 0;
  float direction = 1;  // -1: turns back
  std::uint64_t phases[kMaxPairs] = {};
};

template <typename T, int N>
__global__ void rotary_kernel(const __grid_constant__ RotaryArgs<T> a) {
  wait_for_earlier_work();
  const std::int64_t pairs = a.depth / 2, groups = pairs / N;
  const std::int64_t heads = a.heads + 2 * a.kv_heads,
                     items = a.samples * a.tokens * heads * groups;
  for (std::int64_t item = global_thread(); item < items; item += all_threads()) {
    const std::int64_t pair = item % groups * N, number = item / groups % heads;
    const std::int64_t row = item / groups / heads;
    const int part = number < a.heads ? 0 : number < a.heads + a.kv_heads ? 1 : 2;
    const std::int64_t head = part == 0 ? number : (number - a.heads) % a.kv_heads;
    const std::int64_t width = (part == 0 ? a.heads : a.kv_heads) * a.depth;
    const std::int64_t column = head * a.depth + pair;
    const T* const from = a.from[part] + row * (a.from_row > 0 ? a.from_row : width) + column;
    T* const to = a.to[part] + row * (a.to_row > 0 ? a.to_row : width) + column;
    Floats<N> x = load_floats<N>(from), y = load_floats<N>(from + pairs);
    if (part < 2) {
      const auto position = std::uint64_t(row % a.tokens);
      for (int i = 0; i < N; ++i) {
        const ops::Rotation turn = ops::rotation_of(a.phases[pair + i] * position);
        const float sine = a.direction * turn.sine, first = x.values[i], second = y.values[i];
        x.values[i] = first * turn.cosine - second * sine;
        y.values[i] = second * turn.cosine + first * sine;
      }
    }
    store_floats(to, x);
    store_floats(to + pairs, y);
  }
}

template <typename T>
class RotaryKernel final : public BoundKernel {
 public:
  RotaryKernel(const ops::RotaryAttrs& attrs,
               bool backward,
               const KernelSpec& spec,
               const Device& device)
      : BoundKernel(device), backward_(backward) {
    const TensorType& packed = backward ? spec.inputs[0] : spec.outputs[0];
    args_.samples = packed.shape[0];
    args_.tokens = packed.shape[1];
    args_.heads = attrs.heads;
    args_.kv_heads = attrs.kv_heads;
    args_.depth = attrs.depth_of(packed);
    args_.direction = backward ? -1.0f : 1.0f;
    (backward ? args_.from_row : args_.to_row) = packed.shape[2];
    std::ranges::copy(ops::rotary_phases(attrs.positions, args_.depth), args_.phases);
  }

  void run(const RunState&) override {
    RotaryArgs<T> args = args_;
    const std::int64_t before[] = {
        0, args.heads * args.depth, (args.heads + args.kv_heads) * args.depth};
    for (std::size_t i = 0; i < 3; ++i) {
      args.from[i] = backward_ ? input<T>(0) + before[i] : input<T>(i);
      args.to[i] = backward_ ? output<T>(i) : output<T>(0) + before[i];
    }
    with_width<T>(args.depth / 2, [&](auto width) {
      constexpr int kWidth = decltype(width)::value;
      const std::int64_t heads = args.heads + 2 * args.kv_heads;
      launch(backward_ ? "rotary_bwd" : "rotary",
             cover(args.samples * args.tokens * heads * (args.depth / 2 / kWidth)),
             stream(),
             rotary_kernel<T, kWidth>,
             args);
    });
  }

 private:
  bool backward_;
  RotaryArgs<T> args_;
};

}  // namespace

std::unique_ptr<Kernel> make_rotary_kernel(const ops::Rotary& op,
                                           const KernelSpec& spec,
                                           const Device& device) {
  return make_stored<RotaryKernel>(spec.inputs[0].dtype, op.attrs(), false, spec, device);
}

std::unique_ptr<Kernel> make_rotary_bwd_kernel(const ops::RotaryBwd& op,
                                               const KernelSpec& spec,
                                               const Device& device) {
  return make_stored<RotaryKernel>(spec.inputs[0].dtype, op.attrs(), true, spec, device);
}

}  // namespace lockstep::cuda
