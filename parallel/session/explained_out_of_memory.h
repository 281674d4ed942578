// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include "core/base/error.h"
#include "parallel/comm/culprit.h"

namespace lockstep {

/// OutOfMemory with what people need to go on: the memory table, what was free, who else uses the
/// device, and in the hint the cheapest change with which the training fits.
class ExplainedOutOfMemory final : public OutOfMemory, public Culprit {
 public:
  ExplainedOutOfMemory(const std::string& message,
                       const std::string& hint,
                       std::string details,
                       Culprit culprit)
      : OutOfMemory(message, hint), Culprit(std::move(culprit)), details_(std::move(details)) {}
  /// Whole lines, between message and hint. What differs between ranks that fail alike is here.
  const std::string& details() const { return details_; }

 private:
  std::string details_;
};

}  // namespace lockstep
