// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/io/run_log.h"
#include "parallel/ledger.h"

namespace lockstep {

/// "data_ms", "copy_ms", ... of a mean step, in order, without its total.
void add_parts(std::vector<JsonField>& fields, const Ledger& step_ms);

/// An array of objects, one a rank: "rank", "host", "seconds" in all, and the seconds of each part.
std::string ledgers_json(const std::vector<RankLedger>& ledgers);

}  // namespace lockstep
