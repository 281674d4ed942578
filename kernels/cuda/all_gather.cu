// SPDX-License-Identifier: Apache-2.0
#include "core/base/check.h"
#include "core/exec/communicator.h"
#include "core/ops/all_gather.h"
#include "kernels/cuda/bound_kernel.h"
#include "kernels/cuda/device/cuda_check.h"
#include "kernels/cuda/kernel_list.h"

// No kernel of its own: one part is copied on the compute stream, several are gathered by the
// communicator, which takes device memory and copies from it on the compute stream, and so in order
// with what wrote the part. A graph that is captured holds it (NCCL) or ends before it. Bytes: a
// few vectors of channels; bound by latency.
namespace lockstep::cuda {
namespace {

class AllGatherKernel final : public BoundKernel {
 public:
  AllGatherKernel(std::int64_t parts, std::size_t bytes, const Device& device)
      : BoundKernel(device), parts_(parts), bytes_(bytes) {}

  void run(const RunState& state) override {
    if (state.group == nullptr) {
      LOCKSTEP_ASSERT(parts_ == 1);
      check(cudaMemcpyAsync(
                output<void>(0), input<void>(0), bytes_, cudaMemcpyDeviceToDevice, stream()),
            "all_gather");
      return;
    }
    LOCKSTEP_ASSERT(state.group->size() == parts_);
    state.group->all_gather(input<void>(0), output<void>(0), bytes_);
  }

 private:
  std::int64_t parts_;
  std::size_t bytes_;  // of one part
};

}  // namespace

std::unique_ptr<Kernel> make_all_gather_kernel(const ops::AllGather& op,
                                               const KernelSpec& spec,
                                               const Device& device) {
  return std::make_unique<AllGatherKernel>(op.parts(), spec.inputs[0].bytes(), device);
}

}  // namespace lockstep::cuda
