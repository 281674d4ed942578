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
// Few rows of few classes are a step of a block program instead: small_loss.cuh.
namespace lockstep::cuda {
namespace {

constexpr int kMaxThreads = 512;
constexpr int kSumThreads = 1024;

struct Least {
  __device__ std::int32_t operator()(std::int32_t a, std::int32_t b) const { return a < b ? a : b; }
};

/// d = gradient of x; they may be the same. `r`: of the row.
template <typename T>
__device__ inline void write_gradient(T* d,
                                      const T* x,
                                      const RowParts<T>& parts,
                                      int classes,
                                      const RowGradient& g,
                                      const RowResult& r) {
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

/// A block a row.
template <typename T>
__global__ void __launch_bounds__(kMaxThreads) cross_entropy_kernel(CrossEntropy<T> a) {
  const std::int64_t row = blockIdx.x;
  const std::int32_t label = a.labels[row];
  if (label == a.ignored) return ignore_row(a, row);
  const T* const x = a.logits + row * a.pitch;
  const int classes = int(a.classes);
  const RowParts<T> parts(row * a.pitch, classes);
  const bool smoothed = a.label_smoothing > 0.0f;
  const float of_label = to_float(x[label]);

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

  const RowResult result{
      .top = top, .winner = winner, .sum = sum, .all = all, .label = label, .of_label = of_label};
  if (threadIdx.x == 0) store_loss(a, row, result);
  if (a.dlogits == nullptr) return;
  T* const d = a.dlogits + row * a.pitch;
  zero_padding(d, a.classes, a.pitch);
  write_gradient(d, x, parts, classes, gradient_factors(a, result), result);
}

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
        accumulates_(spec.output_accumulates) {
    work_.rows = spec.inputs[1].elems();
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
  /// Without losses and states.
  CrossEntropy<T> work() const {
    CrossEntropy<T> work = work_;
    work.logits = this->template input<T>(0);
    work.labels = this->template input<std::int32_t>(1);
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
  bool counts_;
  std::vector<bool> accumulates_;
};

template <typename T>
class SoftmaxCrossEntropyKernel final : public LossKernel<T, BoundKernel> {
 public:
  using LossKernel<T, BoundKernel>::LossKernel;

  std::size_t workspace_bytes() const override {
    return std::size_t(this->rows()) * (sizeof(float) + sizeof(std::int32_t));
  }

  void run(const RunState& state) override {
    CrossEntropy<T> work = this->work();
    work.losses = this->template workspace<float>();
    work.states = this->template workspace<std::int32_t>(std::size_t(work.rows) * sizeof(float));
    const int threads = threads_for(work.classes);
    launch("softmax_cross_entropy",
           {.grid = dim3(unsigned(work.rows)),
            .block = dim3(unsigned(threads)),
            .shared_bytes = std::size_t(threads / kWarp) * sizeof(float)},
           this->stream(),
           cross_entropy_kernel<T>,
           work);
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
};

class SmallLossKernel final : public LossKernel<float, SmallKernel> {
 public:
  using LossKernel::LossKernel;

  BlockStep step() const override {
    BlockStep step;
    step.kind = BlockStep::Kind::loss;
    step.loss = {.work = work(), .outputs = outputs(/*accumulate=*/true)};
    return step;
  }
};

bool is_small(const ops::SoftmaxCrossEntropy& op, const KernelSpec& spec) {
  return spec.inputs[0].dtype == DType::f32 && spec.inputs[1].elems() <= kMaxSmallLossRows &&
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
