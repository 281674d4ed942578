// SPDX-License-Identifier: Apache-2.0
// Collectives of simulated ranks. Bytes in host memory travel; what lies on a device has no values,
// so that sizes are compared, times and messages counted, and sums traced where that is asked for.
#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <numeric>

#include "core/base/check.h"
#include "core/step/done_request.h"
#include "parallel/simulation/collective.h"
#include "parallel/simulation/simulated_device.h"

namespace lockstep::simulation {
namespace {

class SimulatedCommunicator final : public Communicator {
 public:
  SimulatedCommunicator(Cluster& cluster,
                        std::shared_ptr<Members> members,
                        int member,
                        bool in_stream_order)
      : cluster_(cluster),
        members_(std::move(members)),
        member_(member),
        in_stream_order_(in_stream_order) {}

  int rank() const override { return member_; }
  int size() const override { return members_->size(); }
  int ranks_per_node() const override { return members_->ranks_per_host; }
  bool in_stream_order() const override { return in_stream_order_; }

  void barrier() override { finish(arrive(CollectiveKind::barrier, 0, -1, {}), {}); }

  void broadcast(void* data, std::size_t bytes, int root) override {
    // A tree: the mean of what members send.
    const MemberBytes sent = size() > 1 ? to_others(double(bytes) / size()) : none();
    const bool host = holds_values(data);
    const auto collective =
        arrive(CollectiveKind::broadcast, bytes, root, sent, data, [&](Collective& c) {
          if (host && member_ == root) put(c, 0, data, bytes, bytes);
        });
    if (!finish(collective, data)) return;
    if (host && bytes > 0) std::memcpy(data, collective->data.data(), bytes);
  }

  void gather(const void* send, void* recv, std::size_t bytes, int root) override {
    // In one message; what a tree forwards is not counted.
    MemberBytes sent = none();
    if (member_ != root) (is_near(std::size_t(root)) ? sent.inside : sent.between) = double(bytes);
    const auto collective =
        arrive(CollectiveKind::gather, bytes, root, sent, {}, [&](Collective& c) {
          put(c, std::size_t(member_) * bytes, send, bytes, bytes * members());
        });
    if (!finish(collective, {})) return;
    if (member_ == root && bytes > 0) std::memcpy(recv, collective->data.data(), bytes * members());
  }

  void all_gather(const void* send, void* recv, std::size_t bytes) override {
    const std::vector<std::size_t> sizes(members(), bytes);
    gather(CollectiveKind::all_gather, send, recv, sizes);
  }

  void all_gather_v(const void* send, void* recv, std::span<const std::size_t> bytes) override {
    LOCKSTEP_ASSERT(bytes.size() == members());
    gather(CollectiveKind::all_gather_v, send, recv, bytes);
  }

  void all_reduce_max(std::span<std::uint64_t> values) override {
    const auto collective = arrive(CollectiveKind::all_reduce_max,
                                   values.size_bytes(),
                                   -1,
                                   to_one(double(values.size_bytes())),
                                   {},
                                   [&](Collective& c) {
                                     c.maxima.resize(values.size());
                                     for (std::size_t i = 0; i < values.size(); ++i)
                                       c.maxima[i] = std::max(c.maxima[i], values[i]);
                                   });
    if (finish(collective, {})) std::ranges::copy(collective->maxima, values.begin());
  }

  CommRequestPtr start_all_to_all(const float* send,
                                  std::span<const CommBlock> to,
                                  float* recv,
                                  std::span<const CommBlock> from) override {
    LOCKSTEP_ASSERT(to.size() == members() && from.size() == members());
    MemberBytes sent = none();
    std::uint64_t pairs = 0, messages = 0;
    const auto own = std::size_t(member_);
    for (std::size_t m = 0; m < members(); ++m) {
      pairs += pair_hash(own, m, to[m].elems) - pair_hash(m, own, from[m].elems);
      if (m == own || to[m].elems == 0) continue;
      (is_near(m) ? sent.inside : sent.between) += double(to[m].elems) * sizeof(float);
      ++messages;
    }
    const auto collective =
        arrive(CollectiveKind::all_to_all, 0, -1, sent, recv, [&](Collective& c) {
          c.pairs += pairs;
          if (cluster_.memory(0) != nullptr) keep_blocks(c, send, to, recv, from);
        });
    traffic().messages += messages;
    return started(collective, recv);
  }

  CommRequestPtr start_all_gather(float* data, std::span<const CommBlock> blocks) override {
    LOCKSTEP_ASSERT(blocks.size() == members());
    const CommBlock own = blocks[std::size_t(member_)];
    std::int64_t all = 0, end = 0;
    for (const CommBlock& block : blocks) {
      all += block.elems;
      end = std::max(end, block.offset + block.elems);
    }
    const std::size_t own_bytes = std::size_t(own.elems) * sizeof(float);
    const auto collective = arrive(CollectiveKind::gather_blocks,
                                   std::uint64_t(all) * sizeof(float),
                                   -1,
                                   to_others(double(own_bytes)),
                                   data,
                                   [&](Collective& c) {
                                     if (holds_values(data))
                                       put(c,
                                           std::size_t(own.offset) * sizeof(float),
                                           data + own.offset,
                                           own_bytes,
                                           std::size_t(end) * sizeof(float));
                                     else if (cluster_.memory(0) != nullptr)
                                       keep_blocks(c, data, {}, data, blocks);
                                   });
    return started(collective, data, blocks);
  }

  CommRequestPtr start_all_reduce(float* data, std::int64_t elems) override {
    const double bytes = double(elems) * sizeof(float);
    const auto collective = arrive(CollectiveKind::all_reduce,
                                   std::uint64_t(bytes),
                                   -1,
                                   to_one(2 * bytes * (size() - 1) / size()),
                                   data,
                                   [&](Collective& c) {
                                     if (!holds_values(data)) return;
                                     c.sums.resize(std::size_t(elems));
                                     for (std::size_t i = 0; i < c.sums.size(); ++i)
                                       c.sums[i] += data[i];
                                   });
    return started(collective, data);
  }

  std::unique_ptr<Communicator> split(int color, int key) override {
    const auto collective =
        arrive(CollectiveKind::split, 0, -1, to_others(8), {}, [&](Collective& c) {
          c.keys.resize(members());
          c.keys[std::size_t(member_)] = {color, key};
        });
    if (!finish(collective, {})) return nullptr;
    const std::shared_ptr<Members>& part = collective->parts[std::size_t(member_)];
    const int own = members_->ranks[std::size_t(member_)];
    const int place = int(std::ranges::find(part->ranks, own) - part->ranks.begin());
    return std::make_unique<SimulatedCommunicator>(cluster_, part, place, in_stream_order_);
  }

  void abort(int exit_code) override {
    throw CommError(fmt::format("rank {} ends the job with exit code {}", world_rank(), exit_code));
  }

 private:
  class Request;

  std::size_t members() const { return members_->ranks.size(); }
  int world_rank() const { return members_->ranks[std::size_t(member_)]; }
  Traffic& traffic() { return cluster_.traffic(world_rank()); }
  bool is_near(std::size_t member) const {
    return members_->hosts[member] == members_->hosts[std::size_t(member_)];
  }
  MemberBytes none() const { return {world_rank(), 0, 0}; }
  /// `bytes` to each other member.
  MemberBytes to_others(double bytes) const {
    const int near = near_members();
    return {world_rank(), bytes * (near - 1), bytes * (size() - near)};
  }
  /// To a neighbour in a ring or a tree, which for the last rank of a host is on another one.
  MemberBytes to_one(double bytes) const {
    if (size() == 1) return none();
    const bool leaves = near_members() < size() && !is_near(std::size_t(member_ + 1) % members());
    return {world_rank(), leaves ? 0 : bytes, leaves ? bytes : 0};
  }
  int near_members() const { return members_->near[std::size_t(member_)]; }

  static void put(
      Collective& c, std::size_t at, const void* from, std::size_t bytes, std::size_t all) {
    if (c.data.size() < all) c.data.resize(all);
    if (bytes > 0) std::memcpy(c.data.data() + at, from, bytes);
  }
  void keep_blocks(Collective& c,
                   const float* send,
                   std::span<const CommBlock> to,
                   float* receive,
                   std::span<const CommBlock> from) {
    c.blocks.resize(members());
    const auto equal = [](const CommBlock& a, const CommBlock& b) {
      return a.offset == b.offset && a.elems == b.elems;
    };
    auto list = c.blocks[std::size_t(c.first)].from;
    if (!list || !std::ranges::equal(*list, from, equal))
      list = std::make_shared<const std::vector<CommBlock>>(from.begin(), from.end());
    c.blocks[std::size_t(member_)] = {send, receive, {to.begin(), to.end()}, std::move(list)};
  }

  /// This member comes to its next collective; the last one completes it.
  std::shared_ptr<Collective> arrive(CollectiveKind kind,
                                     std::uint64_t bytes,
                                     int root,
                                     MemberBytes sent,
                                     const void* memory = nullptr,
                                     const std::function<void(Collective&)>& contribute = {}) {
    sent.rank = world_rank();
    const std::uint64_t number = members_->called[std::size_t(member_)]++;
    std::shared_ptr<Collective>& open = members_->open[number];
    if (!open) {
      open = std::make_shared<Collective>();
      open->kind = kind;
      open->bytes = bytes;
      open->root = root;
      open->first = member_;
    }
    const std::shared_ptr<Collective> collective = open;
    expect_same(*members_, *collective, member_, kind, bytes, root, number);
    Traffic& own = traffic();
    ++own.calls[std::size_t(kind)];
    if (kind != CollectiveKind::all_to_all) own.messages += message_count(kind, size());
    own.bytes += std::uint64_t(sent.inside + sent.between);
    own.network_bytes += std::uint64_t(sent.between);
    if (contribute) contribute(*collective);
    collective->sent.push_back(sent);
    const bool on_stream = in_stream_order_ && !holds_values(memory) && memory != nullptr;
    SimulatedDevice* const device = on_stream ? &cluster_.device() : nullptr;
    cluster_.scheduler().advance(cluster_.options().device.launch_s);
    collective->begin =
        std::max(collective->begin, device ? device->stream_time() : cluster_.scheduler().now());
    if (++collective->arrived == size()) {
      members_->open.erase(number);
      complete(cluster_, *members_, *collective);
    }
    return collective;
  }

  void gather(CollectiveKind kind,
              const void* send,
              void* recv,
              std::span<const std::size_t> bytes) {
    const auto own = std::size_t(member_);
    const std::size_t begin =
        std::accumulate(bytes.begin(), bytes.begin() + member_, std::size_t{0});
    const std::size_t all = std::accumulate(bytes.begin(), bytes.end(), std::size_t{0});
    const auto collective =
        arrive(kind, all, -1, to_others(double(bytes[own])), recv, [&](Collective& c) {
          if (holds_values(recv))
            put(c, begin, send, bytes[own], all);
          else if (cluster_.memory(0) != nullptr && all > 0)
            keep_gather(c, send, recv, bytes, begin);
        });
    if (!finish(collective, recv)) return;
    if (holds_values(recv) && all > 0) std::memcpy(recv, collective->data.data(), all);
  }
  /// As blocks one after the other; of what is not floats the traces are of no use, and not wrong.
  void keep_gather(Collective& c,
                   const void* send,
                   void* recv,
                   std::span<const std::size_t> bytes,
                   std::size_t begin) {
    constexpr std::size_t kFloat = sizeof(float);
    std::vector<CommBlock> blocks;
    std::size_t at = 0;
    for (const std::size_t size : bytes) {
      if (size % kFloat != 0) return;
      blocks.push_back({std::int64_t(at / kFloat), std::int64_t(size / kFloat)});
      at += size;
    }
    keep_blocks(
        c, static_cast<const float*>(send) - begin / kFloat, {}, static_cast<float*>(recv), blocks);
  }

  /// Waits for the members, and for the collective's end: on the host, or in the stream in use.
  /// False: it never will.
  bool finish(const std::shared_ptr<Collective>& collective, const void* memory) {
    const double from = cluster_.scheduler().now();
    if (!wait_for_members(*collective)) return false;
    finish_at_end(*collective, memory);
    move_by_core(*collective, from);
    return true;
  }
  /// This member's part of what cores do for the collective, which it has waited for since `from`.
  void move_by_core(const Collective& c, double from) {
    if (cluster_.options().device.gpu) return;
    if (cluster_.device().has_waited()) cluster_.wait_for_turn();
    cluster_.use_core(c.core_s);
    cluster_.device().add_exposed(cluster_.scheduler().now() - from);
  }
  bool wait_for_members(Collective& c) {
    while (!c.complete) {
      c.waiting.push_back(cluster_.scheduler().rank());
      if (!cluster_.scheduler().wait(std::string(name_of(c.kind)))) return false;
    }
    return true;
  }
  void finish_at_end(const Collective& c, const void* memory) {
    if (!in_stream_order_ || memory == nullptr || holds_values(memory))
      return cluster_.scheduler().advance_to(c.end);
    SimulatedDevice& device = cluster_.device();
    const double begin = device.stream_time();
    device.set_stream_time(std::max(begin, c.end));
    const auto track = device.stream() == DeviceStream::network   ? Span::Track::network
                       : device.stream() == DeviceStream::compute ? Span::Track::compute
                                                                  : Span::Track::communication;
    cluster_.add_span(world_rank(), {track, begin, c.end, std::string(name_of(c.kind))});
  }
  CommRequestPtr started(const std::shared_ptr<Collective>& collective,
                         float* memory,
                         std::span<const CommBlock> blocks = {});

  Cluster& cluster_;
  std::shared_ptr<Members> members_;
  int member_;
  bool in_stream_order_;
};

class SimulatedCommunicator::Request final : public CommRequest {
 public:
  Request(SimulatedCommunicator& owner,
          std::shared_ptr<Collective> collective,
          float* memory,
          std::span<const CommBlock> blocks)
      : owner_(owner),
        cluster_(owner.cluster_),
        collective_(std::move(collective)),
        memory_(memory),
        blocks_(holds_values(memory) ? blocks.begin() : blocks.end(), blocks.end()) {}

  bool test() override {
    if (done_) return true;
    RankScheduler& scheduler = cluster_.scheduler();
    cluster_.device().poll();
    scheduler.yield();
    // Ranks that ask again and again would hide that all wait for ever.
    if (!collective_->complete && scheduler.polls_in_vain()) owner_.wait_for_members(*collective_);
    if (!collective_->complete) return false;
    if (collective_->end > scheduler.now() && cluster_.options().order == RankOrder::by_time)
      return false;
    owner_.move_by_core(*collective_, scheduler.now());
    take();
    return true;
  }
  void wait() override {
    if (done_) return;
    if (owner_.finish(collective_, nullptr)) take();
  }

 private:
  void take() {
    done_ = true;
    for (const CommBlock& block : blocks_)
      if (block.elems > 0)
        std::memcpy(memory_ + block.offset,
                    collective_->data.data() + std::size_t(block.offset) * sizeof(float),
                    std::size_t(block.elems) * sizeof(float));
    std::ranges::copy(collective_->sums, memory_);
    collective_.reset();
  }

  SimulatedCommunicator& owner_;
  Cluster& cluster_;
  std::shared_ptr<Collective> collective_;
  float* memory_;
  std::vector<CommBlock> blocks_;
  bool done_ = false;
};

CommRequestPtr SimulatedCommunicator::started(const std::shared_ptr<Collective>& collective,
                                              float* memory,
                                              std::span<const CommBlock> blocks) {
  if (in_stream_order_ && !holds_values(memory)) {
    finish(collective, memory);
    return DoneRequest::make();
  }
  return CommRequestPtr(new Request(*this, collective, memory, blocks));
}

}  // namespace

std::unique_ptr<Communicator> make_simulated_communicator(Cluster& cluster,
                                                          int rank,
                                                          bool in_stream_order) {
  std::shared_ptr<void>& world = cluster.shared_by_communicators(in_stream_order ? 1 : 0);
  if (!world) {
    std::vector<int> ranks(std::size_t(cluster.options().ranks));
    std::iota(ranks.begin(), ranks.end(), 0);
    world = make_members(cluster.links(), std::move(ranks));
  }
  return std::make_unique<SimulatedCommunicator>(
      cluster, std::static_pointer_cast<Members>(world), rank, in_stream_order);
}

}  // namespace lockstep::simulation
