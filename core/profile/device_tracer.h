// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

namespace lockstep {

/// One kernel, or one copy or fill of memory, as the device timed it.
struct DeviceActivity {
  static constexpr std::uint64_t kUnmarked = ~std::uint64_t{0};

  std::uint64_t mark = kUnmarked;  ///< the one it was asked for under: DeviceTracer::push()
  /// The compiler's name of a kernel, "_ZN8lockstep..."; "copy to host". Valid during the call.
  std::string_view name;
  std::uint32_t stream = 0;                                    ///< the tool's number
  std::chrono::steady_clock::time_point begin = {}, end = {};  ///< on the processor's clock
};

/// Told what a device has done. Called by any thread, one at a time, and late.
class DeviceActivitySink {
 public:
  virtual ~DeviceActivitySink() = default;
  virtual void take(const DeviceActivity& activity) = 0;
  /// What a stream of that number is for. Called before any of its activities.
  virtual void name_stream(std::uint32_t /*stream*/, std::string_view /*name*/) {}
  /// That many activities happened that could not be recorded.
  virtual void lose(std::int64_t activities) = 0;
};

/// Takes down what a device does, by the device's own clock, without waiting for it. Used by the
/// training thread; between start() and stop() nothing is allocated there.
class DeviceTracer {
 public:
  virtual ~DeviceTracer() = default;
  /// `sink` has to outlive stop(). Throws EnvironmentError: the driver or another tool is against
  /// it, with what to do.
  virtual void start(DeviceActivitySink& sink) = 0;
  /// What the calling thread asks of the device belongs to `mark`, until pop(). May be nested: the
  /// innermost counts.
  virtual void push(std::uint64_t mark) = 0;
  virtual void pop() = 0;
  /// Hands over all that is still missing. The device must have finished what was asked of it.
  virtual void stop() = 0;
};

}  // namespace lockstep
