// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "core/exec/dry_backend.h"

namespace lockstep {

/// A device whose kernels are wanted for their sizes alone: what workspace and which packed copies
/// each asks for is learned from a kernel of the device itself, once for every operator, attributes
/// and types, and then remembered. Programs compiled for it have the plans that they have on the
/// device, in a fraction of the time, and cannot run.
class SizingBackend final : public DryBackend {
 public:
  /// `device` outlives it.
  explicit SizingBackend(Backend& device) : DryBackend(device.traits()), device_(device) {}

  std::string device_class() const override { return device_.device_class(); }
  bool allow_tf32(bool allowed) override;
  std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec) override;

 private:
  struct Sizes {
    std::size_t workspace = 0;
    std::vector<PackedCopy> packed;
  };
  class SizedKernel;

  Backend& device_;
  bool tf32_ = false;
  std::map<std::string, Sizes> known_;
};

}  // namespace lockstep
