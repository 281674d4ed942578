// SPDX-License-Identifier: Apache-2.0
#include "core/ops/scale.h"
#include "kernels/cuda/bound_kernel.h"
#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/kernel_list.h"

// Work, bytes and bound: those of elementwise.cuh.
namespace lockstep::cuda {
namespace {

struct Multiply {
  float factor;
  __device__ float operator()(float x) const { return factor * x; }
};

template <typename T>
class ScaleKernel final : public BoundKernel {
 public:
  ScaleKernel(float factor, std::int64_t elems, const Device& device)
      : BoundKernel(device), factor_(factor), elems_(elems) {}
  void run(const RunState&) override {
    map("scale", Multiply{factor_}, output<T>(0), elems_, stream(), input<T>(0));
  }

 private:
  float factor_;
  std::int64_t elems_;
};

}  // namespace

std::unique_ptr<Kernel> make_scale_kernel(const ops::Scale& op,
                                          const KernelSpec& spec,
                                          const Device& device) {
  return make_stored<ScaleKernel>(
      spec.inputs[0].dtype, op.factor(), spec.inputs[0].elems(), device);
}

}  // namespace lockstep::cuda
