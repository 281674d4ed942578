// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/watched_communicator.h"

#include <exception>
#include <numeric>
#include <optional>
#include <vector>

#include "parallel/comm/collective_validator.h"

namespace lockstep {
namespace {

constexpr auto kFloatBytes = std::int64_t(sizeof(float));

std::int64_t elems_of(std::span<const CommBlock> blocks) {
  return std::accumulate(
      blocks.begin(), blocks.end(), std::int64_t{0}, [](std::int64_t sum, const CommBlock& block) {
        return sum + block.elems;
      });
}

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  return (hash ^ value) * 1099511628211u;  // FNV-1a on words
}

/// A note of the collective, unless it is a part of one that has a note.
class NoteScope {
 public:
  NoteScope(Position& position, const CollectiveNote& note) {
    if (position.read().collective.name == nullptr) scope_.emplace(position, note);
  }

 private:
  std::optional<CollectiveScope> scope_;
};

class WatchedRequest;
using WatchedRequestPool = std::vector<std::unique_ptr<WatchedRequest>>;

/// A started collective: progress when it completes, a note while it is waited for.
class WatchedRequest final : public CommRequest {
 public:
  WatchedRequest(Position& position, WatchedRequestPool& pool) : position_(position), pool_(pool) {}

  bool test() override {
    if (done_) return true;
    if (check != nullptr && !check->test(number)) return false;
    if (!inner->test()) return false;
    done_ = true;
    position_.tick();
    return true;
  }

  void wait() override {
    if (done_) return;
    const NoteScope scope(position_, note);
    if (check == nullptr) inner->wait();
    while (check != nullptr && !(check->test(number) && inner->test())) {
    }
    done_ = true;
  }

  /// While an exception is in flight others may be gone: what has not begun yet is given up.
  void release() override {
    const bool gives_up = std::uncaught_exceptions() > exceptions_;
    if (check != nullptr && !done_ && !inner && !gives_up) wait();
    if (check != nullptr && !inner && gives_up) return;  // leaks: `check` may still start it
    inner.reset();
    check = nullptr;
    pool_.emplace_back(this);
  }

  void begin(const CollectiveNote& what) {
    note = what;
    done_ = false;
    exceptions_ = std::uncaught_exceptions();
  }

  CommRequestPtr inner;
  CollectiveNote note;
  CollectiveValidator* check = nullptr;  ///< null: it was started at once
  std::uint64_t number = 0;

 private:
  Position& position_;
  WatchedRequestPool& pool_;
  int exceptions_ = 0;
  bool done_ = false;
};

class WatchedCommunicator final : public Communicator {
 public:
  /// `detector`: null where calls are not checked.
  WatchedCommunicator(std::unique_ptr<Communicator> inner,
                      Position& position,
                      std::shared_ptr<DeadlockDetector> detector)
      : inner_(std::move(inner)), position_(position), detector_(std::move(detector)) {
    if (detector_) check_.emplace(inner_->split(0, inner_->rank()), detector_);
  }

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  int ranks_per_node() const override { return inner_->ranks_per_node(); }

  void barrier() override {
    const NoteScope scope(position_, {.name = "barrier"});
    agree({.kind = Kind::barrier});
    inner_->barrier();
  }

  void broadcast(void* data, std::size_t bytes, int root) override {
    const NoteScope scope(position_, {.name = "broadcast", .bytes = std::int64_t(bytes)});
    agree({.kind = Kind::broadcast, .root = root, .bytes = std::int64_t(bytes)});
    inner_->broadcast(data, bytes, root);
  }

  void gather(const void* send, void* recv, std::size_t bytes, int root) override {
    const NoteScope scope(position_, {.name = "gather", .bytes = std::int64_t(bytes)});
    agree({.kind = Kind::gather, .root = root, .bytes = std::int64_t(bytes)});
    inner_->gather(send, recv, bytes, root);
  }

  void all_gather(const void* send, void* recv, std::size_t bytes) override {
    const NoteScope scope(position_, {.name = "all-gather", .bytes = std::int64_t(bytes)});
    agree({.kind = Kind::all_gather, .bytes = std::int64_t(bytes)});
    inner_->all_gather(send, recv, bytes);
  }

  void all_gather_v(const void* send, void* recv, std::span<const std::size_t> bytes) override {
    std::uint64_t sizes = 0;
    for (const std::size_t size : bytes) sizes = mix(sizes, size);
    const auto own = std::int64_t(bytes[std::size_t(rank())]);
    const NoteScope scope(position_, {.name = "all-gather", .bytes = own});
    agree({.kind = Kind::all_gather_v,
           .bytes = std::int64_t(std::accumulate(bytes.begin(), bytes.end(), std::size_t{0})),
           .sizes = sizes});
    inner_->all_gather_v(send, recv, bytes);
  }

  void all_reduce_max(std::span<std::uint64_t> values) override {
    const auto bytes = std::int64_t(values.size_bytes());
    const NoteScope scope(position_, {.name = "all-reduce", .bytes = bytes});
    agree({.kind = Kind::all_reduce_max, .bytes = bytes});
    inner_->all_reduce_max(values);
  }

  void reserve_requests(int count) override {
    inner_->reserve_requests(count);
    pool_.reserve(std::size_t(count));
    while (pool_.size() < std::size_t(count))
      pool_.push_back(std::make_unique<WatchedRequest>(position_, pool_));
  }

  CommRequestPtr start_all_to_all(const float* send,
                                  std::span<const CommBlock> to,
                                  float* recv,
                                  std::span<const CommBlock> from) override {
    const std::int64_t bytes = elems_of(to) * kFloatBytes;
    CommRequestPtr owner;
    WatchedRequest& request = take_request(owner, {.name = "all-to-all", .bytes = bytes});
    if (!check_) {
      request.inner = inner_->start_all_to_all(send, to, recv, from);
      return owner;
    }
    start_checked(request,
                  {.kind = Kind::all_to_all, .bytes = bytes, .to = to, .from = from},
                  [this, &request, send, recv, to = copy(to), from = copy(from)] {
                    request.inner = inner_->start_all_to_all(send, to, recv, from);
                  });
    return owner;
  }

  CommRequestPtr start_all_gather(float* data, std::span<const CommBlock> blocks) override {
    const std::int64_t own = blocks[std::size_t(rank())].elems * kFloatBytes;
    CommRequestPtr owner;
    WatchedRequest& request = take_request(owner, {.name = "all-gather", .bytes = own});
    if (!check_) {
      request.inner = inner_->start_all_gather(data, blocks);
      return owner;
    }
    std::uint64_t sizes = 0;
    for (const CommBlock& block : blocks) sizes = mix(sizes, std::uint64_t(block.elems));
    start_checked(
        request,
        {.kind = Kind::gather_blocks, .bytes = elems_of(blocks) * kFloatBytes, .sizes = sizes},
        [this, &request, data, blocks = copy(blocks)] {
          request.inner = inner_->start_all_gather(data, blocks);
        });
    return owner;
  }

  CommRequestPtr start_all_reduce(float* data, std::int64_t elems) override {
    CommRequestPtr owner;
    WatchedRequest& request =
        take_request(owner, {.name = "all-reduce", .bytes = elems * kFloatBytes});
    if (!check_) {
      request.inner = inner_->start_all_reduce(data, elems);
      return owner;
    }
    start_checked(
        request,
        {.kind = Kind::all_reduce, .bytes = elems * kFloatBytes},
        [this, &request, data, elems] { request.inner = inner_->start_all_reduce(data, elems); });
    return owner;
  }

  std::unique_ptr<Communicator> split(int color, int key) override {
    const NoteScope scope(position_, {.name = "split"});
    agree({.kind = Kind::split});
    return std::make_unique<WatchedCommunicator>(inner_->split(color, key), position_, detector_);
  }

  void abort(int exit_code) override { inner_->abort(exit_code); }

 private:
  using Kind = CollectiveCall::Kind;

  static std::vector<CommBlock> copy(std::span<const CommBlock> blocks) {
    return {blocks.begin(), blocks.end()};
  }

  CollectiveCall with_step(CollectiveCall call) const {
    call.step = position_.read().step;
    return call;
  }

  void agree(const CollectiveCall& call) {
    if (check_) check_->wait(check_->tell(with_step(call), [] {}));
  }

  template <typename Start>
  void start_checked(WatchedRequest& request, const CollectiveCall& call, Start start) {
    request.number = check_->tell(with_step(call), std::move(start));
    request.check = &*check_;
  }

  WatchedRequest& take_request(CommRequestPtr& owner, const CollectiveNote& note) {
    if (pool_.empty()) pool_.push_back(std::make_unique<WatchedRequest>(position_, pool_));
    WatchedRequest& request = *pool_.back().release();
    pool_.pop_back();
    request.begin(note);
    owner.reset(&request);
    return request;
  }

  std::unique_ptr<Communicator> inner_;
  Position& position_;
  WatchedRequestPool pool_;
  std::shared_ptr<DeadlockDetector> detector_;
  std::optional<CollectiveValidator> check_;
};

}  // namespace

std::unique_ptr<Communicator> make_watched_communicator(std::unique_ptr<Communicator> inner,
                                                        Position& position,
                                                        bool checked) {
  std::shared_ptr<DeadlockDetector> detector;
  if (checked) detector = std::make_shared<DeadlockDetector>(*inner, position);
  return std::make_unique<WatchedCommunicator>(std::move(inner), position, std::move(detector));
}

}  // namespace lockstep
