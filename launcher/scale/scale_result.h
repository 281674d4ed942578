// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/scale/scale_flags.h"
#include "parallel/cost/workload.h"

namespace lockstep {

/// What a run of train says of its steps: the median of the logged windows but the first.
struct RunTimes {
  double step_s = 0;
  double exposed_s = 0;
};

/// Reads metrics.jsonl of a run. Throws DataError naming the file: it is missing, cut off in its
/// first lines, or has times that are none.
RunTimes read_run_times(const std::string& folder);

/// What the ranks of a run worked on, as its summary.json says; empty where it does not.
std::string read_run_device(const std::string& folder);

/// A run, done or failed.
struct ScaleRun {
  int experiment = 0;  ///< index
  int repeat = 0;      ///< from 1
  std::string folder, log;
  RunTimes times;
  std::string error;  ///< empty: it is done
};

/// The median of some repeats, and their range.
struct Spread {
  double median = 0, least = 0, most = 0;
};
Spread spread_of(std::vector<double> values);

/// What was measured of one experiment.
struct ScalePoint {
  Experiment experiment;
  RankShare share;
  int repeats = 0;  ///< that were done
  Spread step_s, exposed_s, samples_per_s;
  /// samples_per_s / (ranks * that of a rank on the fewest ranks in the same mode).
  Spread efficiency;
  bool held_out = false;
  std::optional<StepCost> predicted;
};

/// A count that was not measured.
struct ScaleForecast {
  Experiment experiment;
  StepCost cost;
  double efficiency = 0;
};

/// A count that cannot be predicted.
struct Unpredicted {
  Experiment experiment;
  std::string reason;
};

struct ScaleResult {
  std::vector<ScalePoint> points;  ///< in the order of the experiments, without those never done
  std::optional<CostParameters> model;
  Machine machine;
  LinksUsed fitted;              ///< the others' slowness is as assumed
  bool network_assumed = false;  ///< it came from --network
  std::string no_model;          ///< why there is none
  std::vector<ScaleForecast> forecasts;
  std::vector<Unpredicted> unpredicted;
};

/// What a prediction for `ranks` ranks did not learn from runs, for people; empty: nothing.
std::string explain_missing_fit(const ScaleResult& result, int ranks);

/// Sums up the runs that are done, fits the cost model to the counts that were not held out, and
/// predicts. `machine`: nothing where no network was named for several hosts.
ScaleResult evaluate_scale(const ScaleFlags& flags,
                           const std::vector<ScaleRun>& runs,
                           const Workload& work,
                           const std::optional<Machine>& machine);

}  // namespace lockstep
