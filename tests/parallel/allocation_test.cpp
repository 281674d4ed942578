// SPDX-License-Identifier: Apache-2.0
// In steady state a training step allocates nothing of Lockstep's own. Every operator new of the
// program is counted by the module that asked for it: Lockstep is linked statically into the test,
// libraries (MPI, oneDNN) are shared objects and only reported.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <execinfo.h>
#include <fstream>
#include <gtest/gtest.h>

#include "lockstep/data/sources.h"
#include "lockstep/replica.h"
#include "lockstep/training_feed.h"
#include "lockstep/zoo.h"
#include "tests/parallel/claimed_hosts.h"
#include "tests/support/device_context.h"
#include "tests/support/mpi_world.h"
#include "tests/support/replaced_new.h"

namespace {

std::atomic<int> own_allocations{0}, library_allocations{0};

const char* module_of(void* address) {
  Dl_info info{};
  return dladdr(address, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

/// The first from `caller` on that is not libstdc++ decides whose it is.
bool asked_by_lockstep(const void* caller) {
  void* frames[24];
  const int depth = backtrace(frames, 24);
  const char* own = module_of(reinterpret_cast<void*>(&asked_by_lockstep));
  for (void* const* frame = std::find(frames, frames + depth, caller); frame < frames + depth;
       ++frame) {
    const char* module = module_of(*frame);
    if (std::strstr(module, "libstdc++") != nullptr) continue;
    return std::strcmp(module, own) == 0;
  }
  return true;
}

bool count(const void* caller) {
  ++(asked_by_lockstep(caller) ? own_allocations : library_allocations);
  return true;
}

void start_counting() {
  own_allocations = library_allocations = 0;
  lockstep::testing::on_allocation = count;
}
void stop_counting() { lockstep::testing::on_allocation = nullptr; }

}  // namespace

namespace lockstep {
namespace {

/// Trains `steps` steps after as many for warming up, and calls `middle` in between.
template <typename Middle>
void train(Communicator& communicator,
           const std::string& model,
           Precision precision,
           std::int64_t warm_up,
           std::int64_t steps,
           Middle middle,
           std::int64_t global_batch = 48,
           Sharding sharding = Sharding::none) {
  testing::DeviceContext context(communicator);
  // While other ranks spin for each other, a thread waits long for its turn on two cores.
  const int workers = context.size() == 1 ? 1 : 0;
  const data::DataSplit glyphs = data::glyphs(1000, 10);
  TrainOptions options{.global_batch = global_batch, .micro_batch = 8};
  options.optimizer = AdamW{};
  options.precision = precision;
  options.clip_norm = 1.0f;
  // Several buckets, some above and some below what is gathered whole.
  options.bucket_mb = 0.05;
  options.sharding = sharding;
  const std::int64_t rest = 1000 % options.global_batch;
  Replica replica(context,
                  nn::make_model({.name = model, .hidden = {80}, .dropout = 0.1f}),
                  softmax_cross_entropy,
                  glyphs.train->spec(),
                  options,
                  {rest % options.micro_batch});
  TrainingFeed feed(1000,
                    options.global_batch,
                    warm_up + steps,
                    1,
                    replica.schedule(options.global_batch),
                    replica.schedule(rest));
  TrainingRequests requests(feed);
  data::Loader loader(glyphs.train,
                      {.workers = workers, .micro_batch = options.micro_batch},
                      [&](data::LoadRequest& request) { return requests.next(request); });
  for (std::int64_t step = 0; step < warm_up + steps; ++step) {
    if (step == warm_up) middle();
    replica.train_step(feed.schedule(step), loader, step, 1e-3f);
  }
}

void expect_no_allocation(const std::string& model,
                          Precision precision = Precision::fp32,
                          Communicator& communicator = testing::mpi_world(),
                          std::int64_t global_batch = 48,
                          Sharding sharding = Sharding::none) {
  train(communicator, model, precision, 50, 100, start_counting, global_batch, sharding);
  stop_counting();
  EXPECT_EQ(own_allocations.load(), 0) << model;
  if (testing::mpi_world().rank() == 0)
    std::printf("%s: libraries called operator new %d times in 100 steps\n",
                model.c_str(),
                library_allocations.load());
}

TEST(Allocation, CounterSeesAnAllocation) {
  start_counting();
  auto seen = std::make_unique<std::vector<int>>(100);
  stop_counting();
  EXPECT_EQ(own_allocations.load(), 2) << seen->size();
}

TEST(Allocation, NoneInSteadyStateMlp) { expect_no_allocation("mlp"); }
TEST(Allocation, NoneInSteadyStateConvnet) { expect_no_allocation("convnet"); }
TEST(Allocation, NoneInSteadyStateOnTwoHosts) {
  if (testing::mpi_world().size() < 4) GTEST_SKIP() << "needs four ranks";
  testing::Traffic traffic;
  testing::ClaimedHosts claimed(testing::mpi_world(), 2, traffic);
  expect_no_allocation("mlp", Precision::fp32, claimed, 64);  // two shards a rank
  EXPECT_GT(traffic.collectives_in_parts, 0);
  for (const Precision precision : {Precision::fp32, Precision::bf16})
    expect_no_allocation("mlp", precision, claimed, 64, Sharding::optimizer);
}
TEST(Allocation, NoneInSteadyStateBf16) { expect_no_allocation("convnet", Precision::bf16); }

std::int64_t resident_kib() {
  std::ifstream statm("/proc/self/statm");
  std::int64_t total = 0, resident = 0;
  statm >> total >> resident;
  return resident * 4;
}

TEST(Allocation, ResidentMemoryStaysFlatOver10000Steps) {
  // Four ranks leak where two do, and take three minutes on two cores.
  if (testing::mpi_world().size() > 2) GTEST_SKIP() << "needs one or two ranks";
  std::int64_t before = 0;
  train(testing::mpi_world(), "mlp", Precision::fp32, 1000, 9000, [&] { before = resident_kib(); });
  // A leak of one 16-byte block a step would be 144 KiB in 9,000 steps.
  EXPECT_LE(resident_kib() - before, 128);
}

}  // namespace
}  // namespace lockstep
