// SPDX-License-Identifier: Apache-2.0
#include "tests/libraries/fake_cudnn/fake_cudnn.h"

#include <cstring>
#include <fmt/format.h>
#include <map>
#include <vector>

#include "kernels/cuda/libraries/cudnn/cudnn_library.h"
#include "lockstep/error.h"
#include "tests/libraries/fake_cudnn/fake_graph.h"

namespace lockstep::cuda {
namespace {

FakeDescriptor& fake(void* descriptor) { return *static_cast<FakeDescriptor*>(descriptor); }

std::size_t size_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
      return 8;
    case CUDNN_TYPE_BOOLEAN:
      return sizeof(bool);
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      return sizeof(void*);
    default:
      return 4;  // enumerations and floats
  }
}

cudnnStatus_t create(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* made) {
  *made = new FakeDescriptor{type, {}};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t destroy(cudnnBackendDescriptor_t descriptor) {
  delete &fake(descriptor);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t set(cudnnBackendDescriptor_t descriptor,
                  cudnnBackendAttributeName_t name,
                  cudnnBackendAttributeType_t type,
                  std::int64_t count,
                  const void* values) {
  std::vector<std::byte>& bytes = fake(descriptor).values[name];
  bytes.resize(std::size_t(count) * size_of(type));
  std::memcpy(bytes.data(), values, bytes.size());
  return CUDNN_STATUS_SUCCESS;
}

/// One proposal, of an engine without notes and knobs.
cudnnStatus_t get(cudnnBackendDescriptor_t descriptor,
                  cudnnBackendAttributeName_t name,
                  cudnnBackendAttributeType_t,
                  std::int64_t count,
                  std::int64_t* found,
                  void* values) {
  *found = 1;
  if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS || name == CUDNN_ATTR_ENGINECFG_ENGINE)
    return CUDNN_STATUS_SUCCESS;
  if (name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE || name == CUDNN_ATTR_ENGINECFG_KNOB_CHOICES) {
    *found = 0;
    return CUDNN_STATUS_SUCCESS;
  }
  if (count == 1 && name == CUDNN_ATTR_ENGINE_GLOBAL_INDEX)
    *static_cast<std::int64_t*>(values) = 7;
  else if (count == 1 && name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)
    *static_cast<std::int64_t*>(values) = kFakeWorkspace;
  else
    return CUDNN_STATUS_BAD_PARAM;
  (void)descriptor;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t finalize(cudnnBackendDescriptor_t) { return CUDNN_STATUS_SUCCESS; }

cudnnStatus_t execute(cudnnHandle_t, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack) {
  const FakeDescriptor& configuration = *fake(plan).part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  const FakeDescriptor& engine = *configuration.part(CUDNN_ATTR_ENGINECFG_ENGINE);
  std::map<std::int64_t, void*> pointers;
  const auto ids = fake(pack).list<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto places = fake(pack).list<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  for (std::size_t i = 0; i < ids.size(); ++i) pointers[ids[i]] = places[i];
  // As much as was asked for is the plan's.
  std::memset(fake(pack).list<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE)[0],
              0xff,
              std::size_t(kFakeWorkspace));
  execute_fake_graph(*engine.part(CUDNN_ATTR_ENGINE_OPERATION_GRAPH), pointers);
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

const Cudnn& cudnn() {
  static const Cudnn functions = [] {
    Cudnn made;
    made.cudnnBackendCreateDescriptor = create;
    made.cudnnBackendDestroyDescriptor = destroy;
    made.cudnnBackendSetAttribute = set;
    made.cudnnBackendGetAttribute = get;
    made.cudnnBackendFinalize = finalize;
    made.cudnnBackendExecute = execute;
    return made;
  }();
  return functions;
}

int cudnn_number() { return 91900; }
std::string words_of(cudnnStatus_t status) { return fmt::format("status {}", int(status)); }
bool refuses(cudnnStatus_t status) { return status != CUDNN_STATUS_SUCCESS; }
void check(cudnnStatus_t status, std::string_view what) {
  if (status != CUDNN_STATUS_SUCCESS)
    throw EnvironmentError(fmt::format("{}: {}", what, words_of(status)), "");
}
std::shared_ptr<cudnnContext> cudnn_handle(const Device&) { return nullptr; }

}  // namespace lockstep::cuda
