// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "launcher/predict/saved_run.h"

namespace lockstep {

/// The labelled samples that --data names, or the run's own validation part, prepared as the run's
/// record says. Of --data without a validation part of its own, and without --val-fraction: all of
/// them; but of the run's own data, or of one of its sources, recognised by their content, the
/// run's validation part, with a warning. Throws ConfigError: there are none; what data::open()
/// throws.
std::shared_ptr<const data::Dataset> open_labelled(const SavedRun& run);

}  // namespace lockstep
