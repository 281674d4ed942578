// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/onednn/dnnl_common.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "lockstep/error.h"

namespace lockstep::cpu {

const dnnl::engine& dnnl_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

void throw_translated(const std::string& what, const dnnl::error& error) {
  const std::string message = fmt::format("{}: oneDNN: {}", what, error.what());
  switch (error.status) {
    case dnnl_out_of_memory:
      throw OutOfMemory(message, "use a smaller micro-batch");
    case dnnl_unimplemented:
      throw Error(message, "oneDNN has no kernel for these sizes");
    default:
      throw Error(message);
  }
}

std::string layout_name(const dnnl::memory::desc& layout) {
  // What makes layouts equal is oneDNN's to say, and there are few of them in a process.
  static std::mutex mutex;
  static std::vector<dnnl::memory::desc> known;
  const std::lock_guard lock(mutex);
  const auto found = std::find(known.begin(), known.end(), layout);
  const auto index = found - known.begin();
  if (found == known.end()) known.push_back(layout);
  return fmt::format("dnnl.{}", index);
}

DnnlStep::DnnlStep(std::string what, const dnnl::primitive& primitive)
    : what_(std::move(what)), primitive_(primitive), stream_(dnnl_engine()) {}

void DnnlStep::add(int arg, const dnnl::memory::desc& layout) {
  memories_.push_back(dnnl::memory(layout, dnnl_engine(), DNNL_MEMORY_NONE));
  arguments_.push_back({arg, memories_.back().get()});
}

void DnnlStep::bind(int arg, const void* address) {
  for (std::size_t i = 0; i < arguments_.size(); ++i)
    if (arguments_[i].arg == arg) memories_[i].set_data_handle(const_cast<void*>(address));
}

void DnnlStep::run() {
  // The C++ interface would copy its map of arguments into a vector at every call.
  translate(what_, [&] {
    dnnl::error::wrap_c_api(
        dnnl_primitive_execute(
            primitive_.get(), stream_.get(), int(arguments_.size()), arguments_.data()),
        "could not execute a primitive");
  });
}

}  // namespace lockstep::cpu
