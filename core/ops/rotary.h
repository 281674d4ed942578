// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/ops/op_base.h"
#include "lockstep/ops/rotary_positions.h"

namespace lockstep::ops {

// Note [Phases of rotary positions]
//
// An angle t theta^(-2 i / D) in fp32 is off by 2^-24 of itself, at position 8,192 by 5e-4. So
// frequencies are kept as fractions of a turn in units of 2^-64, whose multiples wrap around as
// angles do, and cosine and sine are polynomials of what is left, in the same operations on every
// processor: kernels of all backends and instruction sets turn by the same numbers.

/// What pair i's phase grows by with each position, i < depth / 2.
std::vector<std::uint64_t> rotary_phases(const RotaryPositions& positions, std::int64_t depth);

struct Rotation {
  float cosine = 1, sine = 0;
};

/// Within 2^-23 of each.
constexpr Rotation rotation_of(std::uint64_t phase) {
  // The nearest quarter turn, and what is left of the phase: at most an eighth, in units of 2^-32.
  const auto turn = static_cast<std::uint32_t>(phase >> 32);
  const std::uint32_t quarter = (turn + (1u << 29)) >> 30;
  const auto rest = static_cast<std::int32_t>(turn - (quarter << 30));
  constexpr float kUnit = 0x1.921fb6p-30f;  // 2 pi / 2^32
  const float x = static_cast<float>(rest) * kUnit;
  const float square = x * x;
  // Taylor's series; the first terms omitted are below 2^-28 of x, and 2^-32.
  float sine = 1.0f / 362880;
  sine = sine * square - 1.0f / 5040;
  sine = sine * square + 1.0f / 120;
  sine = sine * square - 1.0f / 6;
  sine = x + x * (sine * square);
  float cosine = -1.0f / 3628800;
  cosine = cosine * square + 1.0f / 40320;
  cosine = cosine * square - 1.0f / 720;
  cosine = cosine * square + 1.0f / 24;
  cosine = cosine * square - 0.5f;
  cosine = 1.0f + cosine * square;
  switch (quarter & 3u) {
    case 0:
      return {cosine, sine};
    case 1:
      return {-sine, cosine};
    case 2:
      return {-cosine, -sine};
    default:
      return {sine, -cosine};
  }
}

struct RotaryAttrs {
  int heads = 1, kv_heads = 1;
  RotaryPositions positions;
  /// Columns of a head of qkv, [N, T, (heads + 2 kv_heads) D].
  std::int64_t depth_of(const TensorType& qkv) const {
    return qkv.shape[2] / (heads + 2 * kv_heads);
  }
};

/// Columns of a head at most: kernels hold the phases of its pairs.
inline constexpr std::int64_t kMaxRotaryDepth = 512;

/// Rotary positions (Su et al. 2021, equation 34) of queries and keys, which are packed with the
/// values for Attention. Column j < D / 2 of a head forms a pair with column j + D / 2 ("rotate
/// half", as Hugging Face has it); with a = t frequency_j of position t (RotaryPositions):
///   y[j] = x[j] cos(a) - x[j + D / 2] sin(a),   y[j + D / 2] = x[j + D / 2] cos(a) + x[j] sin(a)
/// Inputs: q: [N, T, heads D], k: [N, T, kv_heads D], v: as k, f32 or bf16.
/// Output: qkv: [N, T, (heads + 2 kv_heads) D], the values as they are.
class Rotary final : public OpBase<OpKind::rotary> {
 public:
  explicit Rotary(const RotaryAttrs& attrs) : attrs_(attrs) {}
  const RotaryAttrs& attrs() const { return attrs_; }

  std::string attributes() const override;
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;
  Cost cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const override;
  std::vector<ValueId> gradient(GradientBuilder& builder,
                                const Node& node,
                                std::span<const ValueId> output_grads) const override;

 private:
  RotaryAttrs attrs_;
};

/// Turns the gradients of queries and keys back, by -a, and unpacks them.
/// Input: dqkv. Outputs: dq, dk and dv, as Rotary's inputs.
class RotaryBwd final : public OpBase<OpKind::rotary_bwd> {
 public:
  explicit RotaryBwd(const RotaryAttrs& attrs) : attrs_(attrs) {}
  const RotaryAttrs& attrs() const { return attrs_; }

  std::string attributes() const override;
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;
  Cost cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const override;

 private:
  RotaryAttrs attrs_;
};

}  // namespace lockstep::ops
