// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "core/ops/losses/distillation_loss.h"
#include "kernels/cuda/arithmetic.cuh"
#include "kernels/cuda/bound_kernel.h"
#include "kernels/cuda/kernel_list.h"
#include "kernels/cuda/reduce.cuh"

// Two softmaxes a row, of student and teacher, their divergence and its gradient. First kernel: a
// block a row, whose threads walk over its classes. Second kernel: one block adds the rows in fp64.
// Bytes: x and t twice, the second time from caches, and dx once. Bound by memory.
namespace lockstep::cuda {
namespace {

constexpr int kMaxThreads = 512;
constexpr int kSumThreads = 1024;

/// x, t and dx (null: not wanted; it may be x) are [rows, classes].
struct Distillation {
  const float* x;
  const float* t;
  float* dx;
  double* losses;  // [rows]
  std::int64_t rows;
  int classes;
  const float* sample_weight;
  const float* base;
  float alpha, temperature;

  __device__ double weight() const { return double(sample_weight[0]) * double(alpha); }
};

struct Least {
  __device__ int operator()(int a, int b) const { return a < b ? a : b; }
};

/// The largest of a row, by all threads of the block.
__device__ inline float top_of_row(const float* x, int classes) {
  float top = -INFINITY;
  for (int i = int(threadIdx.x); i < classes; i += int(blockDim.x)) top = Max{}(x[i], top);
  return block_reduce(top, Max{}, dynamic_shared<float>());
}

__global__ void __launch_bounds__(kMaxThreads) soft_distillation_kernel(Distillation a) {
  wait_for_earlier_work();
  const std::int64_t row = blockIdx.x;
  const float* const x = a.x + row * a.classes;
  const float* const t = a.t + row * a.classes;
  const float top = top_of_row(x, a.classes), teachers = top_of_row(t, a.classes);
  const float inverse = 1.0f / a.temperature;
  float sum = 0, teachers_sum = 0, apart = 0;
  for (int i = int(threadIdx.x); i < a.classes; i += int(blockDim.x)) {
    const float student = (x[i] - top) * inverse, wanted = (t[i] - teachers) * inverse;
    const float q = exp_nonpositive(wanted);
    sum += exp_nonpositive(student);
    teachers_sum += q;
    apart += q * (wanted - student);
  }
  sum = block_sum(sum, dynamic_shared<float>());
  teachers_sum = block_sum(teachers_sum, dynamic_shared<float>());
  apart = block_sum(apart, dynamic_shared<float>());
  if (threadIdx.x == 0)
    a.losses[row] = double(apart / teachers_sum) + double(logf(sum)) - double(logf(teachers_sum));
  if (a.dx == nullptr) return;
  const auto factor = float(a.weight() * double(a.temperature));
  const float p_factor = factor / sum, q_factor = factor / teachers_sum;
  float* const d = a.dx + row * a.classes;
  for (int i = int(threadIdx.x); i < a.classes; i += int(blockDim.x))
    d[i] = exp_nonpositive((x[i] - top) * inverse) * p_factor -
           exp_nonpositive((t[i] - teachers) * inverse) * q_factor;
}

__global__ void __launch_bounds__(kMaxThreads) hard_distillation_kernel(Distillation a) {
  wait_for_earlier_work();
  const std::int64_t row = blockIdx.x;
  const float* const x = a.x + row * a.classes;
  const float* const t = a.t + row * a.classes;
  const float top = top_of_row(x, a.classes), teachers = top_of_row(t, a.classes);
  int likeliest = a.classes - 1;
  float sum = 0;
  for (int i = int(threadIdx.x); i < a.classes; i += int(blockDim.x)) {
    if (t[i] == teachers && i < likeliest) likeliest = i;
    sum += exp_nonpositive(x[i] - top);
  }
  likeliest = block_reduce(likeliest, Least{}, dynamic_shared<int>());
  sum = block_sum(sum, dynamic_shared<float>());
  if (threadIdx.x == 0) a.losses[row] = double(logf(sum)) - double(x[likeliest] - top);
  if (a.dx == nullptr) return;
  __syncthreads();  // the loss is read from x, which dx may overwrite
  const auto factor = float(a.weight());
  float* const d = a.dx + row * a.classes;
  for (int i = int(threadIdx.x); i < a.classes; i += int(blockDim.x)) {
    const float p = exp_nonpositive(x[i] - top) * (factor / sum);
    d[i] = i == likeliest ? p - factor : p;
  }
}

/// One block.
__global__ void __launch_bounds__(kSumThreads)
    add_distillation_rows_kernel(float* loss, bool adds_loss, Distillation a) {
  wait_for_earlier_work();
  double sum = 0;
  for (std::int64_t r = threadIdx.x; r < a.rows; r += blockDim.x) sum += a.losses[r];
  sum = block_sum(sum, dynamic_shared<double>());
  if (threadIdx.x != 0) return;
  const double temperature = a.temperature;
  const auto value = float(double(a.base[0]) + a.weight() * temperature * temperature * sum);
  loss[0] = adds_loss ? loss[0] + value : value;
}

class DistillationLossKernel final : public BoundKernel {
 public:
  DistillationLossKernel(const ops::DistillationLoss& op,
                         const KernelSpec& spec,
                         const Device& device)
      : BoundKernel(device),
        distilled_(op.distilled()),
        rows_(spec.inputs[0].shape[0]),
        classes_(spec.inputs[0].shape[1]),
        with_gradient_(op.with_gradient()),
        adds_loss_(spec.output_accumulates[0]) {
    LOCKSTEP_CHECK(classes_ <= INT32_MAX,
                   Error,
                   "distillation_loss: at most 2^31 - 1 classes on a GPU, got {}",
                   classes_);
  }

  std::size_t workspace_bytes() const override { return std::size_t(rows_) * sizeof(double); }

  void run(const RunState& state) override {
    const Distillation work{.x = input(0),
                            .t = input(1),
                            .dx = with_gradient_ ? output(1) : nullptr,
                            .losses = workspace<double>(),
                            .rows = rows_,
                            .classes = int(classes_),
                            .sample_weight = input(2),
                            .base = input(3),
                            .alpha = distilled_.alpha,
                            .temperature = distilled_.temperature};
    const int threads = classes_ <= 512 ? kWarp : classes_ <= 4096 ? 128 : kMaxThreads;
    const LaunchShape shape{.grid = dim3(unsigned(rows_)),
                            .block = dim3(unsigned(threads)),
                            .shared_bytes = std::size_t(threads / kWarp) * sizeof(float)};
    if (distilled_.hard)
      launch("hard_distillation_loss", shape, stream(), hard_distillation_kernel, work);
    else
      launch("distillation_loss", shape, stream(), soft_distillation_kernel, work);
    // No more than find a row: the order of the sums depends on the rows alone.
    const std::int64_t wanted = std::max<std::int64_t>(1, ceil_div(rows_, kWarp)) * kWarp;
    const auto sum_threads = int(std::min<std::int64_t>(kSumThreads, wanted));
    launch("distillation_loss_sum",
           {.block = dim3(unsigned(sum_threads)),
            .shared_bytes = std::size_t(sum_threads) / kWarp * sizeof(double)},
           stream(),
           add_distillation_rows_kernel,
           output(0),
           adds_loss_ && state.accumulate,
           work);
  }

 private:
  ops::Distilled distilled_;
  std::int64_t rows_, classes_;
  bool with_gradient_, adds_loss_;
};

}  // namespace

std::unique_ptr<Kernel> make_distillation_loss_kernel(const ops::DistillationLoss& op,
                                                      const KernelSpec& spec,
                                                      const Device& device) {
  return std::make_unique<DistillationLossKernel>(op, spec, device);
}

}  // namespace lockstep::cuda
