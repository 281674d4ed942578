// SPDX-License-Identifier: Apache-2.0
#include "launcher/device_choice.h"

#include "core/base/error.h"

namespace lockstep {

DeviceChoice choose_device(const std::string& asked,
                           const DeviceProbe& probe,
                           int local_rank,
                           int local_ranks) {
  if (asked == "cpu") return {};
  if (probe.devices == 0) {
    if (asked == "cuda") throw EnvironmentError("--device cuda: " + probe.reason, probe.hint);
    return {.cuda = false, .ordinal = 0, .note = "--device auto: " + probe.reason};
  }
  DeviceChoice choice{.cuda = true, .ordinal = local_rank % probe.devices, .note = {}};
  if (local_ranks > probe.devices)
    choice.note =
        fmt::format("{} ranks of this host share {} GPU{}: they take turns, and gain little",
                    local_ranks,
                    probe.devices,
                    probe.devices == 1 ? "" : "s");
  return choice;
}

int usable_gpus(const std::string& asked) {
  if (asked == "cpu") return 0;
  const DeviceProbe probe = probe_cuda();
  return choose_device(asked, probe, 0, 1).cuda ? probe.devices : 0;
}

}  // namespace lockstep
