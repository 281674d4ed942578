// SPDX-License-Identifier: Apache-2.0
#include "parallel/simulation/fiber.h"

#include <cxxabi.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <utility>

#include "core/base/check.h"

#if defined(__SANITIZE_ADDRESS__)
#define LOCKSTEP_FIBER_HAS_ASAN
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LOCKSTEP_FIBER_HAS_ASAN
#endif
#endif
#ifdef LOCKSTEP_FIBER_HAS_ASAN
#include <sanitizer/common_interface_defs.h>
#define LOCKSTEP_FIBER_ASAN(call) call
#else
#define LOCKSTEP_FIBER_ASAN(call)
#endif

namespace lockstep::simulation {

/// What the C++ ABI (Itanium, section 2.2.2) keeps for a thread of exceptions in flight, which is a
/// fiber's own: one may be suspended while its stack unwinds.
struct ExceptionState {
  void* caught = nullptr;
  unsigned int uncaught = 0;
};

namespace {

constexpr std::size_t kGuardBytes = 4096;

ExceptionState& exception_state() {
  return *reinterpret_cast<ExceptionState*>(abi::__cxa_get_globals());
}

}  // namespace

class Fiber::State {
 public:
  explicit State(std::function<void()> what) : body(std::move(what)) {
    memory = mmap(nullptr,
                  kStackBytes,
                  PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK,
                  -1,
                  0);
    // What overflows the stack faults.
    if (memory == MAP_FAILED || mprotect(memory, kGuardBytes, PROT_NONE) != 0)
      throw EnvironmentError("simulation: no memory for the stack of a further rank",
                             "simulate fewer ranks, or allow more maps (vm.max_map_count)");
    getcontext(&own);
    own.uc_stack.ss_sp = static_cast<char*>(memory) + kGuardBytes;
    own.uc_stack.ss_size = kStackBytes - kGuardBytes;
    own.uc_link = nullptr;
    makecontext(&own, &State::enter, 0);
  }
  ~State() { munmap(memory, kStackBytes); }

  static void enter() {
    State& state = *running;
    LOCKSTEP_FIBER_ASAN(
        __sanitizer_finish_switch_fiber(nullptr, &state.caller_stack, &state.caller_bytes));
    state.body();
    state.body = nullptr;
    state.ended = true;
    state.leave();
  }

  void leave() {
    std::swap(exceptions, exception_state());
    LOCKSTEP_FIBER_ASAN(
        __sanitizer_start_switch_fiber(ended ? nullptr : &fake_stack, caller_stack, caller_bytes));
    swapcontext(&own, &caller);
    LOCKSTEP_FIBER_ASAN(__sanitizer_finish_switch_fiber(fake_stack, &caller_stack, &caller_bytes));
  }

  static thread_local State* running;

  std::function<void()> body;
  void* memory = nullptr;
  ucontext_t own{}, caller{};
  ExceptionState exceptions;  // of whoever does not run: the fiber, or its caller
  bool ended = false;
  void* fake_stack = nullptr;  // AddressSanitizer's
  const void* caller_stack = nullptr;
  std::size_t caller_bytes = 0;
};

thread_local Fiber::State* Fiber::State::running = nullptr;

Fiber::Fiber(std::function<void()> body) : state_(std::make_unique<State>(std::move(body))) {}
Fiber::~Fiber() = default;

void Fiber::resume() {
  State& state = *state_;
  LOCKSTEP_ASSERT(State::running == nullptr && !state.ended);
  State::running = &state;
  std::swap(state.exceptions, exception_state());
  LOCKSTEP_FIBER_ASAN(void* fake = nullptr);
  LOCKSTEP_FIBER_ASAN(
      __sanitizer_start_switch_fiber(&fake, state.own.uc_stack.ss_sp, state.own.uc_stack.ss_size));
  swapcontext(&state.caller, &state.own);
  LOCKSTEP_FIBER_ASAN(__sanitizer_finish_switch_fiber(fake, nullptr, nullptr));
  State::running = nullptr;
}

bool Fiber::ended() const { return state_->ended; }

void Fiber::suspend() {
  LOCKSTEP_ASSERT(State::running != nullptr);
  State::running->leave();
}

}  // namespace lockstep::simulation
