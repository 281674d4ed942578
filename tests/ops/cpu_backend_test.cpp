// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/cpu_backend.h"

#include <cstdint>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/ops/reshape.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

TEST(CpuBackend, NamesItsDeviceClass) {
  EXPECT_THAT(make_cpu_backend()->device_class(),
              testing::MatchesRegex("cpu, (avx2|avx512|neon), bf16 products [a-z0-9_]+, "
                                    "(oneDNN [23]\\.[0-9]+\\.[0-9]+|no matrix library)"));
}

TEST(CpuBackend, MemoryIsZeroAndPageAligned) {
  const auto backend = make_cpu_backend();
  for (std::size_t bytes : {1, 4096, 100000}) {
    const auto buffer = backend->allocate(bytes, "activations");
    EXPECT_EQ(buffer->bytes(), bytes);
    EXPECT_EQ(std::uintptr_t(buffer->data()) % 4096, 0u);
    for (std::size_t i = 0; i < bytes; ++i) ASSERT_EQ(buffer->data()[i], std::byte{0});
  }
  EXPECT_EQ(backend->allocate(0, "nothing")->bytes(), 0u);
}

TEST(CpuBackend, MemoryThatIsNotThereIsAnErrorWithItsName) {
  const auto backend = make_cpu_backend();
  for (std::size_t bytes : {std::size_t{1} << 45, std::size_t{1} << 62}) {
    try {
      backend->allocate(bytes, "activations");
      ADD_FAILURE() << "got " << bytes << " bytes";
    } catch (const OutOfMemory& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("activations"));
      EXPECT_THAT(error.what(), testing::HasSubstr(std::to_string(bytes)));
      EXPECT_EQ(error.exit_code(), ExitCode::out_of_memory);
    }
  }
}

TEST(CpuBackend, ViewsHaveNoKernel) {
  const ops::Reshape reshape(Shape{3});
  const KernelSpec spec{reshape, {{{6}, DType::f32}}, {{{2, 3}, DType::f32}}, "flatten", {-1}, {}};
  EXPECT_THROW(make_cpu_backend()->make_kernel(spec), InternalError);
}

TEST(CpuBackend, CopiesBothWays) {
  const auto backend = make_cpu_backend();
  const auto a = backend->allocate(16, "a"), b = backend->allocate(16, "b");
  const float host[4] = {1, 2, 3, 4};
  float back[4] = {};
  backend->copy_to_device(a->data(), host, 16);
  backend->copy(b->data(), a->data(), 16);
  backend->copy_to_host(back, b->data(), 16);
  EXPECT_THAT(back, testing::ElementsAre(1, 2, 3, 4));
}

TEST(CpuBackend, NormsOfRanges) {
  const float values[6] = {3, 4, 100, 1, 2, 2};
  const FlatRange ranges[] = {{0, 2}, {3, 3}, {2, 0}};
  double norms[3] = {-1, -1, -1};
  make_cpu_backend()->squared_norms(values, ranges, norms);
  EXPECT_THAT(norms, testing::ElementsAre(25, 9, 0));
}

}  // namespace
}  // namespace lockstep
