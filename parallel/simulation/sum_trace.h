// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "core/exec/backend.h"

namespace lockstep::simulation {

/// How a value came about, as a hash that tells which numbers were added to which, in what order:
///   leaf(m): the gradient of the micro-batch that begins at sample m
///   sum(a, b) = sum(b, a), as the addition of two floating-point numbers commutes and does not
///   associate
/// Equal expressions of equal leaves have equal bits.
using Expression = std::uint64_t;
inline constexpr Expression kUnknown = 0;  ///< something else was written there
inline constexpr Expression kZero = 1;
Expression leaf(std::uint64_t first_sample);
/// kUnknown where one of them is; zeros add nothing.
Expression sum_of(Expression a, Expression b);

/// Elements that came about alike: element i of the stretch is element `first + i` of all elements
/// of gradients, which must be the same in what is added to it.
struct Stretch {
  std::int64_t elems = 0;
  Expression expression = kUnknown;
  std::uint64_t first = 0;
};

/// What lies in one rank's memory, as expressions instead of values; addresses are of a
/// DryBackend. What was never written is kZero, as DeviceBuffer is.
class TracedMemory {
 public:
  /// The gradient of a micro-batch, or that added to what is there.
  void write_gradient(const float* to, std::int64_t elems, Expression gradient, bool accumulates);
  void write(const float* to, std::int64_t elems, Expression expression, std::uint64_t first);
  void forget(const float* from, std::int64_t elems);
  std::vector<Stretch> read(const float* from, std::int64_t elems) const;
  /// Into `stretches`, in place of what is there.
  void read(const float* from, std::int64_t elems, std::vector<Stretch>& stretches) const;
  /// Writes stretches one after another.
  void write(float* to, std::span<const Stretch> stretches);
  /// As Backend::add(). Throws InternalError: elements are added to others than themselves.
  void add(float* out, const float* a, const float* b, std::int64_t elems);
  /// As Backend::sum_tree(); terms are unknown afterwards.
  void sum_tree(std::span<const TreeTerm> terms, float* result, std::int64_t elems);

 private:
  struct Piece {
    const float* end = nullptr;
    Expression expression = kUnknown;
    std::uint64_t first = 0;
  };
  void consume(const float* from, std::int64_t elems);
  /// No piece lies on both sides of `at`.
  void cut(const float* at);

  // By begin; they do not overlap, and are one where they follow each other alike.
  std::map<const float*, Piece> pieces_;
};

}  // namespace lockstep::simulation
