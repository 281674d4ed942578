// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/fp32_fallback_kernel.h"

#include <algorithm>

#include "kernels/cpu/bf16.h"
#include "kernels/cpu/bound_kernel.h"
#include "kernels/cpu/elementwise.h"

namespace lockstep::cpu {
namespace {

/// An input or output that is bf16 outside and fp32 in the workspace.
struct Converted {
  std::size_t index = 0;
  std::int64_t elems = 0;
  std::size_t offset_bytes = 0;  ///< in the workspace
  Bf16* stored = nullptr;
  float* wide = nullptr;
};

class WidenedKernel final : public Kernel {
 public:
  WidenedKernel(const KernelSpec& spec,
                int weight_input,
                const std::function<std::unique_ptr<Kernel>(const KernelSpec&)>& make)
      : weight_input_(weight_input) {
    KernelSpec wide = spec;
    inputs_ = widen(wide.inputs);
    outputs_ = widen(wide.outputs);
    kernel_ = make(wide);
    for (const PackedCopy& copy : kernel_->packed_copies())
      copies_.push_back({copy.input, "rounded." + copy.format, copy.bytes});
    if (weight_input_ >= 0) {
      weight_elems_ = spec.inputs[std::size_t(weight_input_)].elems();
      copies_.push_back(
          {weight_input_, "rounded to bf16", std::size_t(weight_elems_) * sizeof(float)});
    }
  }

  std::size_t workspace_bytes() const override { return bytes_ + kernel_->workspace_bytes(); }
  std::vector<PackedCopy> packed_copies() const override { return copies_; }

  void bind(const KernelBuffers& buffers) override {
    auto* workspace = static_cast<std::byte*>(buffers.workspace);
    const auto place = [&](Converted& value) {
      return value.wide = reinterpret_cast<float*>(workspace + value.offset_bytes);
    };
    KernelBuffers wide = buffers;
    for (Converted& value : inputs_) {
      value.stored = static_cast<Bf16*>(const_cast<void*>(buffers.inputs[value.index]));
      wide.inputs[value.index] = place(value);
    }
    for (Converted& value : outputs_) {
      value.stored = static_cast<Bf16*>(buffers.outputs[value.index]);
      wide.outputs[value.index] = place(value);
    }
    if (weight_input_ >= 0) {
      weight_ = static_cast<const float*>(buffers.inputs[std::size_t(weight_input_)]);
      rounded_weight_ = static_cast<float*>(buffers.packed.back());
      wide.inputs[std::size_t(weight_input_)] = rounded_weight_;
      wide.packed.pop_back();
    }
    wide.workspace = workspace + bytes_;
    kernel_->bind(wide);
  }

  /// Copies are refreshed in no particular order, so each refresh rounds the weight first.
  void pack(int index) override {
    if (weight_input_ >= 0) round_to_f32_(rounded_weight_, weight_, weight_elems_);
    if (weight_input_ < 0 || index + 1 < int(copies_.size())) kernel_->pack(index);
  }

  void run(const RunState& state) override {
    for (const Converted& value : inputs_) widen_to_f32_(value.wide, value.stored, value.elems);
    kernel_->run(state);
    for (const Converted& value : outputs_) round_to_bf16_(value.stored, value.wide, value.elems);
  }

 private:
  std::vector<Converted> widen(std::vector<TensorType>& types) {
    std::vector<Converted> converted;
    for (std::size_t i = 0; i < types.size(); ++i) {
      if (types[i].dtype != DType::bf16) continue;
      types[i].dtype = DType::f32;
      converted.push_back({i, types[i].elems(), bytes_});
      bytes_ += aligned(types[i].bytes());
    }
    return converted;
  }

  decltype(&baseline::widen_to_f32) widen_to_f32_ = LOCKSTEP_CHOOSE(widen_to_f32);
  decltype(&baseline::round_to_bf16) round_to_bf16_ = LOCKSTEP_CHOOSE(round_to_bf16);
  decltype(&baseline::round_to_f32) round_to_f32_ = LOCKSTEP_CHOOSE(round_to_f32);
  int weight_input_;
  std::int64_t weight_elems_ = 0;
  std::size_t bytes_ = 0;  // of all converted values
  std::vector<Converted> inputs_, outputs_;
  std::unique_ptr<Kernel> kernel_;
  std::vector<PackedCopy> copies_;
  const float* weight_ = nullptr;
  float* rounded_weight_ = nullptr;
};

bool any_bf16(const std::vector<TensorType>& types) {
  return std::any_of(
      types.begin(), types.end(), [](const TensorType& t) { return t.dtype == DType::bf16; });
}

}  // namespace

std::unique_ptr<Kernel> make_fp32_fallback_kernel(
    const KernelSpec& spec,
    int weight_input,
    const std::function<std::unique_ptr<Kernel>(const KernelSpec&)>& make) {
  return std::make_unique<WidenedKernel>(spec, weight_input, make);
}

bool has_bf16(const KernelSpec& spec) { return any_bf16(spec.inputs) || any_bf16(spec.outputs); }

}  // namespace lockstep::cpu
