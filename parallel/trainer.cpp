// SPDX-License-Identifier: Apache-2.0
#include "parallel/trainer.h"

#include <chrono>
#include <cmath>
#include <numeric>
#include <optional>
#include <sys/resource.h>

#include "core/base/error.h"
#include "parallel/fingerprint.h"
#include "parallel/profile_report.h"
#include "parallel/replica.h"
#include "parallel/training_feed.h"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::uint64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return std::uint64_t(usage.ru_maxrss) * 1024;
}

/// Steps of the run from whichever length was given.
std::int64_t total_steps(const TrainOptions& o, std::int64_t dataset_size) {
  const std::int64_t per_epoch = (dataset_size - 1) / o.global_batch + 1;
  if (o.steps > 0) return o.steps;
  if (o.epochs > 0) return std::max<std::int64_t>(1, std::llround(o.epochs * double(per_epoch)));
  const std::int64_t epochs = o.samples / dataset_size, rest = o.samples % dataset_size;
  return epochs * per_epoch + (rest == 0 ? 0 : (rest - 1) / o.global_batch + 1);
}

}  // namespace

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

  TrainSummary fit(const data::DataSplit& data) {
    LOCKSTEP_CHECK(data.train != nullptr && data.train->size() > 0,
                   ConfigError,
                   "data: there is nothing to train on");
    const std::int64_t size = data.train->size();
    LOCKSTEP_CHECK(options_.global_batch <= size,
                   ConfigError,
                   "batch: global-batch {} is larger than the {} training samples",
                   options_.global_batch,
                   size);
    steps_ = total_steps(options_, size);
    schedule_ = options_.lr_schedule;
    if (schedule_.decay_steps == 0) schedule_.decay_steps = steps_ - schedule_.warmup_steps;
    training_seconds_ = 0;
    // Before anything collective is built: ranks with other settings would wait in other places.
    compare_fingerprints(context_.communicator(), settings_fingerprint(data));
    build(data);
    return train(data);
  }

  EvaluationRecord evaluate(const data::DataSplit& data) {
    LOCKSTEP_CHECK(data.validation != nullptr && data.validation->size() > 0,
                   ConfigError,
                   "data: there is nothing to evaluate on");
    compare_fingerprints(context_.communicator(), settings_fingerprint(data));
    build(data);
    TrainSummary summary;
    EvaluationRecord record = run_evaluation(data, summary);
    record.skipped_samples = sum_over_ranks(summary.skipped_samples);
    record.first_skipped = summary.first_skipped;
    LOCKSTEP_CHECK(std::isfinite(record.val_loss),
                   NonFiniteError,
                   "evaluation: the loss is {}",
                   record.val_loss);
    return record;
  }

  Replica& replica() {
    LOCKSTEP_CHECK(replica_.has_value(), ConfigError, "trainer: fit() comes first");
    return *replica_;
  }

 private:
  /// Makes the replica, and has the ranks agree that they made the same.
  void build(const data::DataSplit& data) {
    make_replica(data);
    Fingerprint built{{"program", short_hash(replica_->program_text())}};
    if (!options_.init.empty())
      built.emplace_back("weights of init", io::weights_sha256(replica_->weights()).substr(0, 16));
    compare_fingerprints(context_.communicator(), built);
  }

  void make_replica(const data::DataSplit& data) {
    const std::int64_t size = data.train->size(), micro = batch_.micro_batch;
    std::vector<std::int64_t> tails{options_.global_batch % micro,
                                    size % options_.global_batch % micro};
    if (data.validation) {
      const std::int64_t n = data.validation->size();
      tails.push_back(n % micro);
    }
    std::erase(tails, 0);
    replica_.emplace(context_, model_, loss_, data.train->spec(), options_, tails);
  }

  Fingerprint settings_fingerprint(const data::DataSplit& data) {
    const BatchPlan& b = batch_;
    return {
        {"global-batch", std::to_string(b.global_batch)},
        {"micro-batch", std::to_string(b.micro_batch)},
        {"shards", std::to_string(b.shards)},
        {"batch-norm", options_.batch_norm.to_string()},
        {"steps", std::to_string(steps_)},
        {"optimizer", to_string(options_.optimizer)},
        {"lr-schedule", to_string(schedule_)},
        {"clip-norm", fmt::format("{}", options_.clip_norm)},
        {"no-decay",
         fmt::format("{}{}", fmt::join(options_.no_decay, ","), options_.decay_all ? " all" : "")},
        {"precision", std::string(name_of(options_.precision))},
        {"fusion", options_.fuse ? "on" : "off"},
        {"recompute", std::string(name_of(options_.recompute))},
        {"memory-limit", std::to_string(options_.memory_limit)},
        {"freeze", fmt::format("{}", fmt::join(options_.freeze, ","))},
        {"init", options_.init.empty() ? "no" : "yes"},
        {"init-skip", fmt::format("{}", fmt::join(options_.init_skip, ","))},
        {"seed", std::to_string(options_.seed)},
        {"reduction", options_.reduction == Reduction::fast ? "fast" : "reproducible"},
        {"bucket-mb", fmt::format("{}", options_.bucket_mb)},
        {"augment", options_.augmentation.to_string()},
        {"skip-bad-samples", options_.skip_bad_samples ? "yes" : "no"},
        {"profile", options_.profile ? "on" : "off"},
        {"log-every", std::to_string(options_.log_every)},
        {"eval-every", std::to_string(options_.eval_every)},
        {"data content", fmt::format("{:016x}", data.train->fingerprint())},
        {"validation data content",
         data.validation ? fmt::format("{:016x}", data.validation->fingerprint()) : "none"},
        {"device class", context_.backend().device_class()}};
  }

  TrainSummary train(const data::DataSplit& data) {
    const std::int64_t size = data.train->size();
    const std::int64_t tail = size % options_.global_batch;
    Schedule full = replica_->schedule(options_.global_batch);
    Schedule last = tail == 0 ? full : replica_->schedule(tail);
    TrainingFeed feed(
        size, options_.global_batch, steps_, options_.seed, std::move(full), std::move(last));
    TrainingFeed requests = feed;
    data::Loader loader(data.train,
                        {.workers = options_.workers,
                         .slots = 4,
                         .micro_batch = batch_.micro_batch,
                         .seed = options_.seed,
                         .augmentation = options_.augmentation,
                         .skip_bad_samples = options_.skip_bad_samples},
                        [&requests](data::LoadRequest& r) { return requests.next(r); });

    TrainSummary summary;
    for (TrainObserver* observer : observers_) observer->on_start();
    context_.communicator().barrier();
    if (options_.profile) replica_->profiler()->start();
    mark_ = {0, Clock::now(), replica_->times(), loader.waited_seconds(), 0};
    for (std::int64_t step = 0; step < steps_; ++step) {
      const bool last_step = step + 1 == steps_;
      const bool logs =
          (options_.log_every > 0 && (step + 1) % options_.log_every == 0) || last_step;
      const float lr = lr_at(schedule_, learning_rate(options_.optimizer), step);
      const StepResult result = replica_->train_step(feed.schedule(step), loader, step, lr, logs);
      if (logs) {
        log_step(feed, loader, step, lr, result);
        summary.train_loss = result.loss;
      }
      if (data.validation && evaluates_after(feed, step)) evaluate_after(feed, data, step, summary);
    }
    count_skipped(loader, summary);
    finish(feed, loader, summary);
    return summary;
  }

  bool evaluates_after(const TrainingFeed& feed, std::int64_t step) const {
    if (options_.eval_every == 0) return false;
    const std::int64_t every =
        options_.eval_every > 0 ? options_.eval_every : feed.steps_per_epoch();
    return (step + 1) % every == 0 || step + 1 == steps_;
  }

  /// Closes the interval since the last record, on every rank, so that evaluation and logging are
  /// in no step's time.
  void log_step(const TrainingFeed& feed,
                const data::Loader& loader,
                std::int64_t step,
                float lr,
                const StepResult& result) {
    const double interval = mark_.seconds + seconds_since(mark_.time);
    training_seconds_ += interval;
    const StepTimes now = replica_->times();
    const double steps = double(step + 1 - mark_.step);
    const auto ms = [&](double end, double begin) { return (end - begin) / steps * 1e3; };
    StepRecord record{
        .step = step + 1,
        .steps = steps_,
        .epoch = double(step + 1) / double(feed.steps_per_epoch()),
        .samples = feed.samples_before(step + 1),
        .loss = result.loss,
        .accuracy = result.accuracy,
        .lr = lr,
        .grad_norm = result.grad_norm,
        .samples_per_s =
            double(feed.samples_before(step + 1) - feed.samples_before(mark_.step)) / interval,
        .step_ms = interval / steps * 1e3,
        .data_ms = ms(loader.waited_seconds(), mark_.data_wait),
        .forward_ms = ms(now.forward, mark_.times.forward),
        .backward_ms = ms(now.backward, mark_.times.backward),
        .comm_exposed_ms = ms(now.exposed_communication, mark_.times.exposed_communication),
        .optimizer_ms = ms(now.optimizer, mark_.times.optimizer),
        .loader_samples_per_s = loader_rate(loader)};
    for (TrainObserver* observer : observers_) observer->on_step(record);
    mark_ = {step + 1, Clock::now(), replica_->times(), loader.waited_seconds(), 0};
  }

  /// Adds the samples that could not be read to `summary`.
  EvaluationRecord run_evaluation(const data::DataSplit& data, TrainSummary& summary) {
    const auto begin = Clock::now();
    const Schedule schedule = replica_->evaluation_schedule(data.validation->size());
    EvaluationFeed requests(schedule);
    data::LoaderOptions loading;
    loading.workers = options_.workers;
    loading.micro_batch = batch_.micro_batch;
    loading.skip_bad_samples = options_.skip_bad_samples;
    data::Loader loader(
        data.validation, loading, [&requests](data::LoadRequest& r) { return requests.next(r); });
    const StepResult result = replica_->evaluate(schedule, loader);
    count_skipped(loader, summary);
    EvaluationRecord record;
    record.val_loss = result.loss;
    record.val_accuracy = result.accuracy;
    record.seconds = seconds_since(begin);
    return record;
  }

  void evaluate_after(const TrainingFeed& feed,
                      const data::DataSplit& data,
                      std::int64_t step,
                      TrainSummary& summary) {
    mark_.seconds += seconds_since(mark_.time);
    EvaluationRecord record = run_evaluation(data, summary);
    record.step = step + 1;
    record.epoch = double(step + 1) / double(feed.steps_per_epoch());
    for (TrainObserver* observer : observers_) observer->on_evaluation(record);
    summary.val_loss = record.val_loss;
    summary.val_accuracy = record.val_accuracy;
    summary.evaluated = true;
    mark_.time = Clock::now();
  }

  void report_profile() {
    if (!options_.profile) return;
    const ProfileRecord record = make_profile(context_, *replica_->profiler(), steps_);
    for (TrainObserver* observer : observers_) observer->on_profile(record);
  }

  double loader_rate(const data::Loader& loader) const {
    return loader.samples_per_second() * context_.size();
  }

  static void count_skipped(const data::Loader& loader, TrainSummary& summary) {
    if (summary.skipped_samples == 0) summary.first_skipped = loader.first_skipped();
    summary.skipped_samples += loader.skipped_samples();
  }

  std::int64_t sum_over_ranks(std::int64_t own) {
    std::vector<std::int64_t> all(std::size_t(context_.size()));
    context_.communicator().all_gather(&own, all.data(), sizeof own);
    return std::accumulate(all.begin(), all.end(), std::int64_t{0});
  }

  void finish(const TrainingFeed& feed, const data::Loader& loader, TrainSummary& summary) {
    summary.steps = steps_;
    summary.samples = feed.samples_before(steps_);
    summary.wall_s = training_seconds_;
    summary.samples_per_s = double(summary.samples) / training_seconds_;
    summary.comm_exposed_share = replica_->times().exposed_communication / training_seconds_;
    summary.data_wait_share = loader.waited_seconds() / training_seconds_;
    summary.loader_samples_per_s = loader_rate(loader);
    summary.loader_workers = loader.workers();
    summary.skipped_samples = sum_over_ranks(summary.skipped_samples);
    summary.peak_memory_bytes = peak_resident_bytes();
    summary.planned_bytes = replica_->planned_bytes();
    summary.activation_bytes = replica_->activation_bytes();
    summary.weights_sha256 = io::weights_sha256(replica_->weights());
    summary.ranks = context_.size();
    summary.device = context_.backend().device_class();
    for (TrainObserver* observer : observers_) observer->on_end(summary);
    report_profile();
  }

  /// Where the interval of the next record begins.
  struct Mark {
    std::int64_t step = 0;
    Clock::time_point time;
    StepTimes times;
    double data_wait = 0;
    double seconds = 0;  // of training before `time`, where an evaluation came between
  };

  RankContext& context_;
  ModelFunction model_;
  LossFunction loss_;
  TrainOptions options_;
  BatchPlan batch_;
  std::vector<TrainObserver*> observers_;
  std::optional<Replica> replica_;
  LrSchedule schedule_;
  std::int64_t steps_ = 0;
  double training_seconds_ = 0;
  Mark mark_;
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

}  // namespace lockstep
