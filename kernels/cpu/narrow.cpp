// SPDX-License-Identifier: Apache-2.0
#include "core/ops/narrow.h"

#include <cstring>

#include "kernels/cpu/bound_kernel.h"
#include "kernels/cpu/kernel_list.h"

namespace lockstep::cpu {
namespace {

/// Bytes of a sample's tokens before, in and after the part.
struct Part {
  std::int64_t samples = 0;
  std::size_t before = 0, bytes = 0, after = 0;
};

Part part_of(const TensorType& whole, const TensorType& part, std::int64_t start) {
  const std::size_t token = std::size_t(whole.shape[2]) * size_in_bytes(whole.dtype);
  const std::int64_t after = whole.shape[1] - start - part.shape[1];
  return {whole.shape[0],
          std::size_t(start) * token,
          std::size_t(part.shape[1]) * token,
          std::size_t(after) * token};
}

class NarrowKernel final : public BoundKernel {
 public:
  NarrowKernel(const ops::Narrow& op, const KernelSpec& spec)
      : part_(part_of(spec.inputs[0], spec.outputs[0], op.start())) {}
  void run(const RunState&) override {
    if (part_.bytes == 0) return;
    const std::byte* from = input<std::byte>(0);
    std::byte* to = output<std::byte>(0);
    for (std::int64_t n = 0; n < part_.samples; ++n) {
      std::memcpy(to, from + part_.before, part_.bytes);
      from += part_.before + part_.bytes + part_.after;
      to += part_.bytes;
    }
  }

 private:
  Part part_;
};

class NarrowBwdKernel final : public BoundKernel {
 public:
  NarrowBwdKernel(const ops::NarrowBwd& op, const KernelSpec& spec)
      : part_(part_of(spec.outputs[0], spec.inputs[0], op.start())) {}
  void run(const RunState&) override {
    if (part_.before + part_.bytes + part_.after == 0) return;
    const std::byte* from = input<std::byte>(0);
    std::byte* to = output<std::byte>(0);
    for (std::int64_t n = 0; n < part_.samples; ++n) {
      std::memset(to, 0, part_.before);
      if (part_.bytes > 0) std::memcpy(to + part_.before, from, part_.bytes);
      std::memset(to + part_.before + part_.bytes, 0, part_.after);
      to += part_.before + part_.bytes + part_.after;
      from += part_.bytes;
    }
  }

 private:
  Part part_;
};

}  // namespace

std::unique_ptr<Kernel> make_narrow_kernel(const ops::Narrow& op, const KernelSpec& spec) {
  return std::make_unique<NarrowKernel>(op, spec);
}

std::unique_ptr<Kernel> make_narrow_bwd_kernel(const ops::NarrowBwd& op, const KernelSpec& spec) {
  return std::make_unique<NarrowBwdKernel>(op, spec);
}

}  // namespace lockstep::cpu
