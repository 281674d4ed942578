// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>

#include "tests/ops/op_case.h"

namespace lockstep::test {

/// For sums of `n` products of values uniform in [-1, 1). Such products have variance 1/9, so
/// running sums have sizes around sqrt(n)/3, up to 4.5 times that among 10^5 elements. Each
/// rounding moves the sum by 0.43 eps of its size, n of them like a random walk, again up to 4.5
/// times: 4.5 * 4.5 * 0.43 / sqrt(3) = 5, where sqrt(3) is for the sum growing on its way.
inline Tolerance of_products(std::int64_t n) {
  const double terms = double(std::max<std::int64_t>(n, 1));
  return {.c = 5, .n = terms, .scale = std::max(1.0, std::sqrt(terms) / 3)};
}

/// The same where sums are rounded to bf16 before something else is done with them. A number of
/// eight bits in [2^e, 2^(e+1)) has units of 2^(e-7), of which half, 2^(e-8), is lost at most: 2^-8
/// of the number's size. Sums have sizes up to 4.5 standard deviations, 4.5 sqrt(n)/3 = 1.5
/// sqrt(n); what is added to them is below 1. So 2^-8 (1.5 sqrt(n) + 1), whatever the library's
/// order, in addition to the products' own 5 * 2^-24 sqrt(n) scale. `c` is that in the units of
/// check_case(), whose factors 2^-24 sqrt(n) it takes out again.
inline Tolerance of_rounded_products(std::int64_t n) {
  const Tolerance products = of_products(n);
  const double root = std::sqrt(products.n);
  const double allowed = products.c * 0x1p-24 * root * products.scale + 0x1p-8 * (1.5 * root + 1);
  return {.c = allowed / (0x1p-24 * root), .n = products.n, .scale = 1};
}

/// As of_products() with factors rounded to the ten bits of tf32, each by up to 2^-11 of its size:
/// a product by 2^-10 of its own, whose size is 1/3 as above; n of them like a random walk, up
/// to 4.5 times: 4.5 / 3 * 2^-10 sqrt(n). A device that cuts the bits off is off by twice that in a
/// factor, and always towards zero: a sum shrinks by 2^-10, and 4.5 / 3 sqrt(n) is how large a sum
/// is.
inline Tolerance of_tf32_products(std::int64_t n) {
  const double terms = double(std::max<std::int64_t>(n, 1));
  return {.c = 2 * 1.5 * 0x1p14, .n = terms, .scale = 1};
}

}  // namespace lockstep::test
