// SPDX-License-Identifier: Apache-2.0
#include "core/ops/add.h"
#include "kernels/cuda/bound_kernel.h"
#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/kernel_list.h"

// map() of elementwise.cuh. Bytes: a, b and y once; where the output accumulates, that once more.
// Bound by memory.
namespace lockstep::cuda {
namespace {

struct AddTwo {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct AddOnto {
  __device__ float operator()(float out, float a, float b) const { return out + (a + b); }
};

template <typename T>
class AddKernel final : public BoundKernel {
 public:
  AddKernel(std::int64_t elems, const Device& device) : BoundKernel(device), elems_(elems) {}
  void run(const RunState&) override {
    map("add", AddTwo{}, output<T>(0), elems_, stream(), input<T>(0), input<T>(1));
  }

 private:
  std::int64_t elems_;
};

/// The output is a gradient in the flat space.
class AddGradientsKernel final : public BoundKernel {
 public:
  AddGradientsKernel(std::int64_t elems, const Device& device)
      : BoundKernel(device), elems_(elems) {}
  void run(const RunState& state) override {
    const float* const out = output(0);
    if (state.accumulate)
      map("add_onto", AddOnto{}, output(0), elems_, stream(), out, input(0), input(1));
    else
      map("add", AddTwo{}, output(0), elems_, stream(), input(0), input(1));
  }

 private:
  std::int64_t elems_;
};

}  // namespace

std::unique_ptr<Kernel> make_add_kernel(const ops::Add&,
                                        const KernelSpec& spec,
                                        const Device& device) {
  const std::int64_t elems = spec.inputs[0].elems();
  if (spec.output_accumulates[0]) return std::make_unique<AddGradientsKernel>(elems, device);
  return make_stored<AddKernel>(spec.inputs[0].dtype, elems, device);
}

}  // namespace lockstep::cuda
