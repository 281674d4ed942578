// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/cpu_backend.h"
#include "tests/ops/clipping_cases.h"
#include "tests/ops/cuda_fixture.h"

namespace lockstep::test {
namespace {

class CudaClipping : public CudaTest {};

TEST_F(CudaClipping, AgreesWithTheFormulaAndHasTheBitsOfTheProcessor) {
  EXPECT_EQ(expect_clipping(backend()), expect_clipping(*make_cpu_backend()));
}

}  // namespace
}  // namespace lockstep::test
