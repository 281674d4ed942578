// SPDX-License-Identifier: Apache-2.0
#include "core/nn/initialise.h"

#include <algorithm>
#include <atomic>
#include <span>
#include <system_error>
#include <thread>

#include "core/base/random.h"

namespace lockstep {
namespace {

/// Values of one block of random words.
constexpr std::size_t kNormals = 2, kUniforms = 4;

void multiply_by_normals(std::uint64_t key, std::size_t block, std::span<float> values) {
  const RandomBlock words = philox(key, block, 0);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] *= normal_of(words[2 * i], words[2 * i + 1]);
}

void multiply_by_uniforms(std::uint64_t key, std::size_t block, std::span<float> values) {
  const RandomBlock words = philox(key, block, 0);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] *= 2.0f * uniform01(words[i]) - 1.0f;
}

/// Draws values from `first` to `end` of all.
void draw(
    bool normal, std::uint64_t key, std::span<float> all, std::size_t first, std::size_t end) {
  const std::size_t block = normal ? kNormals : kUniforms;
  for (std::size_t at = first; at < end; at += block) {
    const std::span<float> values = all.subspan(at, std::min(block, end - at));
    normal ? multiply_by_normals(key, at / block, values)
           : multiply_by_uniforms(key, at / block, values);
  }
}

/// By `threads` at most, this one among them.
void draw_in_parallel(bool normal, std::uint64_t key, std::span<float> all, int threads) {
  constexpr std::size_t kPart = std::size_t(1) << 20;  // a multiple of both blocks
  const std::size_t parts = (all.size() + kPart - 1) / kPart;
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t part = next++; part < parts; part = next++)
      draw(normal, key, all, part * kPart, std::min(all.size(), (part + 1) * kPart));
  };
  std::vector<std::jthread> helpers;
  const std::size_t most = std::min(parts, std::size_t(threads));
  try {
    for (std::size_t i = 1; i < most; ++i) helpers.emplace_back(work);
  } catch (const std::system_error&) {
    // The host grants no more; those that run will do.
  }
  work();
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

std::vector<float> initial_values(const Parameter& parameter, std::uint64_t seed, int threads) {
  std::vector<float> values(std::size_t(parameter.shape.elems()), parameter.init.value);
  if (parameter.init.kind == Init::Kind::constant) return values;
  const std::uint64_t key = random_key(seed, "init/" + parameter.name);
  const bool normal = parameter.init.kind == Init::Kind::normal;
  draw_in_parallel(normal, key, values, threads);
  if (parameter.init.kind == Init::Kind::dirac) pass_channels_on(parameter.shape, values);
  return values;
}

}  // namespace lockstep
