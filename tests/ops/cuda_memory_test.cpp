// SPDX-License-Identifier: Apache-2.0
// What lies in device memory when it is reserved.
#include <algorithm>
#include <gmock/gmock.h>
#include <vector>

#include "core/base/env.h"
#include "tests/ops/cuda_fixture.h"

namespace lockstep::test {
namespace {

class CudaMemory : public CudaTest {};

TEST_F(CudaMemory, IsZeroUnlessItIsAskedForAsItComes) {
  std::vector<std::byte> content(100, std::byte{1});
  const auto memory = backend().allocate(content.size(), "a test's memory");
  backend().copy_to_host(content.data(), memory->data(), content.size());
  const auto zeros = std::count(content.begin(), content.end(), std::byte{0});
  if (env().clear != "0") {
    EXPECT_EQ(zeros, 100);
  } else if (backend().device_class().find("emulated") != std::string::npos) {
    EXPECT_EQ(zeros, 0) << "the emulator fills what it gives out with ones";
  }
}

}  // namespace
}  // namespace lockstep::test
