// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
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
// Choices are asked of the libraries' heuristics: what one answers follows from the library's
// version and the GPU's model, which the device class names, so that any run repeats the bits of
// any other. Where TrainOptions::algorithms asks for it, rank 0 times the deterministic ones that
// the heuristic proposes (algorithm_trial.h). A timing may choose differently from run to run. So
// the book lies in the run's folder and in every checkpoint, a resumed run continues with it, and
// another run repeats the bits if it is given the file.

/// Which algorithm runs each GEMM, convolution and attention, by a key that says all of what is
/// computed; see Note [Choices of algorithms]. Keys and texts have no tabs and no line ends.
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

  /// A library's kernel that a timing did not take in the place of an own one, and why. Once for
  /// each operator that was timed.
  void note_rejected(const std::string& what, const std::string& why);

  /// Rank 0 timed the algorithms of an operator, for so long; and another than the heuristic's
  /// favourite won.
  void note_timed(double seconds);
  void note_other_choice() { ++other_choices_; }
  /// "34 operators timed in 12.3 s; 5 run another algorithm than the heuristic's", and a line for
  /// the operators of each reason why a kernel was rejected; empty: none.
  std::string timing_note() const;

  /// What a library made of the choice for `key`, where that takes it seconds: empty at first, then
  /// shared by all kernels of that key. Forgotten with the choices.
  std::shared_ptr<const void>& built(const std::string& key) { return built_[key]; }
  /// Before what it was built on goes.
  void forget_built() { built_.clear(); }

  /// A line for each key, sorted.
  std::string to_text() const;
  /// Takes the place of all choices here. Throws InternalError: this is not of to_text().
  void replace(std::string_view text);

 private:
  std::map<std::string, AlgorithmChoice> choices_;
  std::map<std::string, std::shared_ptr<const void>> built_;
  std::map<std::string, std::string> slow_, rejected_;  // why, by operator
  int timed_ = 0, other_choices_ = 0;
  double timing_s_ = 0;
};

/// Its lifetime is that of one operator's timing.
class AlgorithmTimer {
 public:
  explicit AlgorithmTimer(AlgorithmCache& cache) : cache_(cache) {}
  AlgorithmTimer(const AlgorithmTimer&) = delete;
  AlgorithmTimer& operator=(const AlgorithmTimer&) = delete;
  ~AlgorithmTimer();

 private:
  AlgorithmCache& cache_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace lockstep::cuda
