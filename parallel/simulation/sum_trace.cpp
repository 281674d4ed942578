// SPDX-License-Identifier: Apache-2.0
#include "parallel/simulation/sum_trace.h"

#include <algorithm>
#include <fmt/format.h>

#include "core/base/check.h"

namespace lockstep::simulation {
namespace {

/// splitmix64's finalizer (Steele, Lea and Flood 2014).
constexpr std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

constexpr std::uint64_t kLeaf = 0x9e3779b97f4a7c15u, kSum = 0xd1b54a32d192ed03u;

/// Of neither kUnknown nor kZero.
constexpr Expression expression_of(std::uint64_t hash) { return std::max<std::uint64_t>(hash, 2); }

/// One element of each of two stretches that are added.
Stretch added(const Stretch& a, const Stretch& b) {
  Stretch sum{std::min(a.elems, b.elems), sum_of(a.expression, b.expression), a.first};
  if (a.expression == kZero) sum.first = b.first;
  const bool both = a.expression > kZero && b.expression > kZero;
  if (both && a.first != b.first)
    throw InternalError(fmt::format(
        "simulation: element {} of the gradients is added to element {}", a.first, b.first));
  return sum;
}

Stretch after(const Stretch& stretch, std::int64_t elems) {
  return {stretch.elems - elems, stretch.expression, stretch.first + std::uint64_t(elems)};
}

/// Several arrays of equal lengths, read side by side in stretches in which none changes.
class SideBySide {
 public:
  explicit SideBySide(std::vector<std::vector<Stretch>> arrays)
      : arrays_(std::move(arrays)), at_(arrays_.size(), 0) {}
  /// Heads of equal length; empty at the end.
  std::vector<Stretch> next() {
    std::vector<Stretch> heads;
    std::int64_t elems = -1;
    for (std::size_t i = 0; i < arrays_.size(); ++i) {
      if (at_[i] == arrays_[i].size()) return {};
      heads.push_back(arrays_[i][at_[i]]);
      elems = elems < 0 ? heads.back().elems : std::min(elems, heads.back().elems);
    }
    for (std::size_t i = 0; i < arrays_.size(); ++i) {
      Stretch& left = arrays_[i][at_[i]];
      left = after(left, elems);
      if (left.elems == 0) ++at_[i];
      heads[i].elems = elems;
    }
    return heads;
  }

 private:
  std::vector<std::vector<Stretch>> arrays_;
  std::vector<std::size_t> at_;
};

}  // namespace

Expression leaf(std::uint64_t first_sample) {
  return expression_of(mixed(mixed(first_sample + kLeaf)));
}

Expression sum_of(Expression a, Expression b) {
  if (a == kUnknown || b == kUnknown) return kUnknown;
  if (a == kZero || b == kZero) return std::max(a, b);
  const auto [low, high] = std::minmax(a, b);
  return expression_of(mixed(mixed(low + kSum) ^ high));
}

void TracedMemory::cut(const float* at) {
  auto next = pieces_.upper_bound(at);
  if (next == pieces_.begin()) return;
  auto piece = std::prev(next);
  if (piece->first == at || piece->second.end <= at) return;
  Piece right = piece->second;
  right.first += std::uint64_t(at - piece->first);
  piece->second.end = at;
  pieces_.emplace_hint(next, at, right);
}

void TracedMemory::forget(const float* from, std::int64_t elems) {
  write(from, elems, kUnknown, 0);
}

void TracedMemory::write(const float* to,
                         std::int64_t elems,
                         Expression expression,
                         std::uint64_t first) {
  if (elems == 0) return;
  const float* end = to + elems;
  cut(to);
  cut(end);
  auto next = pieces_.erase(pieces_.lower_bound(to), pieces_.lower_bound(end));
  if (expression == kZero) return;
  const auto follows = [&](Expression other, std::uint64_t left, std::uint64_t right) {
    return other == expression && (other == kUnknown || left == right);
  };
  if (next != pieces_.end() && next->first == end &&
      follows(next->second.expression, first + std::uint64_t(elems), next->second.first)) {
    end = next->second.end;
    next = pieces_.erase(next);
  }
  if (next != pieces_.begin()) {
    auto& [begin, before] = *std::prev(next);
    if (before.end == to &&
        follows(before.expression, before.first + std::uint64_t(to - begin), first)) {
      before.end = end;
      return;
    }
  }
  pieces_.emplace_hint(next, to, Piece{end, expression, first});
}

std::vector<Stretch> TracedMemory::read(const float* from, std::int64_t elems) const {
  std::vector<Stretch> stretches;
  read(from, elems, stretches);
  return stretches;
}

void TracedMemory::read(const float* from,
                        std::int64_t elems,
                        std::vector<Stretch>& stretches) const {
  stretches.clear();
  const float* const end = from + elems;
  auto piece = pieces_.upper_bound(from);
  if (piece != pieces_.begin() && std::prev(piece)->second.end > from) --piece;
  while (from < end) {
    if (piece == pieces_.end() || piece->first >= end) {
      stretches.push_back({end - from, kZero, 0});
      break;
    }
    const auto& [begin, what] = *piece;
    if (begin > from) {
      stretches.push_back({begin - from, kZero, 0});
      from = begin;
    }
    const float* const until = std::min(end, what.end);
    stretches.push_back({until - from, what.expression, what.first + std::uint64_t(from - begin)});
    from = until;
    ++piece;
  }
}

void TracedMemory::write(float* to, std::span<const Stretch> stretches) {
  for (const Stretch& stretch : stretches) {
    write(to, stretch.elems, stretch.expression, stretch.first);
    to += stretch.elems;
  }
}

void TracedMemory::write_gradient(const float* to,
                                  std::int64_t elems,
                                  Expression gradient,
                                  bool accumulates) {
  if (!accumulates)
    return write(to, elems, gradient, reinterpret_cast<std::uintptr_t>(to) / sizeof(float));
  std::vector<Stretch> sums = read(to, elems);
  for (Stretch& sum : sums) sum.expression = sum_of(sum.expression, gradient);
  write(const_cast<float*>(to), sums);
}

void TracedMemory::add(float* out, const float* a, const float* b, std::int64_t elems) {
  SideBySide both({read(a, elems), read(b, elems)});
  std::vector<Stretch> sums;
  for (auto heads = both.next(); !heads.empty(); heads = both.next())
    sums.push_back(added(heads[0], heads[1]));
  write(out, sums);
}

/// Zeros stay, whatever is added to them in place.
void TracedMemory::consume(const float* from, std::int64_t elems) {
  for (const Stretch& stretch : read(from, elems)) {
    if (stretch.expression != kZero) forget(from, stretch.elems);
    from += stretch.elems;
  }
}

void TracedMemory::sum_tree(std::span<const TreeTerm> terms, float* result, std::int64_t elems) {
  if (elems == 0) return;
  std::vector<std::vector<Stretch>> values;
  for (const TreeTerm& term : terms) values.push_back(read(term.values, elems));
  SideBySide arrays(std::move(values));
  std::vector<Stretch> sums, stack;
  for (auto heads = arrays.next(); !heads.empty(); heads = arrays.next()) {
    stack.clear();
    for (std::size_t i = 0; i < terms.size(); ++i) {
      stack.push_back(heads[i]);
      for (int merge = 0; merge < terms[i].merges; ++merge) {
        const Stretch right = stack.back();
        stack.pop_back();
        stack.back() = added(stack.back(), right);
      }
    }
    LOCKSTEP_ASSERT(stack.size() == 1);
    sums.push_back(stack[0]);
  }
  for (const TreeTerm& term : terms) consume(term.values, elems);
  write(result, sums);
}

}  // namespace lockstep::simulation
