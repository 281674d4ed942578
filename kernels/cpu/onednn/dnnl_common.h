// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <vector>

#include "kernels/cpu/matrix_library.h"

/// What the kernels made of oneDNN share. Every call of oneDNN goes through `translate`.
namespace lockstep::cpu {

const dnnl::engine& dnnl_engine();

/// Throws OutOfMemory or Error with `what` and oneDNN's message.
[[noreturn]] void throw_translated(const std::string& what, const dnnl::error& error);

/// Calls `function` under one thread; its oneDNN exceptions become Error and name `what`.
template <typename Function>
auto translate(const std::string& what, Function function) {
  use_one_thread();
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
