// SPDX-License-Identifier: Apache-2.0
#include "lockstep/shape.h"

#include <algorithm>
#include <fmt/ranges.h>

#include "core/base/check.h"

namespace lockstep {

std::size_t size_in_bytes(DType dtype) {
  switch (dtype) {
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::bf16:
      return 2;
    case DType::u8:
      return 1;
  }
  throw InternalError("unknown dtype");
}

std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "f32";
    case DType::bf16:
      return "bf16";
    case DType::i32:
      return "i32";
    case DType::u8:
      return "u8";
  }
  throw InternalError("unknown dtype");
}

Shape::Shape(std::initializer_list<std::int64_t> dims)
    : Shape(std::span<const std::int64_t>(dims.begin(), dims.size())) {}

Shape::Shape(std::span<const std::int64_t> dims) {
  LOCKSTEP_CHECK(dims.size() <= kMaxRank,
                 ShapeError,
                 "shape: {} dimensions, at most {} are supported",
                 dims.size(),
                 kMaxRank);
  rank_ = int(dims.size());
  std::copy(dims.begin(), dims.end(), dims_.begin());
  for (std::int64_t d : dims)
    LOCKSTEP_CHECK(d >= 0, ShapeError, "shape: negative extent in {}", to_string());
}

std::int64_t Shape::operator[](int i) const {
  const int index = i < 0 ? i + rank_ : i;
  LOCKSTEP_ASSERT(index >= 0 && index < rank_);
  return dims_[std::size_t(index)];
}

std::int64_t Shape::elems() const {
  std::int64_t product = 1;
  for (std::int64_t d : dims()) {
    LOCKSTEP_CHECK(d == 0 || product <= (std::int64_t{1} << 62) / d,
                   ShapeError,
                   "shape: {} has too many elements",
                   to_string());
    product *= d;
  }
  return product;
}

std::string Shape::to_string() const { return fmt::format("[{}]", fmt::join(dims(), ", ")); }

bool Shape::operator==(const Shape& other) const {
  return std::ranges::equal(dims(), other.dims());
}

std::string TensorType::to_string() const {
  return fmt::format("{}{}", name_of(dtype), shape.to_string());
}

}  // namespace lockstep
