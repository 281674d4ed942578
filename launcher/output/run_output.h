// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "launcher/output/advised_progress.h"
#include "launcher/output/profile_table.h"
#include "launcher/output/recovery.h"
#include "launcher/output/run_folder.h"
#include "launcher/output/tensorboard_file.h"
#include "launcher/output/train_request.h"
#include "lockstep/console.h"
#include "lockstep/job.h"
#include "lockstep/trainer.h"
#include "parallel/memory/memory_plan.h"

namespace lockstep {

/// Elements of a model's trained parameters.
struct ParameterCount {
  std::int64_t all = 0, frozen = 0;
};

/// What is known of a run when it starts.
struct RunStart {
  const data::DataSplit& data;
  const ParameterCount& parameters;
  const MemoryPlan& plan;
  const ProgressContext& facts;
  const std::string& micro_batch_note;  ///< why this one was chosen; empty: it was given
  const std::string& sharding_note;     ///< the same
};

/// What rank 0 shows and writes of a run: the console, the files of its folder, TensorBoard's. All
/// arguments must outlive it.
class RunOutput final : public TrainObserver {
 public:
  RunOutput(Job& job, const TrainRequest& settings, RunFolder& folder, const RunStart& start);

  /// To be called once, before fit(), which this must outlive.
  void observe(Trainer& trainer);
  void clear_bar() { console_.clear_bar(); }
  /// After fit(): the weights, unless the run was stopped, and what could not be written. Returns
  /// the exit code; whatever fails here does not lose what is still to be written.
  int finish(Trainer& trainer, const TrainSummary& summary);

 private:
  /// Writes what is known at the start, once the run is accepted.
  void on_initial_weights(const io::LoadReport& report) override;
  void on_start(const ResumeRecord* resumed) override;
  void print_start();
  int finish_stopped(const TrainSummary& summary);
  int finish_run(Trainer& trainer);

  Job& job_;
  const TrainRequest& settings_;
  RunFolder& folder_;
  const RunStart start_;
  Console console_;
  AdvisedProgress progress_;
  ProfilePrinter profile_;
  std::optional<Recovery> recovery_;  // where the run was started after a fault
  std::optional<TensorboardFile> tensorboard_;
  std::string initial_weights_;  // as the start says it; empty: none were read
};

/// Opens the log of this rank's host in the run's `folder`, Note [Logs of a host], and writes into
/// it that the rank has started. Collective; after rank 0 has made the folder.
void open_host_log(Job& job, const std::string& folder);

}  // namespace lockstep
