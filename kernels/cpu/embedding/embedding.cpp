// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/embedding/embedding.h"

#include <algorithm>

#include "core/ops/embedding/embedding.h"
#include "kernels/cpu/bound_kernel.h"
#include "kernels/cpu/kernel_list.h"

namespace lockstep::cpu {
namespace {

EmbeddingShape shape_of(const TensorType& activation) {
  return {activation.shape[0], activation.shape[1], activation.shape[2]};
}

template <typename T>
class EmbeddingKernel final : public BoundKernel {
 public:
  EmbeddingKernel(const ops::Embedding& op, const KernelSpec& spec)
      : shape_(shape_of(spec.outputs[0])), positions_(op.positions()) {}
  void run(const RunState&) override {
    embedding_(
        output<T>(0), input<std::int32_t>(0), input(1), positions_ ? input(2) : nullptr, shape_);
  }

 private:
  decltype(&baseline::embedding<T>) embedding_ = LOCKSTEP_CHOOSE(embedding<T>);
  EmbeddingShape shape_;
  bool positions_;
};

template <typename T>
class EmbeddingBwdTokensKernel final : public BoundKernel {
 public:
  explicit EmbeddingBwdTokensKernel(const KernelSpec& spec)
      : shape_(shape_of(spec.inputs[1])),
        elems_(spec.outputs[0].elems()),
        accumulates_(spec.output_accumulates[0]) {}
  void run(const RunState& state) override {
    if (!(accumulates_ && state.accumulate)) std::fill_n(output(0), elems_, 0.0f);
    add_(output(0), input<std::int32_t>(0), input<T>(1), shape_);
  }

 private:
  decltype(&baseline::embedding_bwd_tokens<T>) add_ = LOCKSTEP_CHOOSE(embedding_bwd_tokens<T>);
  EmbeddingShape shape_;
  std::int64_t elems_;
  bool accumulates_;
};

template <typename T>
class EmbeddingBwdPositionsKernel final : public BoundKernel {
 public:
  explicit EmbeddingBwdPositionsKernel(const KernelSpec& spec)
      : shape_(shape_of(spec.inputs[0])),
        elems_(spec.outputs[0].elems()),
        accumulates_(spec.output_accumulates[0]) {}
  void run(const RunState& state) override {
    const bool accumulate = accumulates_ && state.accumulate;
    sum_(output(0), input<T>(0), shape_, accumulate);
    const std::int64_t used = shape_.tokens * shape_.width;
    if (!accumulate) std::fill_n(output(0) + used, elems_ - used, 0.0f);
  }

 private:
  decltype(&baseline::embedding_bwd_positions<T>) sum_ =
      LOCKSTEP_CHOOSE(embedding_bwd_positions<T>);
  EmbeddingShape shape_;
  std::int64_t elems_;
  bool accumulates_;
};

}  // namespace

std::unique_ptr<Kernel> make_embedding_kernel(const ops::Embedding& op, const KernelSpec& spec) {
  return make_stored<EmbeddingKernel>(op.output(), op, spec);
}

std::unique_ptr<Kernel> make_embedding_bwd_tokens_kernel(const ops::EmbeddingBwdTokens&,
                                                         const KernelSpec& spec) {
  return make_stored<EmbeddingBwdTokensKernel>(spec.inputs[1].dtype, spec);
}

std::unique_ptr<Kernel> make_embedding_bwd_positions_kernel(const ops::EmbeddingBwdPositions&,
                                                            const KernelSpec& spec) {
  return make_stored<EmbeddingBwdPositionsKernel>(spec.inputs[0].dtype, spec);
}

}  // namespace lockstep::cpu
