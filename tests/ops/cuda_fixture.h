// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <memory>
#include <sstream>
#include <string>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/device/device_probe.h"

namespace lockstep::test {

/// Tests of the CUDA backend: on a GPU, or on the emulator that the program is linked with instead.
class CudaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const DeviceProbe probe = probe_cuda();
    if (probe.devices == 0) GTEST_SKIP() << probe.reason << "; " << probe.hint;
    backend_ = make_cuda_backend(0);
  }
  Backend& backend() { return *backend_; }
  /// Has own kernels run where a library's attention was chosen; whether there was one.
  bool use_own_attention() {
    std::istringstream lines(backend_->choices());
    std::string changed;
    bool found = false;
    for (std::string line; std::getline(lines, line); changed += line + '\n') {
      const std::size_t first = line.find('\t'), second = line.find('\t', first + 1);
      if (!line.starts_with("attention ") || second == first + 1) continue;
      line = line.substr(0, first) + "\t\ta test wants the own kernel";
      found = true;
    }
    backend_->take_choices(changed);
    return found;
  }

 private:
  std::unique_ptr<Backend> backend_;
};

}  // namespace lockstep::test
