// SPDX-License-Identifier: Apache-2.0
// Time and bytes of one exchange of the gradients of a model between hosts. exchange_hosts.py
// starts it: exchange_hosts_benchmark ELEMENTS ROUNDS INTERFACE. Every rank has one shard, buckets
// have 4 MiB and are started at once, as at the end of a backward pass that nothing overlaps.
// In each round all kinds take their turn. Rank 0 prints a line of JSON for each kind: seconds of
// the rounds (slowest rank), bytes of a round that a host's interface sent (busiest host), and
// what the plan says of them.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "parallel/batch/schedule.h"
#include "parallel/comm/mpi_communicator.h"
#include "parallel/comm/mpi_try.h"
#include "parallel/exchange/gradient_exchange.h"
#include "parallel/exchange/host_traffic.h"
#include "tests/parallel/claimed_hosts.h"
#include "tests/support/null_backend.h"

namespace lockstep {
namespace {

constexpr std::int64_t kBucketElems = 1024 * 1024;

/// Bytes that `interface` has sent since it was made, from the table of this process's network.
std::uint64_t sent_by(const std::string& interface) {
  std::ifstream table("/proc/self/net/dev");
  for (std::string line; std::getline(table, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    if (line.substr(line.find_first_not_of(' '), colon - line.find_first_not_of(' ')) != interface)
      continue;
    std::istringstream fields(line.substr(colon + 1));
    std::uint64_t value = 0;
    constexpr int kBytesSent = 9;  // after eight columns of what was received
    for (int column = 0; column < kBytesSent; ++column) fields >> value;
    return value;
  }
  std::fprintf(stderr, "/proc/self/net/dev has no interface %s\n", interface.c_str());
  std::exit(1);
}

std::vector<Bucket> buckets_of(std::int64_t elems) {
  std::vector<Bucket> buckets;
  for (std::int64_t at = 0; at < elems; at += kBucketElems)
    buckets.push_back({at, std::min(kBucketElems, elems - at)});
  return buckets;
}

struct Kind {
  const char* name = "";
  std::unique_ptr<GradientExchange> exchange;  // null: one MPI_Allreduce of everything
  HostTraffic planned;
  std::vector<double> seconds;
  std::vector<std::uint64_t> sent;
};

class Benchmark {
 public:
  Benchmark(Communicator& world, std::int64_t elems, std::string interface)
      : world_(world),
        interface_(std::move(interface)),
        schedule_(make_schedule({world.size(), 1, world.size(), world.size(), 1}, world.rank())),
        gradients_(std::size_t(elems)),
        flat_(world, world.size(), traffic_) {
    add("flat", flat_, Reduction::reproducible, true);
    if (world.ranks_per_node() > 1) add("two levels", world, Reduction::reproducible, false);
    add("fast", world, Reduction::fast, false);
    Kind& plain = kinds_.emplace_back();
    plain.name = "MPI_Allreduce";
    plain.planned = std::prev(kinds_.end(), 2)->planned;
  }

  void round() {
    for (Kind& kind : kinds_) {
      std::ranges::fill(gradients_, float(world_.rank() + 1));
      world_.barrier();
      const std::uint64_t before = sent_by(interface_);
      const auto begin = std::chrono::steady_clock::now();
      exchange(kind);
      const std::chrono::duration<double> own = std::chrono::steady_clock::now() - begin;
      kind.seconds.push_back(most(own.count()));
      kind.sent.push_back(most(sent_by(interface_) - before));
      check(kind);
    }
  }

  void print() const {
    for (const Kind& kind : kinds_) {
      std::printf("{\"kind\": \"%s\", \"hosts\": %d, \"planned\": %.0f, \"seconds\": [",
                  kind.name,
                  kind.planned.hosts,
                  kind.planned.busiest);
      for (std::size_t i = 0; i < kind.seconds.size(); ++i)
        std::printf("%s%.6f", i > 0 ? ", " : "", kind.seconds[i]);
      std::printf("], \"sent\": [");
      for (std::size_t i = 0; i < kind.sent.size(); ++i)
        std::printf("%s%llu", i > 0 ? ", " : "", (unsigned long long)kind.sent[i]);
      std::printf("]}\n");
    }
  }

 private:
  void add(const char* name, Communicator& communicator, Reduction reduction, bool one_level) {
    const std::vector<Bucket> buckets = buckets_of(std::int64_t(gradients_.size()));
    Kind kind;
    kind.name = name;
    kind.exchange = std::make_unique<GradientExchange>(
        backend_, communicator, reduction, buckets, gradients_.data(), schedule_.shards);
    kind.planned = planned(buckets, reduction, one_level);
    kinds_.push_back(std::move(kind));
  }

  HostTraffic planned(std::span<const Bucket> buckets, Reduction reduction, bool one_level) const {
    HostTraffic traffic = host_traffic(
        buckets, schedule_.shards, schedule_.shards_of_rank, world_.ranks_per_node(), reduction);
    if (!one_level) return traffic;
    // That of host_traffic.h with a node a rank, where no bucket is small enough to be gathered
    // whole.
    const double ranks = world_.size(), here = world_.ranks_per_node();
    traffic.levels = 1;
    traffic.busiest = double(gradients_.size()) * sizeof(float) * 2 * here * (ranks - here) / ranks;
    traffic.all = traffic.hosts * traffic.busiest;
    return traffic;
  }

  void exchange(Kind& kind) {
    if (!kind.exchange) {
      LOCKSTEP_MPI_TRY(MPI_Allreduce(MPI_IN_PLACE,
                                     gradients_.data(),
                                     int(gradients_.size()),
                                     MPI_FLOAT,
                                     MPI_SUM,
                                     MPI_COMM_WORLD));
      return;
    }
    GradientExchange& exchange = *kind.exchange;
    exchange.begin_step(schedule_);
    for (int b = 0; b < exchange.bucket_count(); ++b) exchange.start_bucket(b);
    for (int b = 0; b < exchange.bucket_count(); ++b) exchange.finish_bucket(b);
  }

  template <typename T>
  T most(T own) {
    std::vector<T> all(std::size_t(world_.size()));
    world_.all_gather(&own, all.data(), sizeof own);
    return *std::ranges::max_element(all);
  }

  void check(const Kind& kind) const {
    const float sum = float(world_.size()) * float(world_.size() + 1) / 2;
    if (std::ranges::all_of(gradients_, [&](float value) { return value == sum; })) return;
    std::fprintf(stderr, "rank %d: %s gave a wrong sum\n", world_.rank(), kind.name);
    world_.abort(1);
  }

  Communicator& world_;
  std::string interface_;
  Schedule schedule_;
  std::vector<float> gradients_;
  testing::NullBackend backend_;
  testing::Traffic traffic_;
  testing::ClaimedHosts flat_;  // all ranks on one host, as far as the exchange knows
  std::vector<Kind> kinds_;
};

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const lockstep::MpiSession session;
  const auto world = lockstep::make_mpi_communicator(session);
  lockstep::Benchmark benchmark(*world, std::atoll(argv[1]), argv[3]);
  for (int round = 0; round < std::atoi(argv[2]); ++round) benchmark.round();
  if (world->rank() == 0) benchmark.print();
}
