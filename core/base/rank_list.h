// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>
#include <string>

namespace lockstep {

/// Ranks in messages, which must stay readable where there are thousands. `ranks` ascend. Three or
/// more consecutive ones are a range; after 16 numbers and ranges the rest is counted: "and 40
/// more".

/// "rank 3", "ranks 1, 3", "ranks 0-4095, 4100"
std::string format_ranks(std::span<const int> ranks);

/// Of a rank; asked several times for one.
using TextOfRank = std::function<std::string(int rank)>;

/// "rank 3 (node7)", "ranks 0-7 (node1), 9 (node2)": a range is of one host. After 8 of them the
/// rest is counted.
std::string format_ranks(std::span<const int> ranks, const TextOfRank& host_of);

/// Ranks of one place together, by the first rank of each: "rank 3 on node7, ranks 8-15 on node8",
/// where places are "on node7" and "on node8". After 8 places the ranks of others are counted.
std::string format_ranks_by_place(std::span<const int> ranks, const TextOfRank& place_of);

}  // namespace lockstep
