// SPDX-License-Identifier: Apache-2.0
#include "core/ops/normalize.h"

#include <fmt/ranges.h>

namespace lockstep::ops {

std::string Normalize::attributes() const {
  return fmt::format("scale={} shift={}{}",
                     fmt::join(scale_, ","),
                     fmt::join(shift_, ","),
                     output_ == DType::f32 ? "" : " bf16");
}

std::vector<TensorType> Normalize::infer(std::span<const TensorType> inputs) const {
  expect_inputs("normalize", inputs, 1);
  const TensorType& x = inputs[0];
  LOCKSTEP_CHECK((x.dtype == DType::u8 || x.dtype == DType::f32) && x.shape.rank() >= 2,
                 ShapeError,
                 "normalize: input must be u8 or f32 with at least 2 dimensions, got {}",
                 x.to_string());
  const auto channels = std::size_t(x.shape[-1]);
  LOCKSTEP_CHECK(
      scale_.size() == shift_.size() && (scale_.size() == channels || scale_.size() == 1),
      ShapeError,
      "normalize: {} scales and {} shifts for {} channels of {}",
      scale_.size(),
      shift_.size(),
      channels,
      x.to_string());
  return {{x.shape, output_}};
}

}  // namespace lockstep::ops
