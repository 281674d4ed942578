// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/exec/communicator.h"
#include "core/exec/finite_check.h"
#include "lockstep/data/loader.h"
#include "lockstep/error.h"
#include "parallel/comm/faulting_rank.h"

namespace lockstep {

/// The first value of one rank, in a step, that was not finite.
struct NonFiniteFinding {
  int rank = 0;
  std::string host = {};
  std::int64_t round = 0;         ///< of the rank's micro-batches, from 0
  std::int64_t micro_batch = -1;  ///< of the global batch, from 0; -1: a round without samples
  FiniteReport report;            ///< op "data" or "target" and node -1: what was loaded
};

/// "rank 1 (node7) in micro-batch 3 of 8: linear fc2 (backward), output 0, 12 of 640 elements, the
/// first (17) is nan"
std::string to_text(const NonFiniteFinding& finding, std::int64_t micro_batches);

/// "first found on RANK...; also on RANK..., and on 2 ranks more", at most three of them.
std::string to_text(const std::vector<NonFiniteFinding>& findings, std::int64_t micro_batches);

/// Names the faulting rank.
class NonFiniteFoundError final : public NonFiniteError, public FaultingRank {
 public:
  /// `of_step`, of the first finding, counts from 1.
  NonFiniteFoundError(const std::string& message,
                      std::string hint,
                      NonFiniteFinding first,
                      std::int64_t of_step)
      : NonFiniteError(message, std::move(hint)),
        FaultingRank{.rank = first.rank, .host = first.host, .step = of_step},
        first_(std::move(first)) {}
  const NonFiniteFinding& first() const { return first_; }

 private:
  NonFiniteFinding first_;
};

/// Keeps what a rank finds while it computes one step's micro-batches. The rank continues after a
/// finding, since other ranks may wait in collectives of batch norm; gather() sends it to all
/// ranks.
class NonFiniteLocator {
 public:
  /// Forgets what was found.
  void begin();
  /// For Program::check_finite().
  FiniteReport* report() { return &own_.report; }
  /// Checks the loaded samples and targets of the next micro-batch, where they are floats.
  void look_at(const data::LoadedBatch& loaded, const data::SampleSpec& samples);
  /// Called after the kernels of each round.
  void end_round(std::int64_t micro_batch);

  /// Every rank's finding, the likely cause first. `grouped`: ranks share batch norms, so that a
  /// value spreads among them within a round, and findings are ordered by round and operator;
  /// otherwise by micro-batch and operator. Equal on all ranks. Collective.
  std::vector<NonFiniteFinding> gather(Communicator& communicator, bool grouped) const;

 private:
  NonFiniteFinding own_;
  std::int64_t rounds_ = 0;
  bool placed_ = false;  // own_ has its micro-batch
};

}  // namespace lockstep
