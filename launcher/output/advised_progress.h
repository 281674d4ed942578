// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/progress.h"

namespace lockstep {

/// Progress of the program `lockstep`: the end of a run also says how its GPUs were used, and what
/// would make it faster.
class AdvisedProgress final : public Progress {
 public:
  using Progress::Progress;

 protected:
  std::vector<std::string> closing_lines(const TrainSummary& summary) const override;
};

}  // namespace lockstep
