// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/random.h"
#include "lockstep/shape.h"

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
/// with He's bound sqrt(6 / fan_in); other weights (normalisation): 1 +- 0.5, and the last of each
/// bottleneck block a quarter of that, without which fifty layers make chaos of rounding; the rest:
/// +- 0.1. For the same reason batch norm before ReLU6 within MobileNetV2's blocks has weights of
/// half of that and biases of 2 +- 0.1: few values are then cut off, and fewer lie within rounding
/// of it.
inline std::vector<float> initial_parameter(const std::string& name, const Shape& file_shape) {
  if (file_shape.rank() >= 2) {
    const std::int64_t fan_in = file_shape.elems() / file_shape[0];
    return values(name, file_shape.elems(), float(std::sqrt(6.0 / double(fan_in))));
  }
  const bool before_relu6 =
      name.find("conv.0.1.") != name.npos || name.find("conv.1.1.") != name.npos;
  if (!name.ends_with("weight"))
    return values(name, file_shape.elems(), 0.1f, before_relu6 ? 2.0f : 0.0f);
  const float centre = name.ends_with("bn3.weight") ? 0.25f : before_relu6 ? 0.5f : 1.0f;
  return values(name, file_shape.elems(), 0.5f * centre, centre);
}

/// Sketch k (of kSketches) of a tensor: the sum of its elements with random signs, divided by the
/// square root of their number. The sign of element i is + where bit k of word i % 4 of
/// philox(random_key(0, "sketch"), i / 4, 0) is set.
inline constexpr int kSketches = 8;
inline std::vector<double> sketch(const std::vector<float>& tensor) {
  const std::uint64_t key = random_key(0, "sketch");
  std::vector<double> sums(kSketches, 0.0);
  for (std::size_t block = 0; 4 * block < tensor.size(); ++block) {
    const RandomBlock words = philox(key, block, 0);
    for (std::size_t i = 4 * block; i < std::min(4 * block + 4, tensor.size()); ++i)
      for (int k = 0; k < kSketches; ++k)
        sums[std::size_t(k)] +=
            (words[i % 4] >> k & 1) != 0 ? double(tensor[i]) : -double(tensor[i]);
  }
  for (double& sum : sums) sum /= std::sqrt(double(tensor.size()));
  return sums;
}

}  // namespace lockstep::reference
