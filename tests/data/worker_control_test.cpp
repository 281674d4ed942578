// SPDX-License-Identifier: Apache-2.0
#include "core/data/worker_control.h"

#include <algorithm>
#include <gtest/gtest.h>

namespace lockstep::data {
namespace {

/// A simulated training: a micro-batch takes `compute` seconds to train on and `load` to fill; at
/// most `useful` workers help each other.
struct Simulation {
  WorkerControl control;
  double compute, load;
  int useful;
  double now = 0, busy = 0;
  int most_seen = 1;

  void run(double seconds) {
    for (const double end = now + seconds; now < end;) {
      const double filling = load / std::min(useful, control.workers());
      const double waited = std::max(0.0, filling - compute);
      now += compute + waited;
      busy += load * control.workers() / std::min(useful, control.workers());
      control.after_batch(now, waited, busy);
      most_seen = std::max(most_seen, control.workers());
    }
  }
};

TEST(WorkerControl, AddsWorkersUntilTrainingNoLongerWaits) {
  Simulation simulation{WorkerControl(16), 0.010, 0.035, 100};
  simulation.run(60);
  EXPECT_EQ(simulation.control.workers(), 4);
  EXPECT_EQ(simulation.most_seen, 4);
}

TEST(WorkerControl, StaysWithOneWhereItIsEnough) {
  Simulation simulation{WorkerControl(16), 0.010, 0.008, 100};
  simulation.run(60);
  EXPECT_EQ(simulation.most_seen, 1);
}

TEST(WorkerControl, TakesBackWhatDoesNotHelp) {
  Simulation simulation{WorkerControl(16), 0.010, 0.035, 2};
  simulation.run(300);
  EXPECT_LE(simulation.most_seen, 3);
  int windows_with_three = 0;
  for (int i = 0; i < 100; ++i) {
    simulation.run(1);
    windows_with_three += simulation.control.workers() == 3;
  }
  EXPECT_LE(windows_with_three, 10);  // it tries ever more rarely
}

TEST(WorkerControl, ParksWhatIsNoLongerNeeded) {
  Simulation simulation{WorkerControl(16), 0.010, 0.035, 100};
  simulation.run(60);
  simulation.compute = 0.1;  // a larger model
  simulation.run(60);
  EXPECT_EQ(simulation.control.workers(), 1);
}

TEST(WorkerControl, NeverGoesBeyondItsMost) {
  Simulation simulation{WorkerControl(3), 0.001, 0.1, 100};
  simulation.run(120);
  EXPECT_EQ(simulation.most_seen, 3);
}

TEST(WorkerControl, LeavesPausesOut) {
  Simulation simulation{WorkerControl(16), 0.010, 0.035, 100};
  for (int i = 0; i < 60; ++i) {
    simulation.run(1);
    simulation.now += 20;  // an evaluation
  }
  EXPECT_EQ(simulation.control.workers(), 4);
}

}  // namespace
}  // namespace lockstep::data
