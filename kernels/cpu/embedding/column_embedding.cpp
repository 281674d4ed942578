// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/embedding/column_embedding.h"

#include <algorithm>
#include <vector>

#include "core/ops/embedding/column_embedding.h"
#include "kernels/cpu/bound_kernel.h"
#include "kernels/cpu/kernel_list.h"

namespace lockstep::cpu {
namespace {

ColumnRows rows_of(const TensorType& x, const TensorType& y) {
  return {x.shape[0], x.shape[1], y.shape[1]};
}

template <typename T>
class ColumnEmbeddingKernel final : public BoundKernel {
 public:
  ColumnEmbeddingKernel(const ops::ColumnEmbedding& op, const KernelSpec& spec)
      : runs_(op.runs(spec.inputs)), rows_(rows_of(spec.inputs[0], spec.outputs[0])) {
    for (const ops::ColumnRun& run : runs_) {
      ColumnSource source{nullptr, run.feature, run.offset, run.width};
      if (run.table >= 0) source.categories = spec.inputs[std::size_t(1 + run.table)].shape[0];
      sources_.push_back(source);
    }
  }
  void run(const RunState&) override {
    for (std::size_t i = 0; i < runs_.size(); ++i)
      if (runs_[i].table >= 0) sources_[i].table = input(std::size_t(1 + runs_[i].table));
    embed_(output<T>(0), input(0), sources_.data(), int(sources_.size()), rows_);
  }

 private:
  decltype(&baseline::column_embedding<T>) embed_ = LOCKSTEP_CHOOSE(column_embedding<T>);
  std::vector<ops::ColumnRun> runs_;
  std::vector<ColumnSource> sources_;
  ColumnRows rows_;
};

template <typename T>
class ColumnEmbeddingBwdKernel final : public BoundKernel {
 public:
  ColumnEmbeddingBwdKernel(const ops::ColumnEmbeddingBwd& op, const KernelSpec& spec)
      : source_{nullptr,
                op.feature(),
                op.offset(),
                spec.outputs[0].shape[1],
                spec.outputs[0].shape[0]},
        rows_(rows_of(spec.inputs[0], spec.inputs[1])),
        elems_(spec.outputs[0].elems()),
        accumulates_(spec.output_accumulates[0]) {}
  void run(const RunState& state) override {
    if (!(accumulates_ && state.accumulate)) std::fill_n(output(0), elems_, 0.0f);
    add_(output(0), input(0), input<T>(1), source_, rows_);
  }

 private:
  decltype(&baseline::column_embedding_bwd<T>) add_ = LOCKSTEP_CHOOSE(column_embedding_bwd<T>);
  ColumnSource source_;
  ColumnRows rows_;
  std::int64_t elems_;
  bool accumulates_;
};

}  // namespace

std::unique_ptr<Kernel> make_column_embedding_kernel(const ops::ColumnEmbedding& op,
                                                     const KernelSpec& spec) {
  return make_stored<ColumnEmbeddingKernel>(op.output(), op, spec);
}

std::unique_ptr<Kernel> make_column_embedding_bwd_kernel(const ops::ColumnEmbeddingBwd& op,
                                                         const KernelSpec& spec) {
  return make_stored<ColumnEmbeddingBwdKernel>(spec.inputs[1].dtype, op, spec);
}

}  // namespace lockstep::cpu
