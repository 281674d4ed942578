// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "parallel/gradient_exchange.h"
#include "parallel/optimizer_step.h"
#include "parallel/program_set.h"
#include "parallel/replica.h"

namespace lockstep {

/// Where the loss and the number of correct answers lie in the flat gradient space.
struct MetricPlaces {
  std::int64_t loss = -1;
  std::int64_t correct = -1;  ///< -1 where there are no classes
  Bucket range;               ///< holds both

  MetricPlaces(const Graph& graph, const FlatSpace& space);
};

/// The inside of a Replica; listens to its own backward pass to start exchanges.
class Replica::State final : public BucketListener {
 public:
  State(RankContext& context,
        const ModelFunction& model,
        const LossFunction& loss,
        const data::SampleSpec& samples,
        const TrainOptions& options,
        std::vector<std::int64_t> tail_sizes);

  StepResult train_step(const Schedule& schedule,
                        data::Loader& loader,
                        std::int64_t step,
                        float lr,
                        bool want_grad_norm);
  StepResult evaluate(const Schedule& schedule, data::Loader& loader);

  void on_bucket_complete(int bucket) override { exchange.start_bucket(bucket); }
  void between_kernels() override { exchange.progress(); }

  RankContext& context;
  TrainOptions options;
  BatchPlan batch;
  ProgramSet programs;
  MetricPlaces metrics;
  OptimizerStep optimizer;
  GradientExchange exchange;
  GradientExchange evaluation_exchange;
  StepTimes times;

 private:
  void initialise_parameters();
  void load_initial_weights();
  void load(const BoundProgram& program, data::Loader& loader);
  void check_labels(const data::LoadedBatch& loaded) const;
  void run(Program& program, const RunState& state, bool exchange_after);
  void start_all_buckets();
  void join_missing_rounds(const Schedule& schedule, RunState& state);
  StepResult update(const Schedule& schedule, std::int64_t step, float lr, bool want_grad_norm);
  void read_metrics(StepResult& result);

  std::size_t input_bytes_, target_bytes_;
  int classes_;
  std::unique_ptr<Communicator> group_;
  float sample_weight_ = 0;
};

}  // namespace lockstep
