// SPDX-License-Identifier: Apache-2.0
#include "core/ops/all_gather.h"

#include <vector>

namespace lockstep::ops {

std::vector<TensorType> AllGather::infer(std::span<const TensorType> inputs) const {
  expect_inputs("all_gather", inputs, 1);
  const Shape& x = inputs[0].shape;
  LOCKSTEP_CHECK(x.rank() >= 2 && x[0] == 1 && x[1] == 1,
                 ShapeError,
                 "all_gather: input must be [1, 1, ...], got {}",
                 inputs[0].to_string());
  std::vector<std::int64_t> dims(x.dims().begin(), x.dims().end());
  dims[1] = parts_;
  return {{Shape(dims), inputs[0].dtype}};
}

}  // namespace lockstep::ops
