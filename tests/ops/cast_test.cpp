// SPDX-License-Identifier: Apache-2.0
#include "core/ops/cast.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

#include "kernels/cpu/kernel_list.h"
#include "tests/ops/op_case.h"
#include "tests/reference/elementwise.h"

namespace lockstep::test {
namespace {

/// Every kind of number: ties to either side, subnormal, the largest, what overflows, NaN.
std::vector<float> special_values() {
  std::vector<float> values = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 3.4e38f, -3.4e38f, 1e-45f};
  for (std::uint32_t bits : {0x3f808000u,
                             0x3f818000u,
                             0x3f808001u,
                             0x3f807fffu,
                             0x00008000u,
                             0x00018000u,
                             0x7f7f7fffu,
                             0x7f7f8000u,
                             0xff7fffffu,
                             0x7f800001u})
    values.push_back(std::bit_cast<float>(bits));
  return values;
}

HostTensor all_bf16() {
  HostTensor tensor{{{1 << 16}, DType::bf16}, std::vector<std::byte>(std::size_t{2} << 16)};
  for (std::uint32_t i = 0; i < 1u << 16; ++i) tensor.as<std::uint16_t>()[i] = std::uint16_t(i);
  return tensor;
}

std::vector<OpCase> cast_cases() {
  std::vector<OpCase> cases;
  const auto narrow = std::make_shared<ops::Cast>(DType::bf16);
  for (const Shape& shape : {Shape{0, 7}, Shape{1}, Shape{33}, Shape{2, 5, 64}})
    cases.push_back({shape.to_string(), narrow, {random_f32(shape, 1)}, {{.c = 0}}});
  const std::vector<float> special = special_values();
  cases.push_back(
      {"special", narrow, {f32_tensor({std::int64_t(special.size())}, special)}, {{.c = 0}}});
  cases.push_back(
      {"every bf16", std::make_shared<ops::Cast>(DType::f32), {all_bf16()}, {{.c = 0}}});
  return cases;
}

LOCKSTEP_OP_TEST(Cast, cast, cast_reference, cast_cases)

}  // namespace
}  // namespace lockstep::test
