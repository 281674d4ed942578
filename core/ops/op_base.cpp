// SPDX-License-Identifier: Apache-2.0
#include "core/ops/op_base.h"

namespace lockstep {

void expect_inputs(std::string_view op, std::span<const TensorType> inputs, std::size_t count) {
  LOCKSTEP_CHECK(inputs.size() == count,
                 ShapeError,
                 "{}: expected {} inputs, got {}",
                 op,
                 count,
                 inputs.size());
}

void expect_tensor(
    std::string_view op, std::string_view what, const TensorType& type, int rank, DType dtype) {
  LOCKSTEP_CHECK(type.shape.rank() == rank && type.dtype == dtype,
                 ShapeError,
                 "{}: {} must be {} with {} dimensions, got {}",
                 op,
                 what,
                 name_of(dtype),
                 rank,
                 type.to_string());
}

void expect_activation(std::string_view op,
                       std::string_view what,
                       const TensorType& type,
                       int rank) {
  LOCKSTEP_CHECK(is_float(type.dtype) && (rank < 0 || type.shape.rank() == rank),
                 ShapeError,
                 "{}: {} must be f32 or bf16{}, got {}",
                 op,
                 what,
                 rank < 0 ? "" : fmt::format(" with {} dimensions", rank),
                 type.to_string());
}

void expect_same(std::string_view op,
                 std::string_view what,
                 const TensorType& actual,
                 const TensorType& expected) {
  LOCKSTEP_CHECK(actual == expected,
                 ShapeError,
                 "{}: {} must be {}, got {}",
                 op,
                 what,
                 expected.to_string(),
                 actual.to_string());
}

}  // namespace lockstep
