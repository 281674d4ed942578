// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/settings/given_settings.h"

namespace lockstep {

/// Where --init is a folder of Hugging Face's, one with a config.json: derives model, sizes,
/// context and vocabulary as its GPT-2 has them, and the recipe of the preset of that width. Throws
/// ConfigError: a setting that was given contradicts it (both are named). DataError: config.json is
/// malformed, is of another kind of model, or of a GPT-2 that gpt cannot be.
void take_init_folder(GivenSettings& given);

}  // namespace lockstep
