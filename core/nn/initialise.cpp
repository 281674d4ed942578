// SPDX-License-Identifier: Apache-2.0
#include "core/nn/initialise.h"

#include <algorithm>

#include "core/base/random.h"

namespace lockstep {
namespace {

float normal_at(std::uint64_t key, std::uint64_t element) {
  const RandomBlock words = philox(key, element / 2, 0);
  const std::size_t pair = element % 2 * 2;
  return normal_of(words[pair], words[pair + 1]);
}

float uniform_at(std::uint64_t key, std::uint64_t element) {
  return 2.0f * uniform01(philox(key, element / 4, 0)[element % 4]) - 1.0f;
}

/// The first filters become those that leave their channel as it is.
void pass_channels_on(const Shape& filters, std::vector<float>& values) {
  const std::int64_t size = filters[1] * filters[2] * filters[3], in = filters[3];
  const std::int64_t middle = filters[1] / 2 * filters[2] + filters[2] / 2;
  for (std::int64_t i = 0; i < std::min(filters[0], in); ++i) {
    std::fill_n(values.begin() + i * size, size, 0.0f);
    values[std::size_t(i * size + middle * in + i)] = 1.0f;
  }
}

}  // namespace

std::vector<float> initial_values(const Parameter& parameter, std::uint64_t seed) {
  std::vector<float> values(std::size_t(parameter.shape.elems()), parameter.init.value);
  if (parameter.init.kind == Init::Kind::constant) return values;
  const std::uint64_t key = random_key(seed, "init/" + parameter.name);
  const bool normal = parameter.init.kind == Init::Kind::normal;
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] *= normal ? normal_at(key, i) : uniform_at(key, i);
  if (parameter.init.kind == Init::Kind::dirac) pass_channels_on(parameter.shape, values);
  return values;
}

}  // namespace lockstep
