// SPDX-License-Identifier: Apache-2.0
#include "core/exec/finite_check.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <vector>

#include "core/exec/backend.h"

namespace lockstep {
namespace {

constexpr std::size_t kPieceBytes = 1 << 20;

float value_at(const std::byte* bytes, std::int64_t index, DType dtype) {
  if (dtype == DType::bf16) {
    std::uint16_t half = 0;
    std::memcpy(&half, bytes + index * 2, sizeof half);
    return std::bit_cast<float>(std::uint32_t(half) << 16);
  }
  float value = 0;
  std::memcpy(&value, bytes + index * 4, sizeof value);
  return value;
}

void look_at(const std::byte* bytes,
             std::int64_t first,
             std::int64_t elems,
             DType dtype,
             NonFiniteCount& c) {
  for (std::int64_t i = 0; i < elems; ++i) {
    const float value = value_at(bytes, i, dtype);
    if (std::isfinite(value)) continue;
    if (c.non_finite++ > 0) continue;
    c.first = first + i;
    c.value = value;
  }
}

}  // namespace

NonFiniteCount count_non_finite(Backend& backend, const void* device, const TensorType& type) {
  NonFiniteCount count{.elems = type.elems()};
  if (!is_float(type.dtype) || count.elems == 0) return count;
  const auto size = std::int64_t(size_in_bytes(type.dtype));
  const std::int64_t piece = std::min<std::int64_t>(count.elems, kPieceBytes / std::size_t(size));
  std::vector<std::byte> host(std::size_t(piece * size));
  for (std::int64_t at = 0; at < count.elems; at += piece) {
    const std::int64_t n = std::min(piece, count.elems - at);
    backend.copy_to_host(
        host.data(), static_cast<const std::byte*>(device) + at * size, std::size_t(n * size));
    look_at(host.data(), at, n, type.dtype, count);
  }
  return count;
}

NonFiniteCount count_non_finite(const void* host, const TensorType& type) {
  NonFiniteCount count{.elems = type.elems()};
  if (is_float(type.dtype))
    look_at(static_cast<const std::byte*>(host), 0, count.elems, type.dtype, count);
  return count;
}

}  // namespace lockstep
