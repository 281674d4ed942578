// SPDX-License-Identifier: Apache-2.0
#include "parallel/simulation/cluster.h"

#include <algorithm>
#include <fmt/format.h>
#include <sys/mman.h>

#include "lockstep/error.h"

namespace lockstep::simulation {
namespace {

constexpr std::size_t kHostMemory = std::size_t{1} << 34;
constexpr std::size_t kMaxWrongSums = 8;

}  // namespace

Cluster::Cluster(const ClusterOptions& options)
    : options_(options),
      scheduler_(options.ranks, options.order, options.order_seed),
      links_(options.network, options.ranks),
      traffic_(std::size_t(options.ranks)),
      memories_(options.traces_sums ? std::size_t(options.ranks) : 0),
      devices_(std::size_t(options.ranks)) {
  const int cores = options.device.cores;
  if (options.device.gpu || cores == 0) return;
  cores_.assign(std::size_t(links_.hosts()), std::vector<double>(std::size_t(cores), 0.0));
  const int crowd = std::min(options.ranks, options.network.ranks_per_host);
  const double shared = cores > 1 ? std::min(1.0, (crowd - 1.0) / (cores - 1.0)) : 0;
  are_shared_ = crowd > cores;
  slowness_ = 1 + (options.device.contention - 1) * shared;
}

Cluster::~Cluster() {
  if (host_memory_ != nullptr) munmap(host_memory_, kHostMemory);
}

std::byte* Cluster::host_memory(std::size_t bytes) {
  if (host_memory_ == nullptr) {
    void* const memory = mmap(nullptr,
                              kHostMemory,
                              PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                              -1,
                              0);
    if (memory != MAP_FAILED) host_memory_ = static_cast<std::byte*>(memory);
  }
  if (host_memory_ == nullptr || bytes > kHostMemory)
    throw OutOfMemory(fmt::format("simulation: a micro-batch of {} bytes", bytes),
                      "use a smaller `micro_batch`");
  return host_memory_;
}

double Cluster::use_core(double seconds) {
  if (cores_.empty()) {
    const double begin = scheduler_.now();
    scheduler_.advance(seconds);
    return begin;
  }
  scheduler_.yield();
  std::vector<double>& cores = cores_[std::size_t(links_.host_of(scheduler_.rank()))];
  double& free = *std::ranges::min_element(cores);
  const double begin = std::max(free, scheduler_.now());
  free = begin + seconds * slowness_;
  scheduler_.advance_to(free);
  return begin;
}

void Cluster::wait_for_turn() {
  if (are_shared_) scheduler_.advance(options_.device.turn_s);
}

void Cluster::check_sum(std::int64_t step, const float* gradients, std::int64_t elems) {
  const auto expected = expected_.find(step);
  TracedMemory* const traced = memory(scheduler_.rank());
  if (traced == nullptr || expected == expected_.end()) return;
  for (const Stretch& stretch : traced->read(gradients, elems)) {
    const float* const begin = gradients;
    gradients += stretch.elems;
    if (stretch.expression == kZero) continue;  // padding, or counted in an earlier phase
    traced->write(begin, stretch.elems, kZero, 0);
    checked_elems_ += stretch.elems;
    if (first_sum_ == kUnknown) first_sum_ = stretch.expression;
    if (stretch.expression == expected->second) continue;
    ++wrong_sum_count_;
    if (wrong_sums_.size() < kMaxWrongSums)
      wrong_sums_.push_back(fmt::format(
          "step {}: rank {} updates {} elements from a sum that {}",
          step + 1,
          scheduler_.rank(),
          stretch.elems,
          stretch.expression == kUnknown ? "is unknown" : "was added in another order"));
  }
}

void Cluster::add_span(int rank, Span span) {
  const auto kept = spans_.find(rank);
  if (kept == spans_.end() || span.end <= span.begin) return;
  std::vector<Span>& spans = kept->second;
  constexpr double kGap = 1e-9;
  for (auto last = spans.rbegin(); last != spans.rend(); ++last) {
    if (last->track != span.track) continue;
    if (last->name != span.name || span.begin > last->end + kGap) break;
    last->end = span.end;
    return;
  }
  spans.push_back(std::move(span));
}

}  // namespace lockstep::simulation
