// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

// Note [Streams of the emulator]
//
// A stream is a queue of work: kernels, copies, fills, records of events, waits for them, functions
// of the host. Where nothing else is said the host runs what it asks for before the call returns,
// so that a fault comes from the call that made it. The other modes are adverse: nothing runs until
// the host waits for something, and then what it waits for alone: the beginning of a stream, and
// through its waits for events the beginnings of others. A dependency that somebody forgot then
// shows as a wrong result:
//   - `late` finds what a stream or the host needs and does not wait for,
//   - `others_first` finds what begins too early: work of one stream that belongs after work of
//     another.
// Asynchronous copies look at host memory when they run, and cudaMemcpy() to the device may run
// after it has returned, as on a GPU. What went wrong comes from the wait that ran it, or from a
// later one, and from one only. cudaFree(), cudaFreeHost() and cudaStreamDestroy(), whose callers
// look at no errors, run what is pending and leave its errors to the next wait.
//
// Graphs are put in the stream they are launched on item by item, in an order that their
// dependencies allow: in mode `others_first` branches of other streams come as early as they can,
// otherwise as late.
namespace lockstep::emulator {

enum class StreamMode : std::uint8_t {
  at_once,       ///< before the call that asks for it returns
  late,          ///< when the host waits for it, and nothing concurrently
  others_first,  ///< as late, but before each item all that other streams can do
};

/// For what is asked from now on; until the first call it is what the variable EMULATED_STREAMS
/// says, at_once without it. Runs what is pending, and forgets its errors.
void set_stream_mode(StreamMode mode);

/// The end of the `number`th capture from now on, counted from 1, finds the capture invalid; 0: of
/// none.
void spoil_capture(int number);

/// In which capture `stream`, a cudaStream_t, takes part, counted from 1 in the order they began;
/// 0: in none.
long capture_number(void* stream);

/// What was asked of the runtime; neither what a capture recorded nor what a graph replays.
struct Calls {
  std::size_t kernel_launches = 0;     ///< and what libraries would launch
  std::size_t dependent_launches = 0;  ///< of kernels; those that a capture recorded as well
  std::size_t graph_launches = 0;
  std::size_t copies = 0;
  std::size_t host_functions = 0;  ///< lockstep_emulator_enqueue() and cudaLaunchHostFunc()
  std::size_t event_records = 0;
  std::size_t host_waits = 0;  ///< for streams, events and the device
};

/// Since reset_calls(), by all threads.
Calls calls();
void reset_calls();

/// The device breaks after that many more kernels: everything that is asked of its streams from
/// then on comes to nothing, and says `status`, a cudaError_t. With cudaSuccess, 0, it is well
/// again.
void break_device(int status, std::size_t kernels);

}  // namespace lockstep::emulator

/// Has `stream`, a cudaStream_t, call work(argument) on a thread of the host, after what was asked
/// of it before; what is asked of it later waits for that. A capture records it, and every replay
/// calls it again. It may wait for other processes and threads, and may not call CUDA.
/// `release`(argument), null: nothing, is called once `work` will not be called any more: it was,
/// or the last graph with it is gone. It must be short, and may not call CUDA. Returns a
/// cudaError_t. For libraries that a program opens: it must export its symbols.
extern "C" int lockstep_emulator_enqueue(void* stream,
                                         void (*work)(void*),
                                         void* argument,
                                         void (*release)(void*) = nullptr);
