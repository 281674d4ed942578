// SPDX-License-Identifier: Apache-2.0
#include "core/ops/narrow.h"

#include <gtest/gtest.h>

#include "kernels/cpu/kernel_list.h"
#include "tests/ops/op_case.h"
#include "tests/reference/transformer.h"

namespace lockstep::test {
namespace {

struct TokenRange {
  std::int64_t samples, tokens, width, start, length;
};

// Empty, single, whole, rows that no vector divides; the first token, and all but it.
constexpr TokenRange kTokenRanges[] = {{0, 4, 8, 1, 2},
                                       {2, 3, 5, 1, 0},
                                       {2, 0, 5, 0, 0},
                                       {1, 1, 1, 0, 1},
                                       {3, 4, 7, 2, 2},
                                       {2, 5, 16, 0, 5},
                                       {3, 197, 24, 0, 1},
                                       {3, 197, 24, 1, 196},
                                       {2, 6, 33, 3, 2}};

std::string name_of_range(const TokenRange& r) {
  return fmt::format("{}x{}x{} from {}, {}", r.samples, r.tokens, r.width, r.start, r.length);
}

std::vector<OpCase> narrow_cases() {
  std::vector<OpCase> cases;
  for (const TokenRange& r : kTokenRanges)
    cases.push_back({name_of_range(r),
                     std::make_shared<ops::Narrow>(r.start, r.length),
                     {random_f32({r.samples, r.tokens, r.width}, 1)},
                     {{.c = 0}}});
  return cases;
}

std::vector<OpCase> narrow_bwd_cases() {
  std::vector<OpCase> cases;
  for (const TokenRange& r : kTokenRanges)
    cases.push_back({name_of_range(r),
                     std::make_shared<ops::NarrowBwd>(r.start, r.tokens),
                     {random_f32({r.samples, r.length, r.width}, 1)},
                     {{.c = 0}}});
  return cases;
}

LOCKSTEP_OP_TEST(Narrow, narrow, narrow_reference, narrow_cases)
LOCKSTEP_OP_TEST(NarrowBwd, narrow_bwd, narrow_bwd_reference, narrow_bwd_cases)

TEST(Narrow, RefusesTokensThatAreNotThere) {
  const TensorType x{{2, 5, 8}, DType::f32};
  EXPECT_EQ(ops::Narrow(4, 1).infer({{x}})[0].shape, (Shape{2, 1, 8}));
  for (const auto& [start, length] : {std::pair{5, 1}, {-1, 2}, {2, 4}, {6, 0}, {0, -1}})
    EXPECT_THROW(ops::Narrow(start, length).infer({{x}}), ShapeError) << start << " " << length;
  EXPECT_THROW(ops::NarrowBwd(2, 6).infer({{x}}), ShapeError);
}

}  // namespace
}  // namespace lockstep::test
