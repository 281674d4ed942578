// SPDX-License-Identifier: Apache-2.0
// What an exchange of gradients holds on each rank, by structure, as ranks become many. Run by
// hand:
//   build/release/tests/benchmarks/exchange_memory [RANKS_PER_HOST]
// One rank of many, without the others, on a device without memory: host bytes are what malloc has
// handed out, device bytes what the exchange says that it reserves. 20 buckets of 24 MiB, as GPT-2
// with 124 million parameters, and two small ones; a shard a rank, and a last batch of half as
// many.
#include <cstdio>
#include <cstdlib>
#include <malloc.h>
#include <memory>
#include <vector>

#include "core/exec/dry_backend.h"
#include "core/step/done_request.h"
#include "parallel/batch/schedule.h"
#include "parallel/exchange/exchange_plan.h"
#include "parallel/exchange/gradient_exchange.h"

namespace lockstep {
namespace {

constexpr int kBuckets = 20;
constexpr std::int64_t kBucketElems = 6 << 20, kSmallElems = 1024;

/// A rank of hosts without the other ranks.
class DryHosts final : public Communicator {
 public:
  DryHosts(int rank, int size, int per_host) : rank_(rank), size_(size), per_host_(per_host) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int ranks_per_node() const override { return per_host_; }
  void barrier() override {}
  void broadcast(void*, std::size_t, int) override {}
  void all_gather(const void*, void*, std::size_t) override {}
  void all_gather_v(const void*, void*, std::span<const std::size_t>) override {}
  void all_reduce_max(std::span<std::uint64_t>) override {}
  CommRequestPtr start_all_to_all(const float*,
                                  std::span<const CommBlock>,
                                  float*,
                                  std::span<const CommBlock>) override {
    return DoneRequest::make();
  }
  CommRequestPtr start_all_gather(float*, std::span<const CommBlock>) override {
    return DoneRequest::make();
  }
  CommRequestPtr start_all_reduce(float*, std::int64_t) override { return DoneRequest::make(); }
  /// Of a host, across hosts, or of all, as an exchange splits it.
  std::unique_ptr<Communicator> split(int, int) override {
    const bool whole = ++splits_ == 1, host = splits_ == 2 || splits_ == 3;
    if (whole || per_host_ == size_) return std::make_unique<DryHosts>(rank_, size_, per_host_);
    return host ? std::make_unique<DryHosts>(rank_ % per_host_, per_host_, per_host_)
                : std::make_unique<DryHosts>(rank_ / per_host_, size_ / per_host_, 1);
  }
  void abort(int) override {}

 private:
  int rank_, size_, per_host_, splits_ = 0;
};

std::size_t heap() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

void run_step(GradientExchange& exchange, const Schedule& schedule) {
  exchange.begin_step(schedule);
  for (std::size_t i = 1; i < schedule.work.size(); ++i) exchange.finish_shard();
  for (int b = 0; b < exchange.bucket_count(); ++b) exchange.start_bucket(b);
  for (int b = 0; b < exchange.bucket_count(); ++b) exchange.finish_bucket(b);
}

void measure(int ranks, int per_host) {
  const int rank = ranks / 2;
  const auto since = [](std::size_t then) { return double(heap() - then) / 1024; };

  std::size_t then = heap();
  const Schedule whole = make_schedule({ranks, 1, ranks, ranks, 1}, rank);
  const double schedule_kib = since(then);
  const Schedule half = make_schedule({ranks / 2, 1, ranks, ranks, 1}, rank);

  then = heap();
  const ExchangePlan plan = make_exchange_plan(
      whole.shards, whole.shards_of_rank, rank, per_host, Reduction::reproducible);
  const double plan_kib = since(then);

  DryBackend backend;
  DryHosts communicator(rank, ranks, per_host);
  std::vector<Bucket> buckets;
  for (int b = 0; b < kBuckets; ++b) buckets.push_back({b * kBucketElems, kBucketElems});
  for (int b = 0; b < 2; ++b)
    buckets.push_back({kBuckets * kBucketElems + b * kSmallElems, kSmallElems});
  then = heap();
  const auto gradients = backend.allocate(1 << 20, "gradients");
  GradientExchange exchange(
      backend, communicator, Reduction::reproducible, buckets, gradients->as<float>(), ranks);
  const double exchange_kib = since(then);
  then = heap();
  run_step(exchange, whole);
  const double step_kib = since(then);
  then = heap();
  run_step(exchange, half);
  const double tail_kib = since(then);
  std::printf("| %d | %.1f | %.1f | %.1f | %.1f | %.1f | %.1f | %.1f |\n",
              ranks,
              schedule_kib,
              plan_kib,
              exchange_kib,
              step_kib,
              tail_kib,
              double(exchange.partial_sum_bytes()) / (1 << 20),
              double(exchange.communication_bytes()) / (1 << 20));
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  const int per_host = argc > 1 ? std::atoi(argv[1]) : 0;
  std::printf(
      "| ranks | schedule, KiB | plan | exchange | first step | first last batch | partial sums, "
      "MiB | buffers |\n|---|---|---|---|---|---|---|---|\n");
  for (const int ranks : {64, 256, 1024, 4096, 10240})
    lockstep::measure(ranks, per_host > 0 ? per_host : ranks);
  return 0;
}
