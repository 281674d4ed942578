// SPDX-License-Identifier: Apache-2.0
#include "core/exec/sizing_backend.h"

namespace lockstep {
namespace {

template <typename T>
void append(std::string& key, const T& number) {
  key.append(reinterpret_cast<const char*>(&number), sizeof number);
}

void append(std::string& key, const std::vector<TensorType>& types) {
  append(key, types.size());
  for (const TensorType& type : types) {
    append(key, type.dtype);
    append(key, type.shape.rank());
    for (int d = 0; d < type.shape.rank(); ++d) append(key, type.shape[d]);
  }
}

/// Everything of `spec` that a kernel's sizes may follow from: neither where in the model it is nor
/// which parameter it reads.
std::string key_of(const KernelSpec& spec, bool tf32) {
  std::string key;
  append(key, tf32);
  append(key, spec.op.kind());
  append(key, spec.inputs);
  append(key, spec.outputs);
  for (const int parameter : spec.input_parameter) append(key, parameter >= 0);
  for (const bool accumulates : spec.output_accumulates) append(key, accumulates);
  return key + spec.op.attributes();
}

}  // namespace

class SizingBackend::SizedKernel final : public Kernel {
 public:
  explicit SizedKernel(const Sizes& sizes) : sizes_(sizes) {}
  std::size_t workspace_bytes() const override { return sizes_.workspace; }
  std::vector<PackedCopy> packed_copies() const override { return sizes_.packed; }
  void bind(const KernelBuffers&) override {}
  void run(const RunState&) override { throw InternalError("a kernel for its sizes alone ran"); }

 private:
  const Sizes sizes_;  // a program may outlive the backend
};

bool SizingBackend::allow_tf32(bool allowed) {
  tf32_ = allowed;
  return device_.allow_tf32(allowed);
}

std::unique_ptr<Kernel> SizingBackend::make_kernel(const KernelSpec& spec) {
  std::string key = key_of(spec, tf32_);
  auto known = known_.find(key);
  if (known == known_.end()) {
    const auto kernel = device_.make_kernel(spec);
    const Sizes sizes{kernel->workspace_bytes(), kernel->packed_copies()};
    known = known_.emplace(std::move(key), sizes).first;
  }
  return std::make_unique<SizedKernel>(known->second);
}

}  // namespace lockstep
