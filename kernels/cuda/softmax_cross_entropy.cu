// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cfloat>
#include <cmath>

#include "core/ops/softmax_cross_entropy.h"
#include "kernels/cuda/arithmetic.cuh"
#include "kernels/cuda/bound_kernel.h"
#include "kernels/cuda/kernel_list.h"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/row_packs.cuh"

// Softmax, cross-entropy and its gradient. First kernel: a block of 32 to 512 threads takes a row
// and passes over it twice: each thread keeps the largest logit that it has met, where it stood,
// and the sum of exponentials below it (Milakov and Gimelshein 2018, "Online normalizer calculation
// for softmax"); the block joins them; the second pass, from the end, where the caches still hold
// the row, writes the gradient. Rows may start anywhere: a few elements before and behind the packs
// of 16 bytes are done one by one. Second kernel: one block adds the rows, in fp64, in an order
// that their number fixes. Bytes: logits and dlogits once, as long as the rows that are under way
// (26 MB for 50,304 classes on 132 multiprocessors: two blocks each in bf16, one in fp32) mostly
// fit the L2 cache. Bound by memory; two exponentials an element take half its time in bf16.
namespace lockstep::cuda {
namespace {

constexpr int kMostThreads = 512;
constexpr int kSumThreads = 1024;

/// No label is this; the default for rows to ignore.
constexpr std::int32_t kNoLabel = INT32_MIN;

enum RowState : std::int32_t { kIgnored = 0, kWrong = 1, kCorrect = 2 };

template <typename T>
struct CrossEntropy {
  const T* logits = nullptr;  ///< [rows, pitch], of which `classes` columns count
  const std::int32_t* labels = nullptr;
  const float* sample_weight = nullptr;
  T* dlogits = nullptr;  ///< as logits, zero behind the classes; may be `logits`; null: not wanted
  std::int64_t rows = 0, classes = 0, pitch = 0, tokens = 1;
  float label_smoothing = 0;
  std::int32_t ignored = kNoLabel;
  float* losses = nullptr;         ///< [rows], before the weight
  std::int32_t* states = nullptr;  ///< [rows], RowState
};

/// What a row counts in the sums.
__device__ inline float row_weight(const float* sample_weight, std::int64_t tokens) {
  return tokens == 0 ? 0.0f : sample_weight[0] / float(tokens);
}

/// What a thread knows of the elements that it has met, in the order of their indices.
template <typename T>
class RowSums {
 public:
  /// Elements [first, first + N), as values[i].
  template <int N>
  __device__ void add(std::int64_t first, const T (&values)[N], bool smoothed) {
    float x[N], most = -INFINITY;
    for (int i = 0; i < N; ++i) {
      x[i] = to_float(values[i]);
      most = fmaxf(most, x[i]);  // passes over NaN
    }
    if (most > top_) {
      sum_ *= exp_for<T>(top_ - most);
      top_ = most;
      for (int i = N - 1; i >= 0; --i)
        if (x[i] == most) index_ = std::int32_t(first) + i;
    }
    for (int i = 0; i < N; ++i) sum_ += exp_for<T>(x[i] - top_);
    if (smoothed)
      for (int i = 0; i < N; ++i) all_ += x[i];
  }

  __device__ float top() const { return top_; }
  __device__ std::int32_t index_of(float top) const { return top_ == top ? index_ : INT32_MAX; }
  /// The sum of the exponentials of differences to `top`, which is at least the own one.
  __device__ float sum_below(float top) const { return sum_ * exp_for<T>(top_ - top); }
  __device__ float all() const { return all_; }

 private:
  float top_ = -FLT_MAX;  // differences to -infinity would be no numbers
  std::int32_t index_ = INT32_MAX;
  float sum_ = 0, all_ = 0;
};

struct Least {
  __device__ std::int32_t operator()(std::int32_t a, std::int32_t b) const { return a < b ? a : b; }
};

/// Of one row: what its gradient is made of.
struct RowGradient {
  float top, factor, off, on;
  std::int32_t label;
};

template <typename T>
__device__ inline T gradient_of(std::int64_t index, T x, const RowGradient& g) {
  float d = fmaf(exp_for<T>(to_float(x) - g.top), g.factor, g.off);
  if (index == g.label) d += g.on;
  return from_float<T>(d);
}

/// d = gradient of x; they may be the same.
template <typename T>
__device__ inline void write_gradient(
    T* d, const T* x, const RowParts<T>& parts, std::int64_t classes, const RowGradient& g) {
  visit_packs(x, parts, true, [&](std::int64_t first, Pack<T> pack) {
    for (int i = 0; i < Pack<T>::kElems; ++i)
      pack.values[i] = gradient_of(first + i, pack.values[i], g);
    store_pack(d + first, pack);
  });
  const auto visit_one = [&](std::int64_t i) { d[i] = gradient_of(i, x[i], g); };
  visit_head(parts, visit_one);
  visit_tail(parts, classes, visit_one);
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
  const RowParts<T> parts(row * a.pitch, a.classes);
  Pack<T> zeros;
  for (T& zero : zeros.values) zero = from_float<T>(0.0f);
  for (std::int64_t p = threadIdx.x; p < parts.packs; p += blockDim.x)
    store_pack(d + parts.head + p * Pack<T>::kElems, zeros);
  const auto visit_one = [&](std::int64_t i) { d[i] = zeros.values[0]; };
  visit_head(parts, visit_one);
  visit_tail(parts, a.classes, visit_one);
  zero_padding(d, a.classes, a.pitch);
}

/// A block a row.
template <typename T>
__global__ void __launch_bounds__(kMostThreads) cross_entropy_kernel(CrossEntropy<T> a) {
  const std::int64_t row = blockIdx.x;
  const std::int32_t label = a.labels[row];
  if (label == a.ignored) return ignore_row(a, row);
  const T* const x = a.logits + row * a.pitch;
  const RowParts<T> parts(row * a.pitch, a.classes);
  const bool smoothed = a.label_smoothing > 0.0f;
  const float of_label = to_float(x[label]);

  RowSums<T> sums;
  const auto add_one = [&](std::int64_t i) {
    const T value[1] = {x[i]};
    sums.add(i, value, smoothed);
  };
  visit_head(parts, add_one);
  visit_packs(x, parts, false, [&](std::int64_t first, const Pack<T>& pack) {
    sums.add(first, pack.values, smoothed);
  });
  visit_tail(parts, a.classes, add_one);
  const float top = block_reduce(sums.top(), Max{}, dynamic_shared<float>());
  const std::int32_t winner =
      block_reduce(sums.index_of(top), Least{}, dynamic_shared<std::int32_t>());
  const float sum = block_sum(sums.sum_below(top), dynamic_shared<float>());
  const float all = smoothed ? block_sum(sums.all(), dynamic_shared<float>()) : 0.0f;

  const float keep = 1.0f - a.label_smoothing, smooth = a.label_smoothing / float(a.classes);
  if (threadIdx.x == 0) {
    float loss = logf(sum) - keep * (of_label - top);
    if (smoothed) loss -= smooth * (all - float(a.classes) * top);
    a.losses[row] = loss;
    a.states[row] = winner == label ? kCorrect : kWrong;
  }
  if (a.dlogits == nullptr) return;
  const float weight = row_weight(a.sample_weight, a.tokens);
  T* const d = a.dlogits + row * a.pitch;
  zero_padding(d, a.classes, a.pitch);
  write_gradient(d,
                 x,
                 parts,
                 a.classes,
                 {.top = top,
                  .factor = weight / sum,
                  .off = -weight * smooth,
                  .on = -weight * keep,
                  .label = label});
}

/// Where the sums go; null: not wanted.
struct LossOutputs {
  float* values[3];  ///< loss, correct, counted
  bool add[3];       ///< to what is there
};

/// One block.
__global__ void __launch_bounds__(kSumThreads) add_rows_kernel(LossOutputs outputs,
                                                               const float* losses,
                                                               const std::int32_t* states,
                                                               std::int64_t rows,
                                                               const float* sample_weight,
                                                               std::int64_t tokens) {
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
  if (threadIdx.x != 0) return;
  const auto weight = double(row_weight(sample_weight, tokens));
  for (int i = 0; i < 3; ++i) {
    if (outputs.values[i] == nullptr) continue;
    const auto value = float(sums[i] * weight);
    float& output = *outputs.values[i];
    output = outputs.add[i] ? output + value : value;
  }
}

int threads_for(std::int64_t classes) {
  return classes <= 512 ? kWarp : classes <= 4096 ? 128 : kMostThreads;
}

template <typename T>
class SoftmaxCrossEntropyKernel final : public BoundKernel {
 public:
  SoftmaxCrossEntropyKernel(const ops::SoftmaxCrossEntropy& op,
                            const KernelSpec& spec,
                            const Device& device)
      : BoundKernel(device),
        gradient_output_(op.with_gradient() ? op.gradient_output() : -1),
        counts_(op.ignore_index().has_value()),
        accumulates_(spec.output_accumulates) {
    work_.rows = spec.inputs[1].elems();
    work_.classes = op.classes(spec.inputs[0]);
    work_.pitch = spec.inputs[0].shape[-1];
    work_.tokens = spec.inputs[0].shape.rank() == 3 ? spec.inputs[0].shape[1] : 1;
    work_.label_smoothing = op.label_smoothing();
    work_.ignored = op.ignore_index().value_or(kNoLabel);
  }

  std::size_t workspace_bytes() const override {
    return std::size_t(work_.rows) * (sizeof(float) + sizeof(std::int32_t));
  }

  void run(const RunState& state) override {
    work_.logits = input<T>(0);
    work_.labels = input<std::int32_t>(1);
    work_.sample_weight = input(2);
    work_.dlogits = gradient_output_ < 0 ? nullptr : output<T>(std::size_t(gradient_output_));
    work_.losses = workspace<float>();
    work_.states = workspace<std::int32_t>(std::size_t(work_.rows) * sizeof(float));
    const int threads = threads_for(work_.classes);
    launch("softmax_cross_entropy",
           {.grid = dim3(unsigned(work_.rows)),
            .block = dim3(unsigned(threads)),
            .shared_bytes = std::size_t(threads / kWarp) * sizeof(float)},
           stream(),
           cross_entropy_kernel<T>,
           work_);
    LossOutputs outputs{};
    for (std::size_t i = 0; i < (counts_ ? 3u : 2u); ++i) {
      outputs.values[i] = output(i);
      outputs.add[i] = accumulates_[i] && state.accumulate;
    }
    // No more than find a row: the order of the sums depends on the rows alone.
    const std::int64_t wanted = std::max<std::int64_t>(1, ceil_div(work_.rows, kWarp)) * kWarp;
    const auto sum_threads = int(std::min<std::int64_t>(kSumThreads, wanted));
    launch("softmax_cross_entropy_sums",
           {.block = dim3(unsigned(sum_threads)),
            .shared_bytes = std::size_t(sum_threads) / kWarp * sizeof(double)},
           stream(),
           add_rows_kernel,
           outputs,
           work_.losses,
           work_.states,
           work_.rows,
           work_.sample_weight,
           work_.tokens);
  }

 private:
  CrossEntropy<T> work_;
  int gradient_output_;
  bool counts_;
  std::vector<bool> accumulates_;
};

}  // namespace

std::unique_ptr<Kernel> make_softmax_cross_entropy_kernel(const ops::SoftmaxCrossEntropy& op,
                                                          const KernelSpec& spec,
                                                          const Device& device) {
  return make_stored<SoftmaxCrossEntropyKernel>(spec.inputs[0].dtype, op, spec, device);
}

}  // namespace lockstep::cuda
