// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/attention/rotary.h"

#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "core/ops/rotary.h"
#include "kernels/cpu/bound_kernel.h"
#include "kernels/cpu/kernel_list.h"

namespace lockstep::cpu {
namespace {

struct RotaryTable {
  std::vector<float> cosines, sines;  // [tokens, pairs]
};

/// One table for all kernels of a model, of which every layer has two or three.
std::shared_ptr<const RotaryTable> rotary_table(const ops::RotaryPositions& positions,
                                                std::int64_t tokens,
                                                std::int64_t depth,
                                                float direction) {
  const std::vector<std::uint64_t> phases = ops::rotary_phases(positions, depth);
  using Key = std::tuple<std::vector<std::uint64_t>, std::int64_t, float>;
  static std::mutex mutex;
  static std::map<Key, std::weak_ptr<const RotaryTable>> tables;
  const std::lock_guard lock(mutex);
  std::weak_ptr<const RotaryTable>& known = tables[{phases, tokens, direction}];
  if (auto table = known.lock()) return table;
  auto table = std::make_shared<RotaryTable>();
  for (std::int64_t t = 0; t < tokens; ++t)
    for (const std::uint64_t phase : phases) {
      const ops::Rotation rotation = ops::rotation_of(phase * std::uint64_t(t));
      table->cosines.push_back(rotation.cosine);
      table->sines.push_back(direction * rotation.sine);
    }
  known = table;
  return table;
}

/// Rotary and its gradient: `backward` unpacks.
template <typename T>
class RotaryKernel final : public BoundKernel {
 public:
  RotaryKernel(const ops::RotaryAttrs& attrs, bool backward, const KernelSpec& spec)
      : backward_(backward),
        heads_(attrs.heads),
        kv_heads_(attrs.kv_heads),
        packed_(backward ? spec.inputs[0] : spec.outputs[0]),
        depth_(attrs.depth_of(packed_)),
        table_(rotary_table(attrs.positions, packed_.shape[1], depth_, backward ? -1.0f : 1.0f)) {}

  void run(const RunState&) override {
    RotaryArgs<T> args{.samples = packed_.shape[0],
                       .tokens = packed_.shape[1],
                       .pairs = depth_ / 2,
                       .cosines = table_->cosines.data(),
                       .sines = table_->sines.data()};
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
    rotary_(args);
  }

 private:
  decltype(&baseline::rotary<T>) rotary_ = LOCKSTEP_CHOOSE(rotary<T>);
  bool backward_;
  std::int64_t heads_, kv_heads_;
  TensorType packed_;
  std::int64_t depth_;
  std::shared_ptr<const RotaryTable> table_;
};

}  // namespace

std::unique_ptr<Kernel> make_rotary_kernel(const ops::Rotary& op, const KernelSpec& spec) {
  return make_stored<RotaryKernel>(spec.inputs[0].dtype, op.attrs(), false, spec);
}

std::unique_ptr<Kernel> make_rotary_bwd_kernel(const ops::RotaryBwd& op, const KernelSpec& spec) {
  return make_stored<RotaryKernel>(spec.inputs[0].dtype, op.attrs(), true, spec);
}

}  // namespace lockstep::cpu
