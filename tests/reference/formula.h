// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/random.h"
#include "core/base/shape.h"

/// The numbers that golden files do not hold: initial weights, samples and labels of the models.
/// make_goldens.py computes the same ones, to the bit.
namespace lockstep::reference {

/// u(name, i) in [0, 1): word i % 4 of philox(random_key(0, name), i / 4, 0).
inline float uniform(const std::string& name, std::int64_t i) {
  return uniform01(philox(random_key(0, name), std::uint64_t(i) / 4, 0)[std::size_t(i % 4)]);
}

/// value[i] = centre + bound * (2 u(name, i) - 1), rounded once per operation to fp32.
inline std::vector<float> values(const std::string& name,
                                 std::int64_t count,
                                 float bound,
                                 float centre = 0.0f) {
  std::vector<float> result(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    const float scaled = bound * (2.0f * uniform(name, i) - 1.0f);
    result[std::size_t(i)] = centre + scaled;
  }
  return result;
}

/// label[i] = floor(classes * u(name, i)).
inline std::vector<std::int32_t> labels(const std::string& name, std::int64_t count, int classes) {
  std::vector<std::int32_t> result(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i)
    result[std::size_t(i)] = std::int32_t(double(classes) * double(uniform(name, i)));
  return result;
}

/// Initial value of a parameter in the file's layout. Matrices and convolution weights: uniform
/// with He's bound sqrt(6 / fan_in); other weights (normalisation): 1 +- 0.5; the rest: +- 0.1.
inline std::vector<float> initial_parameter(const std::string& name, const Shape& file_shape) {
  if (file_shape.rank() >= 2) {
    const std::int64_t fan_in = file_shape.elems() / file_shape[0];
    return values(name, file_shape.elems(), float(std::sqrt(6.0 / double(fan_in))));
  }
  const bool scale = name.size() >= 6 && name.compare(name.size() - 6, 6, "weight") == 0;
  return scale ? values(name, file_shape.elems(), 0.5f, 1.0f)
               : values(name, file_shape.elems(), 0.1f);
}

/// Where probe k (of kProbes) of a tensor with `count` elements looks: spread, fixed positions.
inline constexpr int kProbes = 8;
inline std::int64_t probe_position(int k, std::int64_t count) {
  return std::int64_t((std::uint64_t(k) * 2654435761u + 12345u) % std::uint64_t(count));
}

}  // namespace lockstep::reference
