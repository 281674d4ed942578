// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {

/// Element types of a tensor.
enum class DType : std::uint8_t { f32, bf16, i32, u8 };

/// 4, 2, 4, 1.
std::size_t size_in_bytes(DType dtype);
/// "f32", "bf16", "i32", "u8".
std::string_view name_of(DType dtype);
/// f32 or bf16: what activations and their gradients may be.
constexpr bool is_float(DType dtype) { return dtype == DType::f32 || dtype == DType::bf16; }

/// The extents of a dense tensor, outermost first: Shape{32, 28, 28, 1}. Images are [N, H, W, C]
/// everywhere: samples, height, width, channels.
class Shape {
 public:
  static constexpr int kMaxRank = 6;

  Shape() = default;
  /// Both throw ShapeError: more than kMaxRank dimensions, or a negative extent.
  Shape(std::initializer_list<std::int64_t> dims);
  explicit Shape(std::span<const std::int64_t> dims);

  int rank() const { return rank_; }
  /// Extent of dimension `i`; a negative `i` counts from the innermost.
  std::int64_t operator[](int i) const;
  std::span<const std::int64_t> dims() const { return {dims_.data(), std::size_t(rank_)}; }
  /// Product of the extents; 1 for rank 0. Throws ShapeError where it exceeds 2^62.
  std::int64_t elems() const;
  /// "[32, 28, 28, 1]"
  std::string to_string() const;

  bool operator==(const Shape& other) const;

 private:
  std::array<std::int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

/// Shape and element type of a dense, contiguous tensor in row-major order.
struct TensorType {
  Shape shape;
  DType dtype = DType::f32;

  std::int64_t elems() const { return shape.elems(); }
  std::size_t bytes() const { return std::size_t(elems()) * size_in_bytes(dtype); }
  /// "f32[32, 28, 28, 1]"
  std::string to_string() const;
  bool operator==(const TensorType&) const = default;
};

}  // namespace lockstep
