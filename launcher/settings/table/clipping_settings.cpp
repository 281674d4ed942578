// SPDX-License-Identifier: Apache-2.0
#include "launcher/settings/table/settings_table.h"

namespace lockstep {

// One of the three at most. Those after the first apply where the ones before are 0, and a value
// of a file gives way to what was typed.
void add_clipping_settings(std::vector<Setting>& table) {
  SettingRows rows(table, "Optimizer");
  const auto is_zero = [](std::string_view text) { return to_real_number(std::string(text)) == 0; };
  const std::string hint = "give one of --clip-norm, --clip-value and --clip-agc";
  const Applies without_value{"clip-value",
                              [is_zero](const TrainFlags& flags, std::string_view text) {
                                return is_zero(text) || flags.options.clip_value == 0;
                              },
                              hint};
  const Applies without_agc{"clip-agc",
                            [is_zero](const TrainFlags& flags, std::string_view text) {
                              return is_zero(text) || flags.options.clip_agc == 0;
                            },
                            hint};
  rows.real("clip-value",
            LOCKSTEP_AT(options.clip_value),
            0,
            kMaxReal,
            "gradient clipping: maximum absolute value of each element; 0: no clipping")
      .yields({"clip-agc", "clip-norm"});
  rows.real("clip-agc",
            LOCKSTEP_AT(options.clip_agc),
            0,
            kMaxReal,
            "adaptive gradient clipping: maximum norm of each output unit's gradient, as a factor "
            "of the norm of its weights, but for the last layer's; 0: no clipping")
      .when(without_value)
      .yields({"clip-norm"});
  rows.real("clip-norm",
            LOCKSTEP_AT(options.clip_norm),
            0,
            kMaxReal,
            "gradient clipping: maximum global norm; 0: no clipping")
      .when(without_value)
      .when(without_agc)
      .shown_as("by model");
}

}  // namespace lockstep
