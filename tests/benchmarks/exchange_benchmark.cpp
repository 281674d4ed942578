// SPDX-License-Identifier: Apache-2.0
// Time of the gradient exchange against MPI_Allreduce, by size. Run by hand:
//   mpirun -np 2 build/release/tests/benchmarks/exchange_benchmark [SHARDS_PER_RANK]
// Each line: bytes, then microseconds a step (the fastest of several rounds, slowest rank) for the
// reproducible and the fast exchange (begin_step to the last finish_bucket, buckets of at most
// 4 MiB, all started at once) and for one plain MPI_Allreduce of everything.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "parallel/batch/schedule.h"
#include "parallel/comm/mpi_communicator.h"
#include "parallel/comm/mpi_try.h"
#include "parallel/exchange/gradient_exchange.h"
#include "tests/support/null_backend.h"

namespace lockstep {
namespace {

// Many short rounds: on a busy machine some are undisturbed.
constexpr int kRounds = 100;
constexpr double kMaxMicroseconds = 3e6;
constexpr std::int64_t kBucketElems = 1024 * 1024;

double microseconds(Communicator& world, std::int64_t bytes, const std::function<void()>& step) {
  const int repeats = int(std::clamp<std::int64_t>(4'000'000 / (bytes + 4'000), 1, 1'000));
  double best = 1e30, spent = 0;  // Equal on all ranks, which so agree on when to stop.
  for (int round = 0; round < kRounds && spent < kMaxMicroseconds; ++round) {
    world.barrier();
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < repeats; ++i) step();
    const std::chrono::duration<double, std::micro> own = std::chrono::steady_clock::now() - begin;
    const double each = own.count() / repeats;
    std::vector<double> all(std::size_t(world.size()));
    world.all_gather(&each, all.data(), sizeof each);
    const double slowest = *std::max_element(all.begin(), all.end());
    best = std::min(best, slowest);
    spent += slowest * repeats;
  }
  return best;
}

double time_exchange(Communicator& world,
                     std::int64_t bytes,
                     Reduction reduction,
                     int shards_per_rank) {
  testing::NullBackend backend;
  const std::int64_t elems = bytes / std::int64_t(sizeof(float));
  std::vector<float> gradients(std::size_t(elems), 1e-30f);
  std::vector<Bucket> buckets;
  for (std::int64_t at = 0; at < elems; at += kBucketElems)
    buckets.push_back({at, std::min(kBucketElems, elems - at)});
  const int shards = shards_per_rank * world.size();
  GradientExchange exchange(backend, world, reduction, buckets, gradients.data(), shards);
  const Schedule schedule = make_schedule({shards, 1, shards, world.size(), 1}, world.rank());
  return microseconds(world, bytes, [&] {
    exchange.begin_step(schedule);
    for (std::size_t i = 1; i < schedule.work.size(); ++i) exchange.finish_shard();
    for (int b = 0; b < exchange.bucket_count(); ++b) exchange.start_bucket(b);
    for (int b = 0; b < exchange.bucket_count(); ++b) exchange.finish_bucket(b);
  });
}

double time_all_reduce(Communicator& world, std::int64_t bytes) {
  std::vector<float> data(std::size_t(bytes) / sizeof(float), 1e-30f);
  return microseconds(world, bytes, [&] {
    LOCKSTEP_MPI_TRY(MPI_Allreduce(
        MPI_IN_PLACE, data.data(), int(data.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD));
  });
}

void run(int shards_per_rank) {
  const MpiSession session;
  const auto world = make_mpi_communicator(session);
  if (world->rank() == 0)
    std::printf("%d ranks, %d shards each\n%12s %14s %10s %14s\n",
                world->size(),
                shards_per_rank,
                "bytes",
                "reproducible",
                "fast",
                "MPI_Allreduce");
  for (std::int64_t bytes : {332, 16 << 10, 256 << 10, 4 << 20, 45 << 20}) {
    const double reproducible =
        time_exchange(*world, bytes, Reduction::reproducible, shards_per_rank);
    const double fast = time_exchange(*world, bytes, Reduction::fast, shards_per_rank);
    const double all_reduce = time_all_reduce(*world, bytes);
    if (world->rank() == 0)
      std::printf(
          "%12lld %14.2f %10.2f %14.2f\n", (long long)bytes, reproducible, fast, all_reduce);
  }
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) { lockstep::run(argc > 1 ? std::max(1, std::atoi(argv[1])) : 1); }
