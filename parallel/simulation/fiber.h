// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace lockstep::simulation {

/// A function with a stack of its own, which runs until it suspends itself or ends. All fibers of a
/// thread take turns; none runs while another does. An exception must not leave the function.
class Fiber {
 public:
  /// Pages of the stack are touched as they are needed. Throws EnvironmentError: there is no memory
  /// for it.
  explicit Fiber(std::function<void()> body);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Runs it until it suspends itself or ends. Not from inside of a fiber.
  void resume();
  bool ended() const;
  /// The fiber that runs goes back to whom resume()d it, which may be within a destructor while an
  /// exception is in flight.
  static void suspend();

  static constexpr std::size_t kStackBytes = std::size_t{512} << 10;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::simulation
