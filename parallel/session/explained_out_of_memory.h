// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include "lockstep/error.h"
#include "parallel/comm/faulting_rank.h"

namespace lockstep {

/// OutOfMemory with what people need to continue: the memory table, what was free, who else uses
/// the device, and in the hint the cheapest change with which the training fits.
class ExplainedOutOfMemory final : public OutOfMemory, public FaultingRank {
 public:
  ExplainedOutOfMemory(const std::string& message,
                       const std::string& hint,
                       std::string details,
                       FaultingRank faulting_rank)
      : OutOfMemory(message, hint),
        FaultingRank(std::move(faulting_rank)),
        details_(std::move(details)) {}
  /// Whole lines, between message and hint. What differs between ranks that fail alike is here.
  const std::string& details() const { return details_; }

 private:
  std::string details_;
};

}  // namespace lockstep
