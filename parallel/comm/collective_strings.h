// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/exec/communicator.h"

namespace lockstep {

/// The text of rank `root`, on every rank. Collective.
std::string broadcast_string(Communicator& communicator, std::string text, int root = 0);

/// Every rank's text, by rank, on every rank. Collective.
std::vector<std::string> gather_strings(Communicator& communicator, const std::string& text);

/// A text, and the ranks that have it, ascending.
struct RanksWithText {
  std::string text;
  std::vector<int> ranks;
};

/// Every text that a rank has, by the lowest of its ranks, on every rank. Collective. A text
/// travels once, whatever the number of its ranks. Where all have the same a rank receives 16
/// bytes; otherwise 16 bytes of each rank, and the texts. Texts are equal whose XXH64 is: two
/// different ones are taken for equal with a probability of 2^-64.
std::vector<RanksWithText> gather_distinct_strings(Communicator& communicator,
                                                   const std::string& text);

/// gather_strings() at the cost of gather_distinct_strings(), for texts that many ranks have in
/// common, as their host.
std::vector<std::string> gather_common_strings(Communicator& communicator, const std::string& text);

/// The lowest rank whose text is not empty, and that text, on every rank; rank -1: all are empty.
/// Collective; 8 bytes where all are.
struct FirstText {
  int rank = -1;
  std::string text;
};
FirstText first_text(Communicator& communicator, const std::string& own);

}  // namespace lockstep
