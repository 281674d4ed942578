// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "parallel/memory/memory_advisor.h"
#include "parallel/replica/memory_table.h"

namespace lockstep {

/// What a table is of.
struct TableSubject {
  bool on_host = true;   ///< the device is the processor itself
  bool complete = true;  ///< false: a device that is not here wants more
};

/// A line a category and their sums, each line with an end: of the device, which --memory-limit
/// limits, and on the processor of all, otherwise of the host. `arena_note` goes after the first.
std::string format_memory_table(const MemoryTable& table,
                                const TableSubject& subject,
                                const std::string& arena_note = {});

/// "`--micro-batch 24 --accumulation 4` keeps the global batch of 384 and needs 3.10 GiB less".
/// `ranks_by_flag`: --ranks is this program's to obey, no launcher's.
std::string format_memory_fix(const MemoryFix& fix, std::int64_t global_batch, bool ranks_by_flag);

/// What would help where there is no fix: "a smaller model (parameters, gradients and optimizer
/// state alone take 1.20 GiB); `--precision bf16` fits, with 0.90 GiB".
std::string format_other_settings(const MemoryAdvice& advice);

}  // namespace lockstep
