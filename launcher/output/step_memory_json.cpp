// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/step_memory_json.h"

#include <nlohmann/json.hpp>

namespace lockstep {

std::string step_memory_json(const MemoryPlan& plan) {
  using Json = nlohmann::ordered_json;
  Json bytes = Json::array(), nodes = Json::array();
  for (const StepMemory& step : plan.steps) {
    bytes.push_back(step.live_bytes);
    nodes.push_back(step.node);
  }
  const Json file{{"micro_batch", plan.batch.micro_batch},
                  {"arena_bytes", plan.table.arena_bytes},
                  {"first_backward", plan.first_backward_step},
                  {"live_bytes", std::move(bytes)},
                  {"nodes", std::move(nodes)}};
  return file.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace lockstep
