// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::cuda {

/// An algorithm of a library as text, or that it has none, and why.
struct AlgorithmChoice {
  std::string text;      ///< the library's own; empty: there is no algorithm
  std::string why_none;  ///< where there is none

  bool operator==(const AlgorithmChoice&) const = default;
};

// Note [Choices of algorithms]
//
// A library has several algorithms for one GEMM or convolution. They add in different orders, so
// that ranks which run different ones train to other bits than one rank alone; and what is fastest
// may be judged differently on two GPUs of one model. Therefore rank 0 chooses for all: its book is
// sent to the others (parallel/replica/algorithm_broadcast.h), and a rank whose book has an
// operator's key runs exactly what stands there or throws.
//
// Choices are asked of the libraries' heuristics and never timed: a timing would choose differently
// from run to run, and a run on four ranks would not repeat the bits of a run on one. What a
// heuristic answers follows from the library's version and the GPU's model, which the device class
// names.

/// Which algorithm runs each GEMM and convolution, by a key that says all of what is computed;
/// see Note [Choices of algorithms]. Keys and texts have no tabs and no line ends.
class AlgorithmCache {
 public:
  /// The choice for `key`: what stands here, or what `choose` returns, which is entered.
  const AlgorithmChoice& choice(const std::string& key,
                                const std::function<AlgorithmChoice()>& choose);
  /// Null: nothing was chosen.
  const AlgorithmChoice* find(const std::string& key) const;

  /// An operator that an own kernel far slower than others computes, and why: a whole clause, which
  /// follows the operators' names in notices(). Once for each operator.
  void note_slow(const std::string& what, const std::string& why);
  /// A line for the operators of each reason.
  std::vector<std::string> notices() const;

  /// A line for each key, sorted.
  std::string to_text() const;
  /// Takes the place of all choices here. Throws InternalError: this is not of to_text().
  void replace(std::string_view text);

 private:
  std::map<std::string, AlgorithmChoice> choices_;
  std::map<std::string, std::string> slow_;  // why, by operator
};

}  // namespace lockstep::cuda
