# What is compiled for toolkits that have both tools, CUPTI in extras, or none:
#   cmake -D WORK=... -P find_tools_test.cmake
cmake_minimum_required(VERSION 3.25)

list(APPEND CMAKE_MODULE_PATH ${CMAKE_CURRENT_LIST_DIR}/../../cmake)

function(expect sources)
  include(${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../../cmake/LockstepCudaTools.cmake)
  if(NOT LOCKSTEP_CUDA_TOOL_SOURCES STREQUAL sources)
    message(SEND_ERROR "${CUDAToolkit_INCLUDE_DIRS}: expected ${sources}, found ${LOCKSTEP_CUDA_TOOL_SOURCES}")
  endif()
  unset(CUPTI_INCLUDE_DIR CACHE)
  unset(NVTX_INCLUDE_DIR CACHE)
endfunction()

set(LOCKSTEP_HAS_CUDA ON)
file(REMOVE_RECURSE ${WORK})
set(CUDAToolkit_VERSION_MAJOR 13)
foreach(header whole/include/cupti.h whole/include/nvtx3/nvToolsExt.h
    extras/extras/CUPTI/include/cupti.h extras/include/cuda.h bare/include/cuda.h)
  file(WRITE ${WORK}/${header} "")
endforeach()
foreach(folder whole/include extras/extras/CUPTI/include)
  file(WRITE ${WORK}/${folder}/cupti_version.h "#define CUPTI_API_VERSION 130000\n")
endforeach()
# Python environments of this machine have no part in it.
set(ENV{PATH} "")
unset(ENV{VIRTUAL_ENV})
unset(ENV{CONDA_PREFIX})

set(CUDAToolkit_INCLUDE_DIRS "")
expect("absent/cupti_tracer.cpp;absent/nvtx_ranges.cpp")

foreach(toolkit whole extras bare)
  set(CUDAToolkit_INCLUDE_DIRS ${WORK}/${toolkit}/include)
  set(CUDAToolkit_LIBRARY_ROOT ${WORK}/${toolkit})
  if(toolkit STREQUAL whole)
    expect("cupti_tracer.cpp;nvtx_ranges.cpp")
  elseif(toolkit STREQUAL extras)
    expect("cupti_tracer.cpp;absent/nvtx_ranges.cpp")
  else()
    expect("absent/cupti_tracer.cpp;absent/nvtx_ranges.cpp")
  endif()
endforeach()

# Where a user says that one is to be left out, or where it is.
set(CUDAToolkit_INCLUDE_DIRS ${WORK}/whole/include)
set(CUPTI_INCLUDE_DIR OFF CACHE PATH "")
expect("absent/cupti_tracer.cpp;nvtx_ranges.cpp")
set(CUDAToolkit_INCLUDE_DIRS ${WORK}/bare/include)
set(CUPTI_INCLUDE_DIR ${WORK}/whole/include CACHE PATH "")
expect("cupti_tracer.cpp;absent/nvtx_ranges.cpp")

# For a build without the backend: a toolkit that was refused, and what an earlier configuration found.
set(LOCKSTEP_HAS_CUDA OFF)
set(CUDAToolkit_INCLUDE_DIRS ${WORK}/whole/include)
expect("absent/cupti_tracer.cpp;absent/nvtx_ranges.cpp")
set(CUPTI_INCLUDE_DIR ${WORK}/whole/include CACHE PATH "")
set(NVTX_INCLUDE_DIR ${WORK}/whole/include CACHE PATH "")
expect("absent/cupti_tracer.cpp;absent/nvtx_ranges.cpp")
