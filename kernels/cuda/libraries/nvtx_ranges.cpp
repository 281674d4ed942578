// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <nvtx3/nvToolsExt.h>
#include <vector>

#include "kernels/cuda/device/device_tools.h"

namespace lockstep::cuda {
namespace {

/// Names are registered: a range hands the tool a pointer, and no text.
class NvtxRanges final : public RangeMarker {
 public:
  explicit NvtxRanges(nvtxDomainHandle_t domain) : domain_(domain) {}
  NvtxRanges(const NvtxRanges&) = delete;
  NvtxRanges& operator=(const NvtxRanges&) = delete;
  ~NvtxRanges() override { nvtxDomainDestroy(domain_); }

  int declare(const std::string& name) override {
    const auto [known, is_new] = numbers_.try_emplace(name, int(names_.size()));
    if (is_new) {
      nvtxEventAttributes_t& attributes = names_.emplace_back();
      attributes.version = NVTX_VERSION;
      attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
      attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
      attributes.message.registered = nvtxDomainRegisterStringA(domain_, name.c_str());
    }
    return known->second;
  }

  void push(int name) override { nvtxDomainRangePushEx(domain_, &attributes_of(name)); }
  void push(int name, std::int64_t number) override {
    nvtxEventAttributes_t attributes = attributes_of(name);
    attributes.payloadType = NVTX_PAYLOAD_TYPE_INT64;
    attributes.payload.llValue = number;
    nvtxDomainRangePushEx(domain_, &attributes);
  }
  void pop() override { nvtxDomainRangePop(domain_); }
  std::uint64_t start(int name) override {
    return nvtxDomainRangeStartEx(domain_, &attributes_of(name));
  }
  void end(std::uint64_t range) override { nvtxDomainRangeEnd(domain_, range); }

 private:
  const nvtxEventAttributes_t& attributes_of(int name) const { return names_[std::size_t(name)]; }

  nvtxDomainHandle_t domain_;
  std::map<std::string, int> numbers_;
  std::vector<nvtxEventAttributes_t> names_;
};

}  // namespace

std::unique_ptr<RangeMarker> make_range_marker() {
  // Without a tool NVTX's functions do nothing and return null.
  nvtxDomainHandle_t domain = nvtxDomainCreateA("lockstep");
  return domain == nullptr ? nullptr : std::make_unique<NvtxRanges>(domain);
}

}  // namespace lockstep::cuda
