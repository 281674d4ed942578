// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

namespace lockstep {

/// When ranks that outlived the death of others are to start again as many as before. Fewer ranks
/// lose time, about the share of them that is missing; to start all again costs what the last start
/// took until it trained. Once the one has come to the other, it is time: whenever the next fault
/// comes, that costs at most twice of what the better of the two would have (the rule of ski
/// rental, Karlin et al. 1988). All times are seconds of one monotonic clock.
class Regrowth {
 public:
  /// `ranks` are being started.
  void begin(int ranks, double now);
  /// They train; of several calls the first counts.
  void note_training(double now);
  /// So many are left.
  void note_survivors(int ranks, double now);
  bool is_due(double now) const;

  int ranks_now() const { return left_; }
  int ranks_before() const { return all_; }

 private:
  double missed(double now) const;

  int all_ = 1, left_ = 1;
  double began_ = 0, since_ = 0, missed_ = 0;
  std::optional<double> start_s_;
};

}  // namespace lockstep
