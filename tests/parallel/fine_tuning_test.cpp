// SPDX-License-Identifier: Apache-2.0
// Starting from a file and keeping parts of it: what --init, --init-skip and --freeze promise.
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>

#include "lockstep/data/sources.h"
#include "lockstep/error.h"
#include "lockstep/replica.h"
#include "lockstep/trainer.h"
#include "lockstep/zoo.h"
#include "parallel/comm/self_communicator.h"
#include "parallel/replica/replica_state.h"
#include "tests/parallel/claimed_hosts.h"
#include "tests/support/device_context.h"
#include "tests/support/mpi_world.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

using Weights = std::map<std::string, std::vector<float>>;

data::DataSplit glyphs() { return data::glyphs(64, 16); }

TrainOptions short_run() {
  TrainOptions options{.global_batch = 32, .micro_batch = 8, .steps = 4};
  options.optimizer = Sgd{.lr = 0.05f, .momentum = 0.9f, .weight_decay = 0.01f};
  options.decay_all = true;
  options.bucket_mb = 0.001;
  return options;
}

ModelFunction convnet(std::int64_t outputs = 10) {
  return nn::make_model({.name = "convnet", .outputs = outputs});
}

/// Each rank its own file, so that none waits for another's.
std::string own_file(const std::string& name) {
  return ::testing::TempDir() + name + std::to_string(testing::mpi_world().rank()) + ".safetensors";
}

TrainSummary train(RankContext& context, const TrainOptions& options, std::string file = {}) {
  Trainer trainer(context, convnet(), softmax_cross_entropy, options);
  const TrainSummary summary = trainer.fit(glyphs());
  if (!file.empty()) trainer.save_weights(file);
  return summary;
}

TrainSummary train(Communicator& communicator, const TrainOptions& options, std::string file = {}) {
  testing::DeviceContext context(communicator);
  return train(context, options, std::move(file));
}

/// As a run with these options begins.
std::vector<io::NamedTensor> start_of(const TrainOptions& options) {
  SelfCommunicator self;
  testing::DeviceContext context(self);
  return Replica(context, convnet(), softmax_cross_entropy, glyphs().train->spec(), options, {})
      .weights();
}

Weights by_name(const std::vector<io::NamedTensor>& tensors) {
  Weights weights;
  for (const io::NamedTensor& tensor : tensors) weights[tensor.parameter.name] = tensor.values;
  return weights;
}

TEST(FineTuning, SavedWeightsStartTheNextRunBitForBit) {
  const std::string file = own_file("round_trip");
  const TrainSummary trained = train(testing::mpi_world(), short_run(), file);
  TrainOptions options = short_run();
  options.init = file;
  options.seed = 99;
  EXPECT_EQ(io::weights_sha256(start_of(options)), trained.weights_sha256);
  std::filesystem::remove(file);
}

TEST(FineTuning, SkippedParametersStartFromTheSeed) {
  const std::string file = own_file("skip");
  train(testing::mpi_world(), short_run(), file);
  TrainOptions options = short_run();
  const Weights fresh = by_name(start_of(options));
  options.init = file;
  options.init_skip = {"^fc\\."};
  const Weights started = by_name(start_of(options));
  for (const auto& [name, values] : started)
    EXPECT_EQ(values == fresh.at(name), name.starts_with("fc.")) << name;
  std::filesystem::remove(file);
}

TEST(FineTuning, FrozenParametersKeepTheirBitsAndStatisticsMove) {
  TrainOptions options = short_run();
  options.freeze = {"^conv", "^bn1"};
  const Weights before = by_name(start_of(options));
  const std::string file = own_file("frozen");
  train(testing::mpi_world(), options, file);
  TrainOptions reading = options;
  reading.init = file;
  const Weights after = by_name(start_of(reading));
  for (const auto& [name, values] : after) {
    const bool statistic = name.find("running_") != std::string::npos;
    const bool frozen = !statistic && (name.starts_with("conv") || name.starts_with("bn1"));
    EXPECT_EQ(values == before.at(name), frozen) << name;
  }
  std::filesystem::remove(file);
}

TEST(FineTuning, FreezingGivesTheSameBitsOnAnyNumberOfRanks) {
  for (const auto& freeze : {std::vector<std::string>{"^conv1", "bias"}, {"^conv", "^bn"}}) {
    TrainOptions options = short_run();
    options.freeze = freeze;
    SelfCommunicator self;
    EXPECT_EQ(train(testing::mpi_world(), options).weights_sha256,
              train(self, options).weights_sha256);
  }
}

// The frozen part's slots are not exchanged, and the norm that clips leaves them out.
TEST(FineTuning, OnlyWhatIsTrainedHasGradients) {
  TrainOptions options = short_run();
  options.freeze = {"^conv", "^bn"};
  SelfCommunicator self;
  testing::DeviceContext context(self);
  const Replica replica(
      context, convnet(), softmax_cross_entropy, glyphs().train->spec(), options, {});
  std::vector<std::string> names;
  for (const io::NamedTensor& tensor : replica.gradients()) names.push_back(tensor.parameter.name);
  EXPECT_THAT(names, ::testing::ElementsAre("fc.weight", "fc.bias"));
  EXPECT_THAT(ReplicaState::of(replica).program_text(), ::testing::Not(HasSubstr("conv2d_bwd")));
  EXPECT_THAT(ReplicaState::of(replica).program_text(),
              ::testing::Not(HasSubstr("batch_norm_bwd")));
}

/// Of ranks whose collectives are done in stream order, as between GPUs.
class StreamContext final : public RankContext {
 public:
  Backend& backend() override { return *backend_; }
  Communicator& communicator() override { return streams_; }

 private:
  std::unique_ptr<Backend> backend_ = testing::make_test_backend();
  testing::Traffic traffic_;
  testing::ClaimedHosts streams_{testing::mpi_world(), testing::mpi_world().size(), traffic_, true};
};

std::string error_of(const TrainOptions& options, RankContext* context = nullptr) {
  try {
    context != nullptr ? train(*context, options) : train(testing::mpi_world(), options);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(FineTuning, PatternsThatMatchNothingOrEverythingAreRefused) {
  TrainOptions options = short_run();
  options.freeze = {"^conv1", "^layr1"};
  EXPECT_THAT(error_of(options), HasSubstr("`freeze`: no parameter matches '^layr1'"));
  options.freeze = {"."};
  EXPECT_THAT(error_of(options), HasSubstr("nothing is left to train"));
  options.freeze = {"("};
  EXPECT_THAT(error_of(options), HasSubstr("`freeze`: '(' is not a valid regular expression"));
}

TEST(FineTuning, RanksThatReadOtherWeightsAreNamed) {
  Communicator& world = testing::mpi_world();
  if (world.size() < 2) GTEST_SKIP() << "needs 2 ranks";
  const std::string file = own_file("differs");
  TrainOptions options = short_run();
  options.seed = std::uint64_t(world.rank());
  SelfCommunicator self;
  train(self, options, file);
  TrainOptions reading = short_run();
  reading.init = file;
  EXPECT_THAT(error_of(reading), HasSubstr("weights at the start is"));
  reading.sharding = Sharding::optimizer;
  reading.bucket_mb = 0;
  EXPECT_THAT(error_of(reading), HasSubstr("weights at the start is"));
  // Where owners' gathers are warmed up, which make ranks alike.
  StreamContext streams;
  EXPECT_THAT(error_of(reading, &streams), HasSubstr("weights at the start is"));
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace lockstep
