// SPDX-License-Identifier: Apache-2.0
// The moving average of the weights: its values, its bits on any number of ranks and through a
// resume, its evaluation.
#include "core/step/weight_average.h"

#include <cmath>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <sstream>

#include "core/io/checkpoint/checkpoint.h"
#include "core/io/checkpoint/checkpoint_names.h"
#include "core/io/safetensors.h"
#include "lockstep/error.h"
#include "lockstep/trainer.h"
#include "parallel/comm/self_communicator.h"
#include "tests/parallel/shared_folder.h"
#include "tests/parallel/small_runs.h"
#include "tests/support/test_backend.h"

namespace lockstep {
namespace {

using testing::SharedFolder;
using testing::SmallRun;
using Tensors = std::map<std::string, std::vector<float>>;

bool is_first() { return testing::mpi_world().rank() == 0; }

/// With batch norm, whose statistics are averaged too; on an emulated GPU, where convolutions take
/// a minute, without.
SmallRun averaged_run() {
  static const bool on_cpu = testing::make_test_backend()->device_class().starts_with("cpu");
  SmallRun run = on_cpu ? testing::small_resnet() : testing::small_embedding();
  run.options.steps = 5;
  run.options.log_every = 0;
  run.options.ema = {.decay = 0.75f};
  return run;
}

std::string checkpoint(const SharedFolder& folder, std::int64_t step) {
  return folder / ("run/" + io::checkpoint_name(step));
}

Tensors read(const std::string& path) {
  const io::SafetensorsReader file(path);
  Tensors tensors;
  for (const io::TensorEntry& entry : file.entries()) {
    std::vector<float>& values = tensors[entry.name];
    values.resize(entry.bytes / sizeof(float));
    file.read(entry, std::as_writable_bytes(std::span(values)));
  }
  return tensors;
}

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  EXPECT_TRUE(file) << path;
  return bytes.str();
}

TEST(WeightAverage, FollowsItsFormulaStepByStep) {
  const SharedFolder folder;
  SmallRun run = averaged_run();
  constexpr std::int64_t kSteps = 4;
  for (std::int64_t steps = 1; steps <= kSteps; ++steps) {  // each ends as the next one goes on
    run.options.steps = steps;
    run.options.checkpoint = {.folder = folder / "run", .every_steps = steps, .keep = kSteps};
    testing::train(run, testing::mpi_world());
  }
  testing::mpi_world().barrier();
  if (!is_first()) return;
  for (std::int64_t step = 1; step < kSteps; ++step) {
    const Tensors before = read(checkpoint(folder, step) + "/" + io::kAverageFile),
                  after = read(checkpoint(folder, step + 1) + "/" + io::kAverageFile),
                  weights = read(checkpoint(folder, step + 1) + "/" + io::kModelFile);
    const float rate = ema_rate(run.options.ema, run.options.global_batch, std::uint64_t(step));
    ASSERT_EQ(after.size(), weights.size());
    bool moved = false;
    for (const auto& [name, values] : weights)
      for (std::size_t i = 0; i < values.size(); ++i) {
        const float a = before.at(name)[i];
        ASSERT_EQ(after.at(name)[i], a + rate * (values[i] - a)) << name << " " << step;
        moved = moved || after.at(name)[i] != a;
      }
    EXPECT_TRUE(moved);
  }
}

TEST(WeightAverage, HasEqualBitsOnAnyRanksAndThroughAResume) {
  const SharedFolder folder, alone;
  SmallRun run = averaged_run();
  if (is_first()) {
    run.options.checkpoint = {.folder = alone / "run", .every_steps = 5};
    SelfCommunicator self;
    testing::train(run, self);
  }
  testing::mpi_world().barrier();
  run.options.checkpoint = {.folder = folder / "run", .every_steps = 5};
  int asked = 0;
  run.options.stop = [&] { return ++asked == 2; };
  ASSERT_TRUE(testing::train(run, testing::mpi_world()).stopped);
  run.options.stop = {};
  run.options.checkpoint.resume = "auto";
  testing::train(run, testing::mpi_world());
  testing::mpi_world().barrier();
  for (const char* file : {io::kAverageFile, io::kModelFile})
    EXPECT_EQ(bytes_of(checkpoint(folder, 5) + "/" + file),
              bytes_of(checkpoint(alone, 5) + "/" + file));
}

class LastEvaluation final : public TrainObserver {
 public:
  void on_evaluation(const EvaluationRecord& record) override { last = record; }
  EvaluationRecord last;
};

TEST(WeightAverage, IsEvaluatedBesideTheWeightsAndChangesNothing) {
  const SharedFolder folder;
  SmallRun run = averaged_run();
  const std::string file = folder / "ema.safetensors";
  testing::DeviceContext context(testing::mpi_world());
  LastEvaluation seen;
  std::string sha;
  {
    Trainer trainer(context, run.model, softmax_cross_entropy, run.options);
    trainer.add_observer(seen);
    sha = trainer.fit(run.data).weights_sha256;
    if (is_first()) trainer.save_average(file);
    testing::mpi_world().barrier();
  }
  TrainOptions without = run.options;
  without.ema = {};
  Trainer plain(context, run.model, softmax_cross_entropy, without);
  EXPECT_EQ(plain.fit(run.data).weights_sha256, sha);
  if (is_first()) {
    EXPECT_THROW(plain.save_average(file + ".none"), ConfigError);
  }

  without.init = file;
  Trainer of_average(context, run.model, softmax_cross_entropy, without);
  const EvaluationRecord expected = of_average.evaluate(run.data);
  if (!is_first()) return;
  ASSERT_TRUE(seen.last.ema_val_loss);
  EXPECT_EQ(*seen.last.ema_val_loss, expected.val_loss);
  EXPECT_EQ(*seen.last.ema_val_accuracy, expected.val_accuracy);
  EXPECT_NE(*seen.last.ema_val_loss, seen.last.val_loss);
}

}  // namespace
}  // namespace lockstep
