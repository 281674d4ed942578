// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <memory>

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

 private:
  std::unique_ptr<Backend> backend_;
};

}  // namespace lockstep::test
