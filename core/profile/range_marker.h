// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

/// Names stretches of time for a tool that watches this process from outside, as Nsight Systems
/// does. Backend::ranges() has one only where such a tool is attached. Used by the training thread.
class RangeMarker {
 public:
  virtual ~RangeMarker() = default;
  /// Returns the number of a name; the same one for an equal name. Before training, since it
  /// allocates.
  virtual int declare(const std::string& name) = 0;
  /// A range of that name until pop(); ranges nest.
  virtual void push(int name) = 0;
  /// The same, with a number that the tool shows next to the name.
  virtual void push(int name, std::int64_t number) = 0;
  virtual void pop() = 0;
  /// A range that may end in another order than it began, with end() of what is returned.
  virtual std::uint64_t start(int name) = 0;
  virtual void end(std::uint64_t range) = 0;
};

/// A range from construction to destruction; nothing without a marker.
class RangeScope {
 public:
  RangeScope(RangeMarker* marker, int name) : marker_(marker) {
    if (marker_ != nullptr) marker_->push(name);
  }
  ~RangeScope() {
    if (marker_ != nullptr) marker_->pop();
  }
  RangeScope(const RangeScope&) = delete;
  RangeScope& operator=(const RangeScope&) = delete;

 private:
  RangeMarker* marker_;
};

}  // namespace lockstep
