// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/base/check.h"
#include "core/ops/losses/softmax_cross_entropy.h"
#include "kernels/cuda/bound_kernel.h"
#include "kernels/cuda/kernel_list.h"
#include "kernels/cuda/losses/cross_entropy_row.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/row_packs.cuh"
#include "kernels/cuda/step/block_step.cuh"
#include "kernels/cuda/step/fused_small_kernels.h"

// Softmax, cross-entropy and its gradient. First kernel: a block of 32 to 512 threads takes a row
// and skips it twice: each thread keeps the largest logit that it has met, where it stood,
// and the sum of exponentials below it (Milakov and Gimelshein 2018, "Online normalizer calculation
// for softmax"); the block joins them; the second pass, from the end, where the caches still hold
// the row, writes the gradient as if no class were the label's, and then one thread the label's.
// Rows may start anywhere: a few elements before and after the packs of 16 bytes are done one by
// one. Second kernel: one block adds the rows, in fp64, in an order that their number fixes. Bytes:
// logits and dlogits once, as long as the rows that are under way (two blocks a multiprocessor: of
// 50,304 classes on 132 of them 26 MB in bf16, twice that in fp32) mostly fit the L2 cache. Bound
// by memory: in bf16 two exponentials an element take two fifths of its time, and 15 instructions
// about as much.
// Soft labels have a kernel of their own, since it holds two logits; with weights of classes a
// small kernel makes soft labels of the labels before it. Few rows of few classes are a step of a
// block program instead: small_loss.cuh.
namespace lockstep::cuda {
namespace {

constexpr int kMaxThreads = 512;
constexpr int kSumThreads = 1024;

struct Least {
  __device__ std::int32_t operator()(std::int32_t a, std::int32_t b) const { return a < b ? a : b; }
};

/// d = gradient of x, as if no class were the label's; they may be the same.
template <typename T>
__device__ inline void write_gradient_off_label(
    T* d, const T* x, const RowParts<T>& parts, int classes, const RowGradient& g) {
  visit_packs<true>(x, parts, [&](int first, Pack<T> pack) {
    for (T& value : pack.values) value = from_float<T>(gradient_off_label<T>(to_float(value), g));
    store_pack(d + first, pack);
  });
  const auto visit_one = [&](int i) {
    d[i] = from_float<T>(gradient_off_label<T>(to_float(x[i]), g));
  };
  visit_head(parts, visit_one);
  visit_tail(parts, classes, visit_one);
  __syncthreads();
}

/// d = gradient of x; they may be the same. `r`: of the row.
template <typename T>
__device__ inline void write_gradient(T* d,
                                      const T* x,
                                      const RowParts<T>& parts,
                                      int classes,
                                      const RowGradient& g,
                                      const RowResult& r) {
  write_gradient_off_label(d, x, parts, classes, g);
  if (threadIdx.x == 0) d[r.label] = from_float<T>(gradient_of_label<T>(r.of_label, g));
}

/// Zeros in [classes, pitch) of row `d`.
template <typename T>
__device__ inline void zero_padding(T* d, std::int64_t classes, std::int64_t pitch) {
  for (std::int64_t i = classes + threadIdx.x; i < pitch; i += blockDim.x) d[i] = from_float<T>(0);
}

/// What a row that is ignored leaves: no loss, no gradient.
template <typename T>
__device__ inline void ignore_row(const CrossEntropy<T>& a, std::int64_t row) {
  if (threadIdx.x == 0) {
    a.losses[row] = 0.0f;
    a.states[row] = kIgnored;
  }
  if (a.dlogits == nullptr) return;
  T* const d = a.dlogits + row * a.pitch;
  const RowParts<T> parts(row * a.pitch, int(a.classes));
  Pack<T> zeros;
  for (T& zero : zeros.values) zero = from_float<T>(0.0f);
  for (int p = int(threadIdx.x); p < parts.packs; p += int(blockDim.x))
    store_pack(d + parts.head + p * Pack<T>::kElems, zeros);
  const auto visit_one = [&](int i) { d[i] = zeros.values[0]; };
  visit_head(parts, visit_one);
  visit_tail(parts, int(a.classes), visit_one);
  zero_padding(d, a.classes, a.pitch);
}

/// What the block finds out about row `x`, but for the label.
template <typename T>
__device__ inline RowResult reduce_row(const T* x,
                                       const RowParts<T>& parts,
                                       int classes,
                                       bool smoothed) {
  RowSums<T> sums;
  const auto add_one = [&](int i) {
    const T value[1] = {x[i]};
    sums.add(i, value, smoothed);
  };
  visit_head(parts, add_one);
  visit_packs<false>(
      x, parts, [&](int first, const Pack<T>& pack) { sums.add(first, pack.values, smoothed); });
  visit_tail(parts, classes, add_one);
  const float top = block_reduce(sums.top(), Max{}, dynamic_shared<float>());
  const std::int32_t winner =
      block_reduce(sums.index_of(top), Least{}, dynamic_shared<std::int32_t>());
  const float sum = block_sum(sums.sum_below(top), dynamic_shared<float>());
  const float all = smoothed ? block_sum(sums.all(), dynamic_shared<float>()) : 0.0f;
  return {.top = top, .winner = winner, .sum = sum, .all = all, .label = 0, .of_label = 0};
}

/// A block a row.
template <typename T>
__global__ void __launch_bounds__(kMaxThreads) cross_entropy_kernel(CrossEntropy<T> a) {
  wait_for_earlier_work();
  const std::int64_t row = blockIdx.x;
  const std::int32_t label = a.labels[row];
  if (label == a.ignored) return ignore_row(a, row);
  const T* const x = a.logits + row * a.pitch;
  const int classes = int(a.classes);
  const RowParts<T> parts(row * a.pitch, classes);
  const float of_label = to_float(x[label]);
  RowResult result = reduce_row(x, parts, classes, a.label_smoothing > 0.0f);
  result.label = label;
  result.of_label = of_label;
  if (threadIdx.x == 0) store_loss(a, row, result);
  if (a.dlogits == nullptr) return;
  T* const d = a.dlogits + row * a.pitch;
  zero_padding(d, a.classes, a.pitch);
  write_gradient(d, x, parts, classes, gradient_factors(a, result), result);
}

/// As many as travel as an argument of a launch; of more classes each so many are one.
constexpr int kMaxWeights = 960;
struct ClassWeights {
  float values[kMaxWeights];
};

/// Labels [rows], or soft ones [rows, 2, 2] if they are not null, and soft labels of the rows' own.
struct WeighedLabels {
  const std::int32_t* labels;
  const float* soft;
  float* weighed;
  std::int64_t rows;
  std::int32_t ignored;
};

/// A thread half a soft label: those of classes [first, first + count), and with the first of them
/// those that are ignored.
__global__ void weigh_labels_kernel(WeighedLabels a,
                                    int first,
                                    int count,
                                    const __grid_constant__ ClassWeights weights) {
  wait_for_earlier_work();
  for (std::int64_t i = global_thread(); i < 2 * a.rows; i += all_threads()) {
    float* const pair = a.weighed + 2 * i;
    const std::int32_t label = a.soft != nullptr ? std::int32_t(a.soft[2 * i]) : a.labels[i / 2];
    if (a.soft == nullptr && label == a.ignored) {
      pair[0] = -1.0f;
      pair[1] = 0.0f;
    } else if (label >= first && label < first + count) {
      pair[0] = float(label);
      const float own = a.soft != nullptr ? a.soft[2 * i + 1] : i % 2 == 0 ? 1.0f : 0.0f;
      pair[1] = own * weights.values[label - first];
    }
  }
}

/// A block a row, with soft labels [rows, 2, 2].
template <typename T>
__global__ void __launch_bounds__(kMaxThreads)
    soft_cross_entropy_kernel(CrossEntropy<T> a, const float* labels) {
  wait_for_earlier_work();
  const std::int64_t row = blockIdx.x;
  const SoftLabel label = soft_label(labels + 4 * row);
  if (label.first < 0) return ignore_row(a, row);
  const T* const x = a.logits + row * a.pitch;
  const int classes = int(a.classes);
  const RowParts<T> parts(row * a.pitch, classes);
  // Before the gradient overwrites them.
  const float first = to_float(x[label.first]), second = to_float(x[label.second]);
  RowResult result = reduce_row(x, parts, classes, a.label_smoothing > 0.0f);
  result.label = label.likely();
  result.of_label =
      label.first_weight * (first - result.top) + label.second_weight * (second - result.top);
  if (threadIdx.x == 0) store_soft_loss(a, row, result, label);
  if (a.dlogits == nullptr) return;
  T* const d = a.dlogits + row * a.pitch;
  zero_padding(d, a.classes, a.pitch);
  RowGradient g = soft_gradient_factors(a, result, label);
  write_gradient_off_label(d, x, parts, classes, g);
  if (threadIdx.x != 0) return;
  const float on = g.on;
  const auto store_label = [&](std::int32_t k, float logit, float weight) {
    g.on = on * weight;
    d[k] = from_float<T>(gradient_of_label<T>(logit, g));
  };
  if (label.first == label.second) {
    store_label(label.first, first, label.weight());
  } else {
    store_label(label.first, first, label.first_weight);
    store_label(label.second, second, label.second_weight);
  }
}

/// One block.
__global__ void __launch_bounds__(kSumThreads) add_rows_kernel(LossOutputs outputs,
                                                               const float* losses,
                                                               const std::int32_t* states,
                                                               std::int64_t rows,
                                                               const float* sample_weight,
                                                               std::int64_t tokens) {
  wait_for_earlier_work();
  double loss = 0;
  int correct = 0, counted = 0;
#pragma unroll 4
  for (std::int64_t r = threadIdx.x; r < rows; r += blockDim.x) {
    loss += double(losses[r]);
    correct += states[r] == kCorrect;
    counted += states[r] != kIgnored;
  }
  const double sums[3] = {block_sum(loss, dynamic_shared<double>()),
                          double(block_sum(correct, dynamic_shared<int>())),
                          double(block_sum(counted, dynamic_shared<int>()))};
  if (threadIdx.x == 0) store_sums(outputs, sums, row_weight(sample_weight, tokens));
}

int threads_for(std::int64_t classes) {
  return classes <= 512 ? kWarp : classes <= 4096 ? 128 : kMaxThreads;
}

/// What its kernels have in common. Base: BoundKernel or SmallKernel.
template <typename T, typename Base>
class LossKernel : public Base {
 public:
  LossKernel(const ops::SoftmaxCrossEntropy& op, const KernelSpec& spec, const Device& device)
      : Base(device),
        gradient_output_(op.with_gradient() ? op.gradient_output() : -1),
        counts_(op.ignore_index().has_value()),
        soft_(op.is_soft(spec.inputs[1])),
        accumulates_(spec.output_accumulates) {
    work_.rows = op.rows(spec.inputs[0]);
    work_.classes = op.classes(spec.inputs[0]);
    work_.pitch = spec.inputs[0].shape[-1];
    LOCKSTEP_CHECK(work_.pitch <= INT32_MAX,
                   Error,
                   "softmax_cross_entropy: at most 2^31 - 1 classes on a GPU, got {}",
                   work_.pitch);
    work_.tokens = spec.inputs[0].shape.rank() == 3 ? spec.inputs[0].shape[1] : 1;
    work_.label_smoothing = op.label_smoothing();
    work_.ignored = op.ignore_index().value_or(kNoLabel);
  }

 protected:
  std::int64_t rows() const { return work_.rows; }
  bool is_soft() const { return soft_; }
  /// Without losses and states.
  CrossEntropy<T> work() const {
    CrossEntropy<T> work = work_;
    work.logits = this->template input<T>(0);
    work.labels = soft_ ? nullptr : this->template input<std::int32_t>(1);
    work.sample_weight = this->input(2);
    if (gradient_output_ >= 0)
      work.dlogits = this->template output<T>(std::size_t(gradient_output_));
    return work;
  }
  LossOutputs outputs(bool accumulate) const {
    LossOutputs outputs{};
    for (std::size_t i = 0; i < (counts_ ? 3u : 2u); ++i) {
      outputs.values[i] = this->output(i);
      outputs.add[i] = accumulates_[i] && accumulate;
    }
    return outputs;
  }

 private:
  CrossEntropy<T> work_{};
  int gradient_output_;
  bool counts_, soft_;
  std::vector<bool> accumulates_;
};

template <typename T>
class SoftmaxCrossEntropyKernel final : public LossKernel<T, BoundKernel> {
 public:
  SoftmaxCrossEntropyKernel(const ops::SoftmaxCrossEntropy& op,
                            const KernelSpec& spec,
                            const Device& device)
      : LossKernel<T, BoundKernel>(op, spec, device) {
    const auto classes = std::int64_t(op.class_weights().size());
    for (std::int64_t first = 0; first < classes; first += kMaxWeights)
      std::copy_n(op.class_weights().begin() + first,
                  std::min(classes - first, std::int64_t{kMaxWeights}),
                  class_weights_.emplace_back().values);
  }

  std::size_t workspace_bytes() const override {
    return std::size_t(this->rows()) *
           (sizeof(float) + sizeof(std::int32_t) + (weighs() ? 4 * sizeof(float) : 0));
  }

  void run(const RunState& state) override {
    CrossEntropy<T> work = this->work();
    work.losses = this->template workspace<float>();
    work.states = this->template workspace<std::int32_t>(std::size_t(work.rows) * sizeof(float));
    const int threads = threads_for(work.classes);
    const LaunchShape shape{.grid = dim3(unsigned(work.rows)),
                            .block = dim3(unsigned(threads)),
                            .shared_bytes = std::size_t(threads / kWarp) * sizeof(float)};
    if (this->is_soft() || weighs())
      launch("soft_cross_entropy",
             shape,
             this->stream(),
             soft_cross_entropy_kernel<T>,
             work,
             weighs() ? weighed_labels(work) : this->input(1));
    else
      launch("softmax_cross_entropy", shape, this->stream(), cross_entropy_kernel<T>, work);
    // No more than find a row: the order of the sums depends on the rows alone.
    const std::int64_t wanted = std::max<std::int64_t>(1, ceil_div(work.rows, kWarp)) * kWarp;
    const auto sum_threads = int(std::min<std::int64_t>(kSumThreads, wanted));
    launch("softmax_cross_entropy_sums",
           {.block = dim3(unsigned(sum_threads)),
            .shared_bytes = std::size_t(sum_threads) / kWarp * sizeof(double)},
           this->stream(),
           add_rows_kernel,
           this->outputs(state.accumulate),
           work.losses,
           work.states,
           work.rows,
           work.sample_weight,
           work.tokens);
  }

 private:
  bool weighs() const { return !class_weights_.empty(); }

  /// Soft labels, in the workspace after losses and states.
  const float* weighed_labels(const CrossEntropy<T>& work) const {
    const WeighedLabels labels{.labels = work.labels,
                               .soft = this->is_soft() ? this->input(1) : nullptr,
                               .weighed = this->template workspace<float>(
                                   std::size_t(work.rows) * (sizeof(float) + sizeof(std::int32_t))),
                               .rows = work.rows,
                               .ignored = work.ignored};
    for (std::size_t part = 0; part < class_weights_.size(); ++part) {
      const std::int64_t first = std::int64_t(part) * kMaxWeights;
      launch("weigh_labels",
             cover(2 * work.rows),
             this->stream(),
             weigh_labels_kernel,
             labels,
             int(first),
             int(std::min(work.classes - first, std::int64_t{kMaxWeights})),
             class_weights_[part]);
    }
    return labels.weighed;
  }

  std::vector<ClassWeights> class_weights_;
};

class SmallLossKernel final : public LossKernel<float, SmallKernel> {
 public:
  using LossKernel::LossKernel;

  BlockStep step() const override {
    BlockStep step;
    step.head.kind = BlockStep::Kind::loss;
    step.loss.work = work();
    step.loss.outputs = outputs(/*accumulate=*/true);
    return step;
  }
};

bool is_small(const ops::SoftmaxCrossEntropy& op, const KernelSpec& spec) {
  return spec.inputs[0].dtype == DType::f32 && !op.is_soft(spec.inputs[1]) &&
         op.class_weights().empty() && op.rows(spec.inputs[0]) <= kMaxSmallLossRows &&
         op.classes(spec.inputs[0]) <= kMaxSmallLossClasses;
}

}  // namespace

std::unique_ptr<Kernel> make_softmax_cross_entropy_kernel(const ops::SoftmaxCrossEntropy& op,
                                                          const KernelSpec& spec,
                                                          const Device& device) {
  if (is_small(op, spec)) return std::make_unique<SmallLossKernel>(op, spec, device);
  return make_stored<SoftmaxCrossEntropyKernel>(spec.inputs[0].dtype, op, spec, device);
}

}  // namespace lockstep::cuda
