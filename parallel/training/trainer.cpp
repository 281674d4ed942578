// SPDX-License-Identifier: Apache-2.0
#include "lockstep/trainer.h"

#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "core/base/check.h"
#include "core/base/file_kind.h"
#include "core/data/preprocessing.h"
#include "core/io/folder.h"
#include "core/io/output_file.h"
#include "core/io/preprocessing_file.h"
#include "lockstep/replica.h"
#include "lockstep/training_feed.h"
#include "parallel/batch/batch_plan.h"
#include "parallel/batch/fingerprint.h"
#include "parallel/batch/run_samples.h"
#include "parallel/batch/run_settings.h"
#include "parallel/batch/training_feed.h"
#include "parallel/replica/algorithm_file.h"
#include "parallel/replica/replica_state.h"
#include "parallel/replica/teacher.h"
#include "parallel/training/resume.h"
#include "parallel/training/training_run.h"

namespace lockstep {
class Trainer::State {
 public:
  State(RankContext& context, ModelFunction model, LossFunction loss, const TrainOptions& options)
      : context_(context),
        model_(std::move(model)),
        loss_(std::move(loss)),
        options_(options),
        batch_(plan_batch(options, context.size())) {
    validate(options_);
  }

  void add_observer(TrainObserver& observer) {
    if (context_.rank() == 0) observers_.push_back(&observer);
  }

  TrainSummary fit(const data::DataSplit& given) {
    LOCKSTEP_CHECK(given.train != nullptr && given.train->size() > 0,
                   ConfigError,
                   "data: there is nothing to train on");
    const data::DataSplit data = training_data(given, options_);
    record_ = io::record_texts(data.train->preprocessing());
    for (const auto& [name, text] : record_) options_.checkpoint.texts[name] = text;
    const std::int64_t size = data.train->size();
    expect_whole_batch(options_.global_batch, size);
    steps_ = total_steps(options_, size);
    schedule_ = over_run(options_.lr_schedule, steps_);
    // Before anything collective is built: ranks with other settings would wait in other places.
    agree_on_settings(data);
    add_content_sample(data);
    start_ = find_resume_point(context_.communicator(), options_.checkpoint);
    if (start_) check_start(*data.train);
    build(data);
    if (!start_) replica_->initialise_from(*data.train);
    return TrainingRun({.context = context_,
                        .replica = *replica_,
                        .options = options_,
                        .data = data,
                        .schedule = schedule_,
                        .steps = steps_,
                        .settings = settings_,
                        .start = start_ ? &*start_ : nullptr,
                        .observers = observers_})
        .run();
  }

  EvaluationRecord evaluate(data::DataSplit data) {
    LOCKSTEP_CHECK(data.validation != nullptr && data.validation->size() > 0,
                   ConfigError,
                   "data: there is nothing to evaluate on");
    if (!data.train) data.train = data.validation;  // no sample of it is looked at
    agree_on_settings(data);
    build(data);
    context_.position().enter(RunStage::evaluation);
    const EvaluationRecord record =
        *Evaluation(context_, *replica_, options_, data.validation).run({});
    LOCKSTEP_CHECK(std::isfinite(record.val_loss),
                   NonFiniteError,
                   "evaluation: the loss is {}",
                   record.val_loss);
    return record;
  }

  int rank() const { return context_.rank(); }

  /// The training data's: name and content of its files.
  const std::map<std::string, std::string>& record() const {
    LOCKSTEP_CHECK(!record_.empty(), ConfigError, "trainer: fit() comes first");
    return record_;
  }

  Replica& replica() {
    LOCKSTEP_CHECK(replica_ != nullptr, ConfigError, "trainer: fit() comes first");
    return *replica_;
  }

 private:
  void agree_on_settings(const data::DataSplit& data) {
    settings_ =
        run_settings(options_, batch_, steps_, schedule_, data, context_.backend().device_class());
    for (auto& setting : model_settings(model_, loss_, data.train->spec(), options_, batch_))
      settings_.push_back(std::move(setting));
    if (options_.distillation.on())
      settings_.emplace_back("teacher", teacher_sha256(options_, data.train->spec()).substr(0, 16));
    compare_fingerprints(context_.communicator(), settings_);
  }

  /// Rank 0's, for the checkpoints: that others see the same data has been compared, and one rank
  /// asks a file server for less than all do.
  void add_content_sample(const data::DataSplit& data) {
    const Fingerprint sample = fingerprint_of_rank_0(
        context_.communicator(), [&] { return content_settings(data, options_); });
    settings_.insert(settings_.end(), sample.begin(), sample.end());
  }

  /// check_settings() would only say that the content is another.
  void check_columns(const data::Dataset& data) const {
    const data::Preprocessing now = data.preprocessing();
    const std::string file = start_->record.path + "/" + io::kPreprocessingFile;
    if (!is_there(file)) return;
    if (now.table)
      data::check_same_encoding(io::read_preprocessing(file), now, start_->record.path);
    if (now.task == data::Task::next_token)
      data::check_same_tokenizer(io::read_preprocessing(file), now, start_->record.path);
  }

  void check_start(const data::Dataset& data) {
    check_columns(data);
    check_settings(*start_, settings_, options_, data);
    const io::CheckpointState& state = start_->state;
    const std::int64_t samples =
        samples_before(state.step, data.size(), options_.global_batch, state.skipped_batches);
    if (samples != state.samples)
      start_->record.overridden.push_back(
          fmt::format("position in the data {} samples then, {} now", state.samples, samples));
  }

  /// Makes the replica, and has the ranks agree that they made the same.
  void build(const data::DataSplit& data) {
    const std::string note =
        prepare_algorithms(context_, options_, start_ ? start_->record.path : "");
    if (start_ && !note.empty()) start_->record.overridden.push_back(note);
    make_replica(data);
    if (std::string algorithms = algorithms_text(context_.backend()); !algorithms.empty())
      options_.checkpoint.texts[kAlgorithmsFile] = std::move(algorithms);
    ReplicaState& replica = ReplicaState::of(*replica_);
    Fingerprint built{{"program", short_hash(replica.program_text())}};
    if (const std::string choices = context_.backend().choices(); !choices.empty())
      built.emplace_back("algorithms", short_hash(choices));
    if (start_) replica.restore(start_->record.path);
    if (start_ || !options_.init.empty())
      built.emplace_back("weights at the start", replica_->weights_sha256().substr(0, 16));
    compare_fingerprints(context_.communicator(), built);
  }

  void make_replica(const data::DataSplit& data) {
    const std::vector<std::int64_t> tails =
        tail_sizes(batch_, data.train->size(), data.validation ? data.validation->size() : 0);
    TrainOptions options = options_;
    if (start_) options.init.clear();  // the checkpoint has the weights
    replica_.reset();                  // of an earlier fit(), before its memory is reserved again
    replica_ = ReplicaState::make_replica(std::make_unique<ReplicaState>(
        context_, model_, loss_, samples_of(data), options, batch_, tails));
  }

  RankContext& context_;
  ModelFunction model_;
  LossFunction loss_;
  TrainOptions options_;
  BatchPlan batch_;
  std::vector<TrainObserver*> observers_;
  std::unique_ptr<Replica> replica_;
  LrSchedule schedule_;
  std::int64_t steps_ = 0;
  Fingerprint settings_;
  std::optional<ResumePoint> start_;
  std::map<std::string, std::string> record_;
};

Trainer::Trainer(RankContext& context,
                 ModelFunction model,
                 LossFunction loss,
                 const TrainOptions& options)
    : state_(std::make_unique<State>(context, std::move(model), std::move(loss), options)) {}

Trainer::~Trainer() = default;

void Trainer::add_observer(TrainObserver& observer) { state_->add_observer(observer); }

EvaluationRecord Trainer::evaluate(const data::DataSplit& data) { return state_->evaluate(data); }

TrainSummary Trainer::fit(const data::DataSplit& data) { return state_->fit(data); }

std::vector<io::NamedTensor> Trainer::weights() { return state_->replica().weights(); }

void Trainer::save_weights(const std::string& file) {
  io::save_weights(file, state_->replica().weights());
}

void Trainer::save_average(const std::string& file) {
  ReplicaState& replica = ReplicaState::of(state_->replica());
  LOCKSTEP_CHECK(replica.options.ema.on(),
                 ConfigError,
                 "trainer: there is no average of the weights: TrainOptions::ema is off");
  std::exception_ptr failed;  // the other ranks take part in the scope's end
  {
    const AverageScope averaged(replica);
    try {
      if (state_->rank() == 0) save_weights(file);
    } catch (...) {
      failed = std::current_exception();
    }
  }
  if (failed) std::rethrow_exception(failed);
}

void Trainer::save(const std::string& folder) {
  if (state_->rank() > 0) return;
  const std::map<std::string, std::string>& record = state_->record();
  io::create_folders(folder);
  save_weights(folder + "/model.safetensors");
  for (const auto& [name, text] : record) io::replace_file(folder + "/" + name, text);
}

}  // namespace lockstep
