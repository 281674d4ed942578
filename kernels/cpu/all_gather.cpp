// SPDX-License-Identifier: Apache-2.0
#include "core/ops/all_gather.h"

#include <cstring>

#include "core/exec/communicator.h"
#include "kernels/cpu/bound_kernel.h"
#include "kernels/cpu/kernel_list.h"

namespace lockstep::cpu {
namespace {

class AllGatherKernel final : public BoundKernel {
 public:
  AllGatherKernel(std::int64_t parts, std::size_t bytes) : parts_(parts), bytes_(bytes) {}

  void run(const RunState& state) override {
    if (state.group == nullptr) {
      LOCKSTEP_ASSERT(parts_ == 1);
      std::memcpy(output<void>(0), input<void>(0), bytes_);
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

std::unique_ptr<Kernel> make_all_gather_kernel(const ops::AllGather& op, const KernelSpec& spec) {
  return std::make_unique<AllGatherKernel>(op.parts(), spec.inputs[0].bytes());
}

}  // namespace lockstep::cpu
