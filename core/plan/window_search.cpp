// SPDX-License-Identifier: Apache-2.0
#include "core/plan/window_search.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <queue>
#include <tuple>
#include <unordered_map>

#include "core/base/check.h"

namespace lockstep {
namespace {

/// Nodes of the window by their position in it.
using NodeSet = std::uint64_t;

constexpr NodeSet only(std::size_t position) { return NodeSet{1} << position; }

class WindowSearch {
 public:
  WindowSearch(const MemoryUse& use,
               const std::vector<NodeId>& order,
               OrderWindow window,
               std::size_t limit)
      : use_(use),
        nodes_(order.begin() + std::ptrdiff_t(window.begin),
               order.begin() + std::ptrdiff_t(window.end)),
        limit_(limit),
        all_(nodes_.size() == 64 ? ~NodeSet{0} : only(nodes_.size()) - 1) {
    LOCKSTEP_ASSERT(!nodes_.empty() && nodes_.size() <= OrderWindow::kWidest);
    find_neighbours(order, window);
  }

  std::vector<NodeId> run(std::size_t live, int& budget) {
    const std::size_t least = least_peak(live);
    if (least >= limit_) return {};
    reach(0, {.peak = least, .live = live});
    while (!open_.empty()) {
      const NodeSet done = std::get<3>(open_.top());
      open_.pop();
      Reached& state = reached_.at(done);
      if (state.closed) continue;
      if (done == all_) return way_to(done);
      state.closed = true;
      if (budget-- <= 0) return {};
      expand(done, state);
    }
    return {};
  }

 private:
  /// The best way known to a set of nodes that have run.
  struct Reached {
    std::size_t peak = 0;
    std::size_t live = 0;
    std::size_t last = 0;  ///< position of the node that ran last
    bool closed = false;
  };
  /// Of a storage that the window reads or makes.
  struct Readers {
    NodeSet within = 0;
    bool after = false;        ///< is needed after the window
    bool made_within = false;  ///< otherwise it is live before
  };
  /// Smallest peak first, then most nodes done, then the way found first: nodes in the given order.
  using Open = std::tuple<std::size_t, int, std::size_t, NodeSet>;

  void find_neighbours(const std::vector<NodeId>& order, OrderWindow window) {
    std::vector<std::size_t> position(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) position[std::size_t(order[i])] = i;
    before_.assign(nodes_.size(), 0);
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const MemoryUse::Use& node = use_.of(nodes_[i]);
      for (NodeId earlier : node.after)
        if (const std::size_t at = position[std::size_t(earlier)]; at >= window.begin)
          before_[i] |= only(at - window.begin);
      for (int storage : node.reads) readers_.try_emplace(storage);
      for (const MemoryUse::Made& made : node.makes) readers_[made.storage].made_within = true;
    }
    for (auto& [number, readers] : readers_) {
      const MemoryUse::Storage& storage = use_.storage(number);
      readers.after = storage.kept;
      for (NodeId reader : storage.readers) {
        const std::size_t at = position[std::size_t(reader)];
        if (at >= window.end) readers.after = true;
        if (at >= window.begin && at < window.end) readers.within |= only(at - window.begin);
      }
    }
  }

  MemoryUse::Step step(NodeSet done, std::size_t live, std::size_t next) const {
    const NodeSet then = done | only(next);
    return use_.step(nodes_[next], live, [&](int storage) {
      const Readers& readers = readers_.at(storage);
      return !readers.after && (readers.within & ~then) == 0;
    });
  }

  /// What no order goes below: the live bytes at the end of the window, and what each node reads
  /// and makes, in addition to all that outlives the window.
  std::size_t least_peak(std::size_t live) const {
    std::size_t outliving = live, end = live;
    for (const auto& [number, readers] : readers_)
      if (!readers.after && !readers.made_within) outliving -= use_.storage(number).bytes;
    std::size_t least = live;
    NodeSet done = 0;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      std::size_t needed = outliving + use_.of(nodes_[i]).workspace;
      for (int read : use_.of(nodes_[i]).reads)
        if (const Readers& r = readers_.at(read); r.made_within || !r.after)
          needed += use_.storage(read).bytes;
      for (const MemoryUse::Made& made : use_.of(nodes_[i]).makes)
        if (made.in_place_of < 0 || readers_.at(made.in_place_of).after)
          needed += use_.storage(made.storage).bytes;
      least = std::max(least, needed);
      end = step(done, end, i).after;
      done |= only(i);
    }
    return std::max(least, end);
  }

  void expand(NodeSet done, const Reached& state) {
    std::vector<std::pair<std::size_t, MemoryUse::Step>> choices;
    for (NodeSet rest = all_ & ~done; rest != 0; rest &= rest - 1) {
      const auto next = std::size_t(std::countr_zero(rest));
      if ((before_[next] & ~done) != 0) continue;
      const MemoryUse::Step taken = step(done, state.live, next);
      if (taken.during >= limit_) continue;
      if (taken.during <= state.peak && taken.after <= state.live) {
        choices = {{next, taken}};
        break;
      }
      choices.emplace_back(next, taken);
    }
    for (const auto& [next, taken] : choices)
      reach(done | only(next),
            {.peak = std::max(state.peak, taken.during), .live = taken.after, .last = next});
  }

  void reach(NodeSet done, const Reached& way) {
    const auto [known, is_new] = reached_.try_emplace(done, way);
    if (!is_new) {
      if (known->second.closed || known->second.peak <= way.peak) return;
      known->second = way;
    }
    open_.emplace(way.peak, -std::popcount(done), ways_++, done);
  }

  std::vector<NodeId> way_to(NodeSet done) const {
    std::vector<NodeId> way;
    for (; done != 0; done &= ~only(reached_.at(done).last))
      way.push_back(nodes_[reached_.at(done).last]);
    std::ranges::reverse(way);
    return way;
  }

  const MemoryUse& use_;
  const std::vector<NodeId> nodes_;
  const std::size_t limit_;
  const NodeSet all_;
  std::vector<NodeSet> before_;  // per node: those of the window that must have run
  std::unordered_map<int, Readers> readers_;
  std::unordered_map<NodeSet, Reached> reached_;
  std::priority_queue<Open, std::vector<Open>, std::greater<>> open_;
  std::size_t ways_ = 0;
};

}  // namespace

std::vector<NodeId> search_window(const MemoryUse& use,
                                  const std::vector<NodeId>& order,
                                  OrderWindow window,
                                  std::size_t live,
                                  std::size_t limit,
                                  int& budget) {
  return WindowSearch(use, order, window, limit).run(live, budget);
}

}  // namespace lockstep
