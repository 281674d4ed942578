# The headers of CUPTI and NVTX, which minimal toolkits lack: CUPTI_INCLUDE_DIR, NVTX_INCLUDE_DIR, and in
# LOCKSTEP_CUDA_TOOL_SOURCES what is compiled, below kernels/cuda/libraries: absent/ where one is missing, and both
# where the CUDA backend is not built, whatever an installed toolkit has. OFF skips one.
include(${CMAKE_CURRENT_LIST_DIR}/LockstepCudaPlaces.cmake)
if(LOCKSTEP_HAS_CUDA)
  lockstep_cuda_header(CUPTI_INCLUDE_DIR cupti.h lockstep_check_cupti)
  lockstep_cuda_header(NVTX_INCLUDE_DIR nvtx3/nvToolsExt.h lockstep_check_nothing)
endif()

set(LOCKSTEP_CUDA_TOOL_SOURCES)
if(LOCKSTEP_HAS_CUDA AND CUPTI_INCLUDE_DIR)
  list(APPEND LOCKSTEP_CUDA_TOOL_SOURCES cupti_tracer.cpp)
else()
  list(APPEND LOCKSTEP_CUDA_TOOL_SOURCES absent/cupti_tracer.cpp)
endif()
if(LOCKSTEP_HAS_CUDA AND NVTX_INCLUDE_DIR)
  list(APPEND LOCKSTEP_CUDA_TOOL_SOURCES nvtx_ranges.cpp)
else()
  list(APPEND LOCKSTEP_CUDA_TOOL_SOURCES absent/nvtx_ranges.cpp)
endif()
