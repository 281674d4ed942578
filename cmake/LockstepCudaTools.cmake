# The headers of CUPTI and NVTX, which minimal toolkits lack: CUPTI_INCLUDE_DIR, NVTX_INCLUDE_DIR, and in
# LOCKSTEP_CUDA_TOOL_SOURCES what is compiled, below kernels/cuda/libraries: absent/ where one is missing, and both
# where the CUDA backend is not built, whatever a toolkit beside it has. OFF leaves one out. Not looked for
# elsewhere: CUPTI has to be the toolkit's own, in it or, as installers put it, in extras.
if(LOCKSTEP_HAS_CUDA)
  find_path(CUPTI_INCLUDE_DIR cupti.h NO_DEFAULT_PATH
    PATHS ${CUDAToolkit_INCLUDE_DIRS} ${CUDAToolkit_LIBRARY_ROOT}/extras/CUPTI/include)
  find_path(NVTX_INCLUDE_DIR nvtx3/nvToolsExt.h NO_DEFAULT_PATH PATHS ${CUDAToolkit_INCLUDE_DIRS})
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
