// SPDX-License-Identifier: Apache-2.0
#include "core/ops/normalize.h"

#include "core/base/random.h"
#include "kernels/cpu/kernel_list.h"
#include "tests/ops/op_case.h"
#include "tests/reference/elementwise.h"

namespace lockstep::test {
namespace {

OpCase normalize_case(const Shape& shape, DType dtype, std::size_t factors) {
  RandomStream stream(11, 0);
  std::vector<float> scale, shift;
  for (std::size_t i = 0; i < factors; ++i) {
    scale.push_back(stream.uniform(0.005f, 0.02f));
    shift.push_back(stream.uniform(-2, 0));
  }
  HostTensor x = dtype == DType::u8 ? random_u8(shape, 1) : random_f32(shape, 2, -100, 100);
  // One rounding of x * scale + shift, which is below 256 * 0.02 + 2.
  return {fmt::format("{} {} with {} factors", name_of(dtype), shape.to_string(), factors),
          std::make_shared<ops::Normalize>(scale, shift),
          {std::move(x)},
          {{.c = 1, .scale = 8}}};
}

std::vector<OpCase> normalize_cases() {
  std::vector<OpCase> cases;
  for (DType dtype : {DType::u8, DType::f32})
    for (std::int64_t channels : {1, 3, 4, 31, 33, 257, 300})
      for (std::int64_t samples : {0, 1, 5})
        for (std::int64_t factors : {std::int64_t{1}, channels})
          cases.push_back(normalize_case({samples, 7, 3, channels}, dtype, std::size_t(factors)));
  cases.push_back(normalize_case({32, 28, 28, 1}, DType::u8, 1));
  cases.push_back(normalize_case({120, 4}, DType::f32, 4));
  return cases;
}

LOCKSTEP_OP_TEST(Normalize, normalize, normalize_reference, normalize_cases)

}  // namespace
}  // namespace lockstep::test
