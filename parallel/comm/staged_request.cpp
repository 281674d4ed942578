// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/staged_request.h"

#include <exception>

namespace lockstep {
namespace {

constexpr std::size_t kFloat = sizeof(float);

bool equal(const CommBlock& a, const CommBlock& b) {
  return a.offset == b.offset && a.elems == b.elems;
}

/// The same blocks one after the other; equal ones next to each other, as where all members are
/// sent the same, once. Returns the elements of all.
std::int64_t pack_blocks(std::span<const CommBlock> blocks, std::vector<CommBlock>& packed) {
  packed.clear();
  std::int64_t end = 0;
  const CommBlock* last = nullptr;
  for (const CommBlock& block : blocks) {
    if (last != nullptr && equal(*last, block)) {
      packed.push_back({end - block.elems, block.elems});
      continue;
    }
    packed.push_back({end, block.elems});
    end += block.elems;
    if (block.elems > 0) last = &block;
  }
  return end;
}

/// Calls copy(offset, packed offset, elems) for each stretch of blocks that lie next to each other
/// in both.
template <typename Copy>
void for_each_stretch(std::span<const CommBlock> blocks,
                      std::span<const CommBlock> packed,
                      const Copy& copy) {
  CommBlock from, to;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].elems == 0) continue;
    if (from.elems > 0 && packed[i].offset < to.offset + to.elems) continue;  // is there already
    if (from.offset + from.elems == blocks[i].offset && to.offset + to.elems == packed[i].offset) {
      from.elems += blocks[i].elems;
      to.elems += blocks[i].elems;
      continue;
    }
    if (from.elems > 0) copy(from.offset, to.offset, from.elems);
    from = blocks[i];
    to = packed[i];
  }
  if (from.elems > 0) copy(from.offset, to.offset, from.elems);
}

}  // namespace

std::byte* PinnedStage::reserve(std::size_t bytes) {
  if (!memory_ || memory_->bytes() < bytes)
    memory_ = backend_.allocate_host(bytes, "communication buffers in pinned memory");
  return memory_->data();
}

void StagedQueue::start_ready() {
  std::size_t ready = 0;
  while (ready < waiting_.size() && waiting_[ready]->arrived_->done()) waiting_[ready++]->start();
  waiting_.erase(waiting_.begin(), waiting_.begin() + std::ptrdiff_t(ready));
}

void StagedQueue::start_all(const StagedRequest* last) {
  while (!waiting_.empty()) {
    StagedRequest& next = *waiting_.front();
    if (last != nullptr && last->started_) return;
    next.arrived_->wait();
    next.start();
    waiting_.erase(waiting_.begin());
  }
}

void StagedQueue::remove(const StagedRequest& request) { std::erase(waiting_, &request); }

StagedRequest::StagedRequest(Backend& backend,
                             Communicator& host,
                             StagedQueue& queue,
                             StagedRequestPool& pool)
    : backend_(backend),
      host_(host),
      queue_(queue),
      pool_(pool),
      send_(backend),
      receive_(backend),
      asked_(backend.make_event()),
      arrived_(backend.make_event()),
      taken_(backend.make_event()) {}

bool StagedRequest::test() {
  queue_.start_ready();
  if (!started_ || (inner_ && !inner_->test())) return false;
  deliver();
  return true;
}

void StagedRequest::wait() {
  queue_.start_all(this);
  if (inner_) inner_->wait();
  deliver();
}

void StagedRequest::release() {
  // While an exception is in flight the device and the network may still write into the stages:
  // they leak with what the inner communicator leaks.
  if (pending_ && std::uncaught_exceptions() > exceptions_) {
    queue_.remove(*this);
    inner_.reset();
    return;
  }
  if (pending_) wait();
  pool_.emplace_back(this);
}

void StagedRequest::wait_until_free() {
  if (delivered_) taken_->wait();
  delivered_ = false;
}

void StagedRequest::begin(Kind kind) {
  kind_ = kind;
  exceptions_ = std::uncaught_exceptions();
  pending_ = true;
  started_ = false;
}

void StagedRequest::reach_device() {
  device_ = nullptr;
  backend_.record(*arrived_);
}

void StagedRequest::copy_out(const float* device,
                             std::span<const CommBlock> blocks,
                             float* host,
                             std::span<const CommBlock> packed) {
  backend_.record(*asked_);
  const StreamScope scope(backend_, DeviceStream::copies_out);
  backend_.wait_for(*asked_);
  for_each_stretch(blocks, packed, [&](std::int64_t from, std::int64_t to, std::int64_t elems) {
    backend_.start_copy_to_host(host + to, device + from, std::size_t(elems) * kFloat);
  });
  backend_.record(*arrived_);
}

void StagedRequest::expect(float* device, std::span<const CommBlock> blocks) {
  device_ = device;
  device_blocks_.assign(blocks.begin(), blocks.end());
}

void StagedRequest::ask_all_to_all(const float* send,
                                   std::span<const CommBlock> to,
                                   float* recv,
                                   std::span<const CommBlock> from,
                                   bool reached) {
  begin(Kind::all_to_all);
  if (reached) {
    from_ = send;
    into_ = recv;
    to_blocks_.assign(to.begin(), to.end());
    from_blocks_.assign(from.begin(), from.end());
    reach_device();
  } else {
    send_.reserve(std::size_t(pack_blocks(to, to_blocks_)) * kFloat);
    receive_.reserve(std::size_t(pack_blocks(from, from_blocks_)) * kFloat);
    from_ = send_.data();
    into_ = receive_.data();
    copy_out(send, to, send_.data(), to_blocks_);
    expect(recv, from);
  }
  queue_.add(*this);
}

void StagedRequest::ask_all_gather(float* data, std::span<const CommBlock> blocks, bool reached) {
  begin(Kind::all_gather);
  if (reached) {
    into_ = data;
    from_blocks_.assign(blocks.begin(), blocks.end());
    reach_device();
  } else {
    receive_.reserve(std::size_t(pack_blocks(blocks, from_blocks_)) * kFloat);
    into_ = receive_.data();
    const auto own = std::size_t(host_.rank());
    copy_out(data, blocks.subspan(own, 1), into_, std::span(from_blocks_).subspan(own, 1));
    expect(data, blocks);
  }
  queue_.add(*this);
}

void StagedRequest::ask_all_reduce(float* data, std::int64_t elems) {
  begin(Kind::all_reduce);
  const CommBlock whole{0, elems};
  receive_.reserve(std::size_t(pack_blocks({&whole, 1}, from_blocks_)) * kFloat);
  into_ = receive_.data();
  copy_out(data, {&whole, 1}, into_, from_blocks_);
  expect(data, {&whole, 1});
  queue_.add(*this);
}

void StagedRequest::start() {
  started_ = true;
  switch (kind_) {
    case Kind::all_to_all:
      inner_ = host_.start_all_to_all(from_, to_blocks_, into_, from_blocks_);
      break;
    case Kind::all_gather:
      inner_ = host_.start_all_gather(into_, from_blocks_);
      break;
    case Kind::all_reduce:
      inner_ = host_.start_all_reduce(into_, from_blocks_.front().elems);
      break;
  }
}

void StagedRequest::deliver() {
  inner_.reset();
  if (!pending_) return;
  pending_ = false;
  if (device_ == nullptr) return;
  for_each_stretch(
      device_blocks_, from_blocks_, [&](std::int64_t to, std::int64_t from, std::int64_t elems) {
        backend_.copy_to_device(device_ + to, into_ + from, std::size_t(elems) * kFloat);
      });
  backend_.record(*taken_);
  delivered_ = true;
}

}  // namespace lockstep
