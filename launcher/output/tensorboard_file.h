// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "lockstep/train_records.h"

namespace lockstep {

/// A column of the HParams tab. TensorBoard takes the columns of one run for all of them, so that
/// every run names all.
struct HyperParameter {
  std::string name;
  std::variant<std::monostate, double, std::string> value;  ///< monostate: the run has none
  bool is_number = false;
};
using HyperParameters = std::vector<HyperParameter>;

/// Writes a run's scalars for TensorBoard: DIR/events.out.tfevents.SECONDS.HOST.PID.0, a new file
/// for each process of the run. A resumed run, and one that goes back to a checkpoint, first
/// says from which step on records will be written again, so that readers drop what they had of
/// them. The file also says which curves the Custom Scalars tab shows in one chart (loss of
/// training and validation, their accuracy, the parts of a step's time), and for the HParams tab
/// what the run was set to and that it ended. Where the file cannot be created or written, training
/// continues: see finish().
///
/// Every logged step costs one message that is built in memory and a write a second at most.
class TensorboardFile final : public TrainObserver {
 public:
  /// Nothing is created before on_start().
  explicit TensorboardFile(std::string folder, HyperParameters set_to = {});
  ~TensorboardFile() override;
  TensorboardFile(const TensorboardFile&) = delete;
  TensorboardFile& operator=(const TensorboardFile&) = delete;

  void on_start(const ResumeRecord* resumed) override;
  void on_step(const StepRecord& record) override;
  void on_evaluation(const EvaluationRecord& record) override;
  void on_rollback(const RollbackRecord& record) override;
  void on_end(const TrainSummary& summary) override;

  /// Writes what is waiting and closes. "FILE: reason" where something could not be written.
  std::string finish();

 private:
  class Writer;
  std::string folder_;
  HyperParameters set_to_;
  std::unique_ptr<Writer> writer_;
  std::string error_;
};

/// Removes the files that runs have written into `folder`, and the folder where it is then empty.
void remove_tensorboard_files(const std::string& folder);

}  // namespace lockstep
