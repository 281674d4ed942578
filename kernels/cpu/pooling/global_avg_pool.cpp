// SPDX-License-Identifier: Apache-2.0
#include "core/ops/pooling/global_avg_pool.h"

#include "kernels/cpu/bound_kernel.h"
#include "kernels/cpu/kernel_list.h"
#include "kernels/cpu/pooling/pooling.h"

namespace lockstep::cpu {
namespace {

struct PooledExtents {
  explicit PooledExtents(const Shape& x) : n(x[0]), positions(x[1] * x[2]), c(x[3]) {}
  std::int64_t n, positions, c;
  float scale = 1.0f / float(positions);
};

template <typename T>
class GlobalAvgPoolKernel final : public BoundKernel {
 public:
  explicit GlobalAvgPoolKernel(const Shape& x) : x_(x) {}
  void run(const RunState&) override {
    sum_positions_(output<T>(0), input<T>(0), x_.n, x_.positions, x_.c, x_.scale);
  }

 private:
  decltype(&baseline::sum_positions<T>) sum_positions_ = LOCKSTEP_CHOOSE(sum_positions<T>);
  PooledExtents x_;
};

template <typename T>
class GlobalAvgPoolBwdKernel final : public BoundKernel {
 public:
  explicit GlobalAvgPoolBwdKernel(const Shape& x) : x_(x) {}
  void run(const RunState&) override {
    spread_positions_(output<T>(0), input<T>(0), x_.n, x_.positions, x_.c, x_.scale);
  }

 private:
  decltype(&baseline::spread_positions<T>) spread_positions_ = LOCKSTEP_CHOOSE(spread_positions<T>);
  PooledExtents x_;
};

}  // namespace

std::unique_ptr<Kernel> make_global_avg_pool_kernel(const ops::GlobalAvgPool&,
                                                    const KernelSpec& spec) {
  return make_stored<GlobalAvgPoolKernel>(spec.inputs[0].dtype, spec.inputs[0].shape);
}

std::unique_ptr<Kernel> make_global_avg_pool_bwd_kernel(const ops::GlobalAvgPoolBwd&,
                                                        const KernelSpec& spec) {
  return make_stored<GlobalAvgPoolBwdKernel>(spec.inputs[0].dtype, spec.outputs[0].shape);
}

}  // namespace lockstep::cpu
