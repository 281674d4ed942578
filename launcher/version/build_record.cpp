// SPDX-License-Identifier: Apache-2.0
#include "launcher/version/build_record.h"

namespace lockstep {

const BuildRecord& build_record() {
#include "build_record.inc"
  return record;
}

}  // namespace lockstep
