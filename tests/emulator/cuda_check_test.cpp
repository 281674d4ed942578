// SPDX-License-Identifier: Apache-2.0
// What becomes of an error code of CUDA: which GPU, what it was about, the cause by name, what to
// do and the exit code.
#include "kernels/cuda/device/cuda_check.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/error.h"

namespace lockstep::test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Mapped {
  cudaError_t status;
  const char* name;
  const char* hint;
  ExitCode exit_code;
};

class CudaCheck : public ::testing::TestWithParam<Mapped> {};

TEST_P(CudaCheck, NamesGpuCauseAndRemedy) {
  const Mapped& mapped = GetParam();
  try {
    cuda::check(mapped.status, "layer1.conv2d");
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), StartsWith(fmt::format("GPU 0: layer1.conv2d: {} (", mapped.name)));
    EXPECT_THAT(error.hint(), HasSubstr(mapped.hint));
    EXPECT_EQ(error.exit_code(), mapped.exit_code);
  }
}

// 1: a mistake of ours; 3: the machine; 4: memory.
INSTANTIATE_TEST_SUITE_P(
    Codes,
    CudaCheck,
    ::testing::Values(
        Mapped{cudaErrorIllegalAddress,
               "cudaErrorIllegalAddress",
               "LOCKSTEP_SYNC=1 names its operator, compute-sanitizer its mistake",
               ExitCode::error},
        Mapped{cudaErrorMisalignedAddress,
               "cudaErrorMisalignedAddress",
               "a kernel faulted",
               ExitCode::error},
        Mapped{
            cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "a kernel faulted", ExitCode::error},
        Mapped{cudaErrorAssert, "cudaErrorAssert", "a kernel faulted", ExitCode::error},
        Mapped{cudaErrorECCUncorrectable,
               "cudaErrorECCUncorrectable",
               "the device is broken or taken: nvidia-smi -q",
               ExitCode::environment},
        Mapped{cudaErrorDevicesUnavailable,
               "cudaErrorDevicesUnavailable",
               "use another one",
               ExitCode::environment},
        Mapped{cudaErrorInsufficientDriver,
               "cudaErrorInsufficientDriver",
               "update the NVIDIA driver",
               ExitCode::environment},
        Mapped{cudaErrorNoKernelImageForDevice,
               "cudaErrorNoKernelImageForDevice",
               "-DCMAKE_CUDA_ARCHITECTURES=native",
               ExitCode::environment},
        Mapped{cudaErrorUnknown,
               "cudaErrorUnknown",
               "dmesg the driver's messages",
               ExitCode::environment},
        Mapped{cudaErrorMemoryAllocation,
               "cudaErrorMemoryAllocation",
               "smaller micro-batch",
               ExitCode::out_of_memory}),
    [](const auto& mapped) { return std::string(mapped.param.name); });

TEST(CudaCheckOfSuccess, ThrowsNothing) { EXPECT_NO_THROW(cuda::check(cudaSuccess, "anything")); }

}  // namespace
}  // namespace lockstep::test
