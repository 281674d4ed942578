// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/attention/rotary.h"

#include <memory>
#include <vector>

#include "core/ops/rotary.h"
#include "kernels/cpu/bound_kernel.h"
#include "kernels/cpu/kernel_list.h"

namespace lockstep::cpu {
namespace {

/// Rotary and its gradient: `backward` unpacks. Cosines and sines are computed for one token of all
/// samples at a time, a small part of what their heads take, rather than kept in memory that no
/// plan knows.
template <typename T>
class RotaryKernel final : public BoundKernel {
 public:
  RotaryKernel(const ops::RotaryAttrs& attrs, bool backward, const KernelSpec& spec)
      : backward_(backward),
        heads_(attrs.heads),
        kv_heads_(attrs.kv_heads),
        packed_(backward ? spec.inputs[0] : spec.outputs[0]),
        depth_(attrs.depth_of(packed_)),
        phases_(ops::rotary_phases(attrs.positions, depth_)) {}

  void run(const RunState&) override {
    float cosines[ops::kMaxRotaryDepth / 2], sines[ops::kMaxRotaryDepth / 2];
    RotaryArgs<T> args{.samples = packed_.shape[0],
                       .tokens = packed_.shape[1],
                       .pairs = depth_ / 2,
                       .cosines = cosines,
                       .sines = sines};
    const std::int64_t row = packed_.shape[2];
    std::int64_t before = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      const std::int64_t heads = i == 0 ? heads_ : kv_heads_, width = heads * depth_;
      args.parts[i] = backward_ ? RotaryPart<T>{.from = input<T>(0) + before,
                                                .to = output<T>(i),
                                                .from_row = row,
                                                .to_row = width}
                                : RotaryPart<T>{.from = input<T>(i),
                                                .to = output<T>(0) + before,
                                                .from_row = width,
                                                .to_row = row};
      args.parts[i].heads = heads;
      args.parts[i].turns = i < 2;
      before += width;
    }
    for (; args.token < args.tokens; ++args.token) {
      for (std::size_t i = 0; i < phases_.size(); ++i) {
        const ops::Rotation turn = ops::rotation_of(phases_[i] * std::uint64_t(args.token));
        cosines[i] = turn.cosine;
        sines[i] = backward_ ? -turn.sine : turn.sine;
      }
      rotary_(args);
    }
  }

 private:
  decltype(&baseline::rotary<T>) rotary_ = LOCKSTEP_CHOOSE(rotary<T>);
  bool backward_;
  std::int64_t heads_, kv_heads_;
  TensorType packed_;
  std::int64_t depth_;
  std::vector<std::uint64_t> phases_;  // of the pairs
};

}  // namespace

std::unique_ptr<Kernel> make_rotary_kernel(const ops::Rotary& op, const KernelSpec& spec) {
  return make_stored<RotaryKernel>(spec.inputs[0].dtype, op.attrs(), false, spec);
}

std::unique_ptr<Kernel> make_rotary_bwd_kernel(const ops::RotaryBwd& op, const KernelSpec& spec) {
  return make_stored<RotaryKernel>(spec.inputs[0].dtype, op.attrs(), true, spec);
}

}  // namespace lockstep::cpu
