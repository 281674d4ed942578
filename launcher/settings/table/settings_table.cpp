// SPDX-License-Identifier: Apache-2.0
#include "launcher/settings/table/settings_table.h"

#include <fmt/ranges.h>

#include "lockstep/error.h"

namespace lockstep {

const std::vector<Setting>& settings_table() {
  static const std::vector<Setting> table = [] {
    std::vector<Setting> rows;
    add_model_settings(rows);
    add_data_settings(rows);
    add_batch_settings(rows);
    add_optimizer_settings(rows);
    add_distillation_settings(rows);
    add_clipping_settings(rows);
    add_parameter_group_settings(rows);
    add_engine_settings(rows);
    add_run_settings(rows);
    const TrainFlags defaults = default_flags();
    for (Setting& row : rows) {
      const bool applies = broken_condition(row, defaults, "") == nullptr;
      if (!row.fallback.empty() || !applies) continue;
      if (const auto texts = row.get(defaults))
        row.fallback = fmt::format("{}", fmt::join(*texts, ","));
    }
    return rows;
  }();
  return table;
}

TrainFlags default_flags() {
  TrainFlags flags;
  // Of gpt: a small one, which trains on a laptop.
  flags.model.layers = 6;
  flags.model.heads = 6;
  flags.model.width = 384;
  flags.options.checkpoint.every_seconds = to_interval(flags.checkpoint_every).seconds;
  return flags;
}

}  // namespace lockstep
