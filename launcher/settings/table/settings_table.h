// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/settings/table/setting_rows.h"

namespace lockstep {

/// The rows of settings_table(), by heading of --help. A new setting is a row in one of them.
void add_model_settings(std::vector<Setting>& table);
void add_data_settings(std::vector<Setting>& table);
void add_batch_settings(std::vector<Setting>& table);
void add_optimizer_settings(std::vector<Setting>& table);
/// Of a teacher; under the optimizer's heading, as the loss.
void add_distillation_settings(std::vector<Setting>& table);
/// Of gradients; under the optimizer's heading, as those of single parameters.
void add_clipping_settings(std::vector<Setting>& table);
void add_parameter_group_settings(std::vector<Setting>& table);
void add_engine_settings(std::vector<Setting>& table);
/// Faults and output.
void add_run_settings(std::vector<Setting>& table);

/// Whether `data` has samples of tokens.
bool has_tokens(std::string_view data);
/// Whether `data` names a table, arrays, or image files or a pack of them.
bool is_table(std::string_view data);
bool has_arrays(std::string_view data);
bool has_image_files(std::string_view data);

}  // namespace lockstep
