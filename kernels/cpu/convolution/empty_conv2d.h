// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <vector>

#include "core/exec/kernel.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/small_gemm.h"

namespace lockstep::cpu {

/// A convolution of no samples, channels or filters: every sum of products is empty, and the
/// matrix library is not asked. Output 0 is the bias or zero; output 1, where there is one, is the
/// bias gradient.
class EmptyConv final : public Kernel {
 public:
  /// `bias_input`: the input that output 0 repeats in its rows, or -1.
  EmptyConv(const KernelSpec& spec, int bias_input)
      : bias_input_(bias_input),
        elems_(spec.outputs[0].elems()),
        accumulates_(spec.output_accumulates) {
    accumulates_.resize(2);
    if (spec.outputs.size() == 2) {
      const Shape& dy = spec.inputs[1].shape;
      channels_ = dy[-1];
      rows_ = dy[0] * dy[1] * dy[2];
    } else {
      channels_ = spec.outputs[0].shape[-1];
    }
  }

  void bind(const KernelBuffers& buffers) override {
    output_ = static_cast<float*>(buffers.outputs[0]);
    if (bias_input_ >= 0)
      bias_ = static_cast<const float*>(buffers.inputs[std::size_t(bias_input_)]);
    if (buffers.outputs.size() == 2) {
      dy_ = static_cast<const float*>(buffers.inputs[1]);
      db_ = static_cast<float*>(buffers.outputs[1]);
    }
  }

  void run(const RunState& state) override {
    if (!(state.accumulate && accumulates_[0])) std::fill_n(output_, elems_, 0.0f);
    if (bias_)
      for (std::int64_t i = 0; i < elems_; i += channels_)
        std::copy_n(bias_, channels_, output_ + i);
    if (db_) sums_(db_, dy_, rows_, channels_, state.accumulate && accumulates_[1]);
  }

 private:
  int bias_input_;
  std::int64_t elems_, rows_ = 0, channels_ = 0;
  std::vector<bool> accumulates_;
  float *output_ = nullptr, *db_ = nullptr;
  const float *bias_ = nullptr, *dy_ = nullptr;
  decltype(&baseline::column_sums<float>) sums_ = LOCKSTEP_CHOOSE(column_sums<float>);
};

/// Whether any tensor of the convolution has no elements.
inline bool is_empty(const KernelSpec& spec) {
  const auto no_elems = [](const TensorType& type) { return type.elems() == 0; };
  return std::any_of(spec.inputs.begin(), spec.inputs.end(), no_elems) ||
         std::any_of(spec.outputs.begin(), spec.outputs.end(), no_elems);
}

}  // namespace lockstep::cpu
