// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <vector>

#include "core/base/blocked_signals.h"
#include "kernels/cpu/matrix_library.h"

// Note [Signals wait for oneDNN]
//
// Up to oneDNN 3.11.1 some of its fp32 GEMMs for AVX2 and AVX-512 keep a heap address in the stack
// pointer (oneDNN issue 4845): a signal handler that runs meanwhile writes its frame there, over
// whatever lies there. So a request to stop, a terminal's, or a profiler's timer would end the run
// with a damaged heap, or change a weight. Any primitive may end in such a GEMM, so that signals
// from outside wait for the end of every call.
//
/// What the kernels made of oneDNN share. Every call of oneDNN goes through `translate`.
namespace lockstep::cpu {

const dnnl::engine& dnnl_engine();

/// Throws OutOfMemory or Error with `what` and oneDNN's message.
[[noreturn]] void throw_translated(const std::string& what, const dnnl::error& error);

/// Calls `function` under one thread and with signals blocked (Note [Signals wait for oneDNN]);
/// its oneDNN exceptions become Error and name `what`.
template <typename Function>
auto translate(const std::string& what, Function function) {
  use_one_thread();
  const BlockedSignals signals_wait;
  try {
    return function();
  } catch (const dnnl::error& error) {
    throw_translated(what, error);
  }
}

/// A name for a memory layout, within this process equal for equal layouts and for no others: the
/// format of a packed copy.
std::string layout_name(const dnnl::memory::desc& layout);

/// A oneDNN primitive with its arguments: memory objects are made at construction, addresses come
/// at bind time, and run() only executes.
class DnnlStep {
 public:
  DnnlStep() = default;
  /// `what` names the operator in errors.
  DnnlStep(std::string what, const dnnl::primitive& primitive);

  /// Declares argument DNNL_ARG_... `arg`.
  void add(int arg, const dnnl::memory::desc& layout);
  /// Gives argument `arg` its address; oneDNN never writes through inputs.
  void bind(int arg, const void* address);
  void run();

 private:
  std::string what_;
  dnnl::primitive primitive_;
  dnnl::stream stream_;
  std::vector<dnnl::memory> memories_;
  std::vector<dnnl_exec_arg_t> arguments_;  // of memories_, in order
};

}  // namespace lockstep::cpu
