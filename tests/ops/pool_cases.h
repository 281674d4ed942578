// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/ops/pooling/pool2d.h"

namespace lockstep::test {

struct PoolCase {
  ops::Pool2dAttrs attrs;
  Shape input;
};

/// Tiling, overlapping, padded, gapped and lopsided windows over even and odd images.
inline std::vector<PoolCase> pool_cases() {
  const std::vector<ops::Pool2dAttrs> windows = {{2, 2, 2, 2, 0, 0},
                                                 {3, 3, 2, 2, 1, 1},
                                                 {3, 3, 1, 1, 1, 1},
                                                 {2, 2, 1, 1, 0, 0},
                                                 {2, 2, 3, 3, 0, 0},
                                                 {2, 3, 2, 1, 1, 0},
                                                 {1, 1, 1, 1, 0, 0},
                                                 {5, 4, 2, 3, 2, 2}};
  std::vector<PoolCase> cases;
  for (const ops::Pool2dAttrs& attrs : windows)
    for (const Shape& input : std::vector<Shape>{
             {0, 6, 6, 4}, {1, 6, 6, 1}, {2, 7, 5, 3}, {2, 5, 8, 31}, {1, 8, 8, 33}, {2, 6, 6, 64}})
      cases.push_back({attrs, input});
  cases.push_back({{16, 16, 16, 16, 0, 0}, {1, 16, 33, 5}});  // 256 positions: the largest window
  return cases;
}

}  // namespace lockstep::test
