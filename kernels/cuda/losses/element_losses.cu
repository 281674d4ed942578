// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "core/ops/losses/binary_cross_entropy.h"
#include "core/ops/losses/regression_losses.h"
#include "kernels/cuda/arithmetic.cuh"
#include "kernels/cuda/bound_kernel.h"
#include "kernels/cuda/group_access.cuh"
#include "kernels/cuda/kernel_list.h"
#include "kernels/cuda/reduce.cuh"

// Losses whose target has the shape of the prediction, and their gradients: squared, absolute and
// Huber's error, and binary cross-entropy. First kernel: a thread takes four neighbouring elements
// at a time and walks on by the grid, whose size the extents fix; it adds their losses in fp64,
// where squares are exact, and a block joins its threads. Second kernel: one block adds the blocks.
// Bytes: x, t and dx once. Bound by memory.
namespace lockstep::cuda {
namespace {

constexpr std::int64_t kMaxBlocks = 1024;
constexpr int kGroup = Pack<float>::kElems;

/// Of one element.
struct ElementLoss {
  double loss;
  float slope;  ///< dx before the factor
  int correct = 0;
};

/// The losses: `of` an element, kSlopeFactor * w / D is the factor of dx; with kCounts there is an
/// output of correct elements.
struct SquaredError {
  static constexpr const char* kName = "mean_squared_error";
  static constexpr const char* kSumName = "mean_squared_error_sum";
  static constexpr double kSlopeFactor = 2;
  static constexpr bool kCounts = false;
  explicit SquaredError(const ops::MeanSquaredError&) {}
  __device__ ElementLoss of(float x, float t) const {
    const float d = x - t;
    return {double(d) * double(d), d};
  }
};

struct AbsoluteError {
  static constexpr const char* kName = "l1_loss";
  static constexpr const char* kSumName = "l1_loss_sum";
  static constexpr double kSlopeFactor = 1;
  static constexpr bool kCounts = false;
  explicit AbsoluteError(const ops::L1Loss&) {}
  __device__ ElementLoss of(float x, float t) const {
    const float d = x - t;
    return {double(fabsf(d)), d > 0.0f ? 1.0f : d < 0.0f ? -1.0f : d};
  }
};

/// NaN stays NaN: no comparison with it is true.
struct HuberError {
  static constexpr const char* kName = "huber_loss";
  static constexpr const char* kSumName = "huber_loss_sum";
  static constexpr double kSlopeFactor = 1;
  static constexpr bool kCounts = false;
  explicit HuberError(const ops::HuberLoss& op) : delta(op.delta()) {}
  __device__ ElementLoss of(float x, float t) const {
    const float d = x - t, size = fabsf(d);
    const double a = size > delta ? double(delta) : double(size);
    return {a * (double(size) - 0.5 * a), d > delta ? delta : d < -delta ? -delta : d};
  }
  float delta;
};

/// The CPU's formula, operation by operation but for the logarithm.
struct BinaryCrossEntropy {
  static constexpr const char* kName = "binary_cross_entropy";
  static constexpr const char* kSumName = "binary_cross_entropy_sums";
  static constexpr double kSlopeFactor = 1;
  static constexpr bool kCounts = true;
  explicit BinaryCrossEntropy(const ops::BinaryCrossEntropy&) {}
  __device__ ElementLoss of(float x, float t) const {
    const float e = exp_nonpositive(-fabsf(x));
    const float positive = x < 0.0f ? 0.0f : x;
    return {double(positive - x * t + log1pf(e)),
            (x < 0.0f ? e : 1.0f) / (1.0f + e) - t,
            (x > 0.0f) == (t > 0.5f) ? 1 : 0};
  }
};

/// x, t and dx (null: not wanted; it may be x) hold `elems` values.
struct ElementLossTensors {
  const float* x;
  const float* t;
  float* dx;
  std::int64_t elems;
  const float* sample_weight;
  std::int64_t features;

  /// w / D
  __device__ double element_weight() const {
    return features == 0 ? 0.0 : double(sample_weight[0]) / double(features);
  }
};

/// What blocks leave for the second kernel, and what it writes; `correct` only with kCounts.
struct ElementLossSums {
  double* losses;
  std::int64_t* correct;
};
struct ElementLossOutputs {
  float* loss;
  float* correct;
  bool adds_loss, adds_correct;
};

struct ThreadSums {
  double loss = 0;
  std::int64_t correct = 0;
};

/// Elements i to i + N - 1.
template <int N, typename Loss>
__device__ inline void add_elements(
    const ElementLossTensors& a, std::int64_t i, float factor, const Loss& loss, ThreadSums& sums) {
  Floats<N> x = load_floats<N>(a.x + i);
  const Floats<N> target = load_floats<N>(a.t + i);
  double of_group = 0;
  for (int k = 0; k < N; ++k) {
    const ElementLoss element = loss.of(x.values[k], target.values[k]);
    of_group += element.loss;
    sums.correct += element.correct;
    x.values[k] = factor * element.slope;
  }
  sums.loss += of_group;
  if (a.dx != nullptr) store_floats(a.dx + i, x);
}

template <typename Loss>
__global__ void element_loss_kernel(ElementLossSums blocks, ElementLossTensors a, Loss loss) {
  wait_for_earlier_work();
  const auto factor = float(Loss::kSlopeFactor * a.element_weight());
  const std::int64_t groups = a.elems / kGroup;
  ThreadSums sums;
  for (std::int64_t g = global_thread(); g < groups; g += all_threads())
    add_elements<kGroup>(a, g * kGroup, factor, loss, sums);
  for (std::int64_t i = groups * kGroup + global_thread(); i < a.elems; i += all_threads())
    add_elements<1>(a, i, factor, loss, sums);
  const double of_block = block_sum(sums.loss, dynamic_shared<double>());
  if (threadIdx.x == 0) blocks.losses[blockIdx.x] = of_block;
  if constexpr (Loss::kCounts) {
    const std::int64_t correct = block_sum(sums.correct, dynamic_shared<std::int64_t>());
    if (threadIdx.x == 0) blocks.correct[blockIdx.x] = correct;
  }
}

/// One block.
template <bool kCounts>
__global__ void add_blocks_kernel(ElementLossOutputs outputs,
                                  ElementLossSums blocks,
                                  std::int64_t count,
                                  ElementLossTensors a) {
  wait_for_earlier_work();
  double loss = 0;
  for (std::int64_t b = threadIdx.x; b < count; b += blockDim.x) loss += blocks.losses[b];
  loss = block_sum(loss, dynamic_shared<double>());
  if (threadIdx.x == 0) {
    const auto value = float(a.element_weight() * loss);
    outputs.loss[0] = outputs.adds_loss ? outputs.loss[0] + value : value;
  }
  if constexpr (kCounts) {
    std::int64_t correct = 0;
    for (std::int64_t b = threadIdx.x; b < count; b += blockDim.x) correct += blocks.correct[b];
    correct = block_sum(correct, dynamic_shared<std::int64_t>());
    if (threadIdx.x != 0) return;
    const auto value = float(a.element_weight() * double(correct));
    outputs.correct[0] = outputs.adds_correct ? outputs.correct[0] + value : value;
  }
}

template <typename Loss>
class ElementLossKernel final : public BoundKernel {
 public:
  template <typename Op>
  ElementLossKernel(const Op& op, const KernelSpec& spec, const Device& device)
      : BoundKernel(device),
        loss_(op),
        elems_(spec.inputs[0].elems()),
        features_(spec.inputs[0].shape[1]),
        shape_(cover(ceil_div(elems_, kGroup), kMaxBlocks)),
        with_gradient_(op.with_gradient()),
        accumulates_(spec.output_accumulates) {
    shape_.shared_bytes = kBlock / kWarp * sizeof(double);
  }

  std::size_t workspace_bytes() const override {
    return shape_.grid.x * (sizeof(double) + (Loss::kCounts ? sizeof(std::int64_t) : 0));
  }

  void run(const RunState& state) override {
    const ElementLossTensors tensors{.x = input(0),
                                     .t = input(1),
                                     .dx = with_gradient_ ? output(Loss::kCounts ? 2 : 1) : nullptr,
                                     .elems = elems_,
                                     .sample_weight = input(2),
                                     .features = features_};
    ElementLossSums blocks{.losses = workspace<double>(), .correct = nullptr};
    ElementLossOutputs outputs{.loss = output(0),
                               .correct = nullptr,
                               .adds_loss = accumulates_[0] && state.accumulate,
                               .adds_correct = false};
    if constexpr (Loss::kCounts) {
      blocks.correct = workspace<std::int64_t>(shape_.grid.x * sizeof(double));
      outputs.correct = output(1);
      outputs.adds_correct = accumulates_[1] && state.accumulate;
    }
    launch(Loss::kName, shape_, stream(), element_loss_kernel<Loss>, blocks, tensors, loss_);
    launch(Loss::kSumName,
           {.shared_bytes = kBlock / kWarp * sizeof(double)},
           stream(),
           add_blocks_kernel<Loss::kCounts>,
           outputs,
           blocks,
           shape_.grid.x,
           tensors);
  }

 private:
  Loss loss_;
  std::int64_t elems_, features_;
  LaunchShape shape_;
  bool with_gradient_;
  std::vector<bool> accumulates_;
};

}  // namespace

std::unique_ptr<Kernel> make_mean_squared_error_kernel(const ops::MeanSquaredError& op,
                                                       const KernelSpec& spec,
                                                       const Device& device) {
  return std::make_unique<ElementLossKernel<SquaredError>>(op, spec, device);
}

std::unique_ptr<Kernel> make_l1_loss_kernel(const ops::L1Loss& op,
                                            const KernelSpec& spec,
                                            const Device& device) {
  return std::make_unique<ElementLossKernel<AbsoluteError>>(op, spec, device);
}

std::unique_ptr<Kernel> make_huber_loss_kernel(const ops::HuberLoss& op,
                                               const KernelSpec& spec,
                                               const Device& device) {
  return std::make_unique<ElementLossKernel<HuberError>>(op, spec, device);
}

std::unique_ptr<Kernel> make_binary_cross_entropy_kernel(const ops::BinaryCrossEntropy& op,
                                                         const KernelSpec& spec,
                                                         const Device& device) {
  return std::make_unique<ElementLossKernel<BinaryCrossEntropy>>(op, spec, device);
}

}  // namespace lockstep::cuda
