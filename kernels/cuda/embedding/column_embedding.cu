// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <vector>

#include "core/base/check.h"
#include "core/ops/embedding/column_embedding.h"
#include "kernels/cuda/bound_kernel.h"
#include "kernels/cuda/embedding/token_order.h"
#include "kernels/cuda/kernel_list.h"
#include "kernels/cuda/range_table.cuh"

// Embedding of columns and its gradient. Forward: a block takes a tile of one run of y's columns
// (the vectors of one embedded feature, or features that are copied), a thread one element at a
// time. Backward of one table: the samples of each category in order, found by a sort
// (token_order.h), so that a thread adds the values of one element of dW one after another and has
// the bits of a loop over all samples; nothing is scattered. Bytes: forward x and y once, and the
// rows of the tables from the caches; backward one value of x and D of dy a sample, and the whole
// dW once (written), or dW's rows that occur twice where it accumulates. Bound by latency: tables
// are small.
namespace lockstep::cuda {
namespace {

constexpr std::int64_t kTile = 1024;

/// Neighbouring values of every row of y: a vector of `table` [categories, width], or without a
/// table a copy of `width` features.
struct ColumnSource {
  const float* table;
  std::int32_t feature, offset, width, categories;
};

struct ColumnRows {
  std::int64_t samples = 0;
  std::int64_t features = 0;  ///< values in a row of x
  std::int64_t values = 0;    ///< values in a row of y or dy
};

ColumnRows rows_of(const TensorType& x, const TensorType& y) {
  const ColumnRows rows{x.shape[0], x.shape[1], y.shape[1]};
  LOCKSTEP_CHECK(rows.features <= INT32_MAX && rows.values <= INT32_MAX,
                 Error,
                 "column_embedding: at most 2^31 - 1 features and values a sample, got {} and {}",
                 rows.features,
                 rows.values);
  return rows;
}

/// The category that `index` says; -1 where it is none of them, or NaN.
__device__ inline std::int64_t category_of(float index, std::int64_t categories) {
  return index >= 0.0f && index < float(categories) ? std::int64_t(index) : -1;
}

template <typename T>
__global__ void column_embedding_kernel(const __grid_constant__ RangeTable<ColumnSource> sources,
                                        T* y,
                                        const float* x,
                                        ColumnRows rows) {
  wait_for_earlier_work();
  const auto place = sources.place_of(std::int32_t(blockIdx.x));
  const ColumnSource source = place.range;
  const std::int64_t begin = place.tile * kTile, elems = rows.samples * source.width;
  const std::int64_t end = begin + kTile < elems ? begin + kTile : elems;
  for (std::int64_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
    const std::int64_t row = i / source.width, column = i - row * source.width;
    const float* const features = x + row * rows.features + source.feature;
    float value = NAN;
    if (source.table == nullptr) {
      value = features[column];
    } else {
      const std::int64_t category = category_of(*features, source.categories);
      if (category >= 0) value = source.table[category * source.width + column];
    }
    y[row * rows.values + source.offset + column] = from_float<T>(value);
  }
}

/// tokens[n] = the category of sample n, or one more than there are where it has none.
__global__ void column_categories_kernel(std::int32_t* tokens,
                                         const float* x,
                                         std::int64_t samples,
                                         std::int64_t features,
                                         std::int64_t categories) {
  wait_for_earlier_work();
  for (std::int64_t n = global_thread(); n < samples; n += all_threads()) {
    const std::int64_t category = category_of(x[n * features], categories);
    tokens[n] = std::int32_t(category < 0 ? categories : category);
  }
}

/// table_grad[k, :] = (accumulate ? table_grad[k, :] : 0) + dy[order[i], :] for i in
/// [offsets[k], offsets[k + 1]), one after another. dy: its first column that belongs to the table;
/// its rows are `values` apart.
template <typename T>
__global__ void column_embedding_bwd_kernel(float* table_grad,
                                            const T* dy,
                                            const std::int32_t* offsets,
                                            const std::int32_t* order,
                                            std::int64_t categories,
                                            std::int64_t width,
                                            std::int64_t values,
                                            bool accumulate) {
  wait_for_earlier_work();
  for (std::int64_t item = global_thread(); item < categories * width; item += all_threads()) {
    const std::int64_t category = item / width, column = item - category * width;
    const std::int32_t begin = offsets[category], end = offsets[category + 1];
    if (accumulate && begin == end) continue;
    float sum = accumulate ? table_grad[item] : 0.0f;
#pragma unroll 8
    for (std::int32_t i = begin; i < end; ++i) sum += to_float(dy[order[i] * values + column]);
    table_grad[item] = sum;
  }
}

template <typename T>
class ColumnEmbeddingKernel final : public BoundKernel {
 public:
  ColumnEmbeddingKernel(const ops::ColumnEmbedding& op,
                        const KernelSpec& spec,
                        const Device& device)
      : BoundKernel(device), rows_(rows_of(spec.inputs[0], spec.outputs[0])) {
    for (const ops::ColumnRun& run : op.runs(spec.inputs)) {
      const std::int64_t categories =
          run.table < 0 ? 0 : spec.inputs[std::size_t(1 + run.table)].shape[0];
      LOCKSTEP_CHECK(categories < INT32_MAX,
                     Error,
                     "column_embedding: at most 2^31 - 2 categories, got {}",
                     categories);
      runs_.push_back({run, rows_.samples * run.width, std::int32_t(categories)});
    }
  }
  void run(const RunState&) override {
    for_each_table<ColumnSource>(
        std::span<const Run>(runs_),
        kTile,
        [this](const Run& run) { return source_of(run); },
        [this](const RangeTable<ColumnSource>& sources) {
          launch("column_embedding",
                 {.grid = dim3(unsigned(sources.tiles()))},
                 stream(),
                 column_embedding_kernel<T>,
                 sources,
                 output<T>(0),
                 input(0),
                 rows_);
        });
  }

 private:
  struct Run {
    ops::ColumnRun columns;
    std::int64_t elems;
    std::int32_t categories;
  };
  ColumnSource source_of(const Run& run) const {
    const ops::ColumnRun& columns = run.columns;
    return {columns.table < 0 ? nullptr : input(std::size_t(1 + columns.table)),
            std::int32_t(columns.feature),
            std::int32_t(columns.offset),
            std::int32_t(columns.width),
            run.categories};
  }

  ColumnRows rows_;
  std::vector<Run> runs_;
};

template <typename T>
class ColumnEmbeddingBwdKernel final : public BoundKernel {
 public:
  ColumnEmbeddingBwdKernel(const ops::ColumnEmbeddingBwd& op,
                           const KernelSpec& spec,
                           const Device& device)
      : BoundKernel(device),
        rows_(rows_of(spec.inputs[0], spec.inputs[1])),
        feature_(op.feature()),
        offset_(op.offset()),
        categories_(spec.outputs[0].shape[0]),
        width_(spec.outputs[0].shape[1]),
        order_(rows_.samples, categories_ + 1),
        accumulates_(spec.output_accumulates[0]) {}

  std::size_t workspace_bytes() const override {
    return order_.workspace_bytes() + std::size_t(rows_.samples) * sizeof(std::int32_t);
  }

  void run(const RunState& state) override {
    void* const sorted = workspace<std::byte>();
    auto* const tokens = workspace<std::int32_t>(order_.workspace_bytes());
    launch("column_categories",
           cover(rows_.samples),
           stream(),
           column_categories_kernel,
           tokens,
           input(0) + feature_,
           rows_.samples,
           rows_.features,
           categories_);
    order_.sort(device(), tokens, sorted);
    launch("column_embedding_bwd",
           cover(categories_ * width_),
           stream(),
           column_embedding_bwd_kernel<T>,
           output(0),
           input<T>(1) + offset_,
           order_.offsets(sorted),
           order_.order(sorted),
           categories_,
           width_,
           rows_.values,
           accumulates_ && state.accumulate);
  }

 private:
  ColumnRows rows_;
  std::int64_t feature_, offset_, categories_, width_;
  TokenOrder order_;
  bool accumulates_;
};

}  // namespace

std::unique_ptr<Kernel> make_column_embedding_kernel(const ops::ColumnEmbedding& op,
                                                     const KernelSpec& spec,
                                                     const Device& device) {
  return make_stored<ColumnEmbeddingKernel>(op.output(), op, spec, device);
}

std::unique_ptr<Kernel> make_column_embedding_bwd_kernel(const ops::ColumnEmbeddingBwd& op,
                                                         const KernelSpec& spec,
                                                         const Device& device) {
  return make_stored<ColumnEmbeddingBwdKernel>(spec.inputs[1].dtype, op, spec, device);
}

}  // namespace lockstep::cuda
