// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/nccl/nccl_aborts.h"

#include <chrono>
#include <cstddef>
#include <exception>
#include <new>
#include <utility>

#include "core/base/signal_masked_thread.h"

namespace lockstep {
namespace {

constexpr auto kMaxWait = std::chrono::seconds(5);

}  // namespace

NcclAborts::NcclAborts() : under_way_(std::make_shared<UnderWay>()) {}

NcclAborts::~NcclAborts() {
  std::unique_lock lock(under_way_->mutex);
  if (!under_way_->changed.wait_for(lock, kMaxWait, [this] { return under_way_->count == 0; }))
    hangs_ = true;
}

void NcclAborts::start(const Nccl& nccl,
                       ncclComm_t comm,
                       std::shared_ptr<const ncclComm_t> part) noexcept {
  const auto count = [](UnderWay& under_way, int change) {
    const std::lock_guard lock(under_way.mutex);
    under_way.count += change;
    under_way.changed.notify_all();
  };
  count(*under_way_, 1);
  try {
    start_signal_masked_thread(
        [abort = nccl.ncclCommAbort, comm, part, under_way = under_way_, count] {
          abort(comm);
          if (part && *part != nullptr) abort(*part);
          count(*under_way, -1);
        })
        .detach();
  } catch (const std::exception&) {
    count(*under_way_, -1);
    // Without the abort the split may still be at work, and write there: it is never freed.
    using Part = std::shared_ptr<const ncclComm_t>;
    alignas(Part) std::byte never_destroyed[sizeof(Part)];
    new (never_destroyed) Part(std::move(part));
  }
}

}  // namespace lockstep
