// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "parallel/simulation/simulation.h"

namespace lockstep {

/// A time as the simulated steps have it. `low` and `high`: nine of ten steps are between them;
/// equal to `median` where nothing differs.
struct PredictedTime {
  double median = 0, low = 0, high = 0;
};

/// What a run is predicted to take.
struct TimePrediction {
  PredictedTime step_s, exposed_s;  ///< exposed: rank 0 waits for the exchange
  std::size_t steps = 0;            ///< that were simulated, but for the first of each repeat
  std::optional<double>
      efficiency;           ///< time of one rank / (ranks * time); nothing: one rank cannot
  PredictedTime startup_s;  ///< from Trainer::fit() to the first step
  std::size_t measured_kernels = 0, missing_kernels = 0;  ///< with a table: by name
  std::string first_missing;
};

/// Medians and quantiles of steps of `first` and further repeats of its request, each with another
/// seed. Where steps do not differ (neither a spread nor measured factors), `first` alone.
TimePrediction predict_times(const simulation::SimulationRequest& request,
                             const simulation::SimulationResult& first,
                             std::int64_t repeats);

/// The median step of one rank with all of the batch, simulated; nothing: it cannot be, as groups
/// of a batch norm span ranks.
std::optional<double> step_of_one_rank(simulation::SimulationRequest request, std::int64_t repeats);

/// "step 12.1 ms (11.8 to 13.0), exposed exchange ..." and whose times they are.
std::string to_text(const TimePrediction& prediction);
nlohmann::json to_object(const TimePrediction& prediction);

}  // namespace lockstep
