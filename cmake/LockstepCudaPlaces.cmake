# Where headers of NVIDIA's libraries are looked for, in the order that docs/gpu.md documents and
# kernels/cuda/libraries/library_places.h keeps when a process opens the libraries:
#   1. the folders of LOCKSTEP_CUDA_PATH, a variable of CMake or of the environment, between colons
#   2. the toolkit, then the folders of the system and of CMAKE_PREFIX_PATH
#   3. Python environments: VIRTUAL_ENV, CONDA_PREFIX, and that of the python3 on PATH
include(LockstepHeaderVersions)

# lockstep_cuda_site_packages(OUT): the folders of Python packages of place 3, in order.
function(lockstep_cuda_site_packages out)
  set(found "")
  foreach(environment VIRTUAL_ENV CONDA_PREFIX)
    if(DEFINED ENV{${environment}} AND NOT "$ENV{${environment}}" STREQUAL "")
      file(GLOB folders LIST_DIRECTORIES true $ENV{${environment}}/lib/python3*/site-packages)
      list(APPEND found ${folders})
    endif()
  endforeach()
  find_program(python3 python3 NO_CACHE)
  if(python3)
    execute_process(
      COMMAND ${python3} -c "import site, sysconfig; print(';'.join([sysconfig.get_path('purelib'), *site.getsitepackages(), site.getusersitepackages()]))"
      OUTPUT_VARIABLE folders OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    list(APPEND found ${folders})
  endif()
  list(REMOVE_DUPLICATES found)
  set(${out} "${found}" PARENT_SCOPE)
endfunction()

# lockstep_cuda_header_folders(OUT_FIRST OUT_LAST): the folders of place 1 and of place 3.
function(lockstep_cuda_header_folders out_first out_last)
  set(roots "${LOCKSTEP_CUDA_PATH}")
  if("${roots}" STREQUAL "")
    set(roots "$ENV{LOCKSTEP_CUDA_PATH}")
  endif()
  string(REPLACE ":" ";" roots "${roots}")
  set(first "")
  foreach(root ${roots})
    # A toolkit, a folder of Python packages, or the folder of libraries next to the headers.
    file(GLOB packages LIST_DIRECTORIES true ${root}/nvidia/*/include ${root}/*/include)
    list(APPEND first ${root} ${root}/include ${root}/extras/CUPTI/include ${packages} ${root}/../include)
  endforeach()
  set(last "")
  lockstep_cuda_site_packages(folders)
  if(DEFINED ENV{CONDA_PREFIX})
    list(APPEND last $ENV{CONDA_PREFIX}/include $ENV{CONDA_PREFIX}/targets/x86_64-linux/include)
  endif()
  foreach(folder ${folders})
    file(GLOB packages LIST_DIRECTORIES true ${folder}/nvidia/*/include)
    list(APPEND last ${packages})
  endforeach()
  set(${out_first} "${first}" PARENT_SCOPE)
  set(${out_last} "${last}" PARENT_SCOPE)
endfunction()

# lockstep_cuda_header(VARIABLE HEADER CHECK): sets the cached VARIABLE to the first folder that holds HEADER and
# that CHECK(OUT FOLDER) takes: OUT becomes empty, or says what was found there. Without one, VARIABLE is
# VARIABLE-NOTFOUND, and VARIABLE_REFUSED lists the folders that were refused. A value that a user set stays,
# OFF too, which leaves the library out.
function(lockstep_cuda_header variable header check)
  if(DEFINED ${variable} AND NOT "${${variable}}" MATCHES "NOTFOUND$")
    return()
  endif()
  lockstep_cuda_header_folders(first last)
  find_path(system ${header} NO_CACHE)
  set(result ${variable}-NOTFOUND)
  set(refused "")
  set(seen "")
  foreach(folder ${first} ${CUDAToolkit_INCLUDE_DIRS} ${CUDAToolkit_LIBRARY_ROOT}/extras/CUPTI/include
          ${system} ${last})
    cmake_path(NORMAL_PATH folder)
    if(EXISTS ${folder}/${header} AND NOT folder IN_LIST seen)
      list(APPEND seen ${folder})
      cmake_language(CALL ${check} why ${folder})
      if(NOT why)
        set(result ${folder})
        break()
      endif()
      string(APPEND refused "  refused: ${folder}/${header}: ${why}\n")
    endif()
  endforeach()
  set(${variable} ${result} CACHE PATH "Folder of ${header}; OFF leaves it out" FORCE)
  set(${variable}_REFUSED "${refused}" PARENT_SCOPE)
endfunction()

# lockstep_cuda_library_folders(OUT): definitions for library_places.cpp: the folders of libraries of the toolkit, where
# CUPTI is next to the others or, as installers put it, in extras; and those next to the headers that were found.
function(lockstep_cuda_library_folders out)
  set(beside "")
  foreach(name CUBLAS CUDNN CUPTI NCCL)
    if(LOCKSTEP_HAS_CUDA AND ${name}_INCLUDE_DIR AND NOT ${name}_INCLUDE_DIR MATCHES "^/usr(/local)?/include")
      foreach(part lib64 lib)
        cmake_path(SET folder NORMALIZE ${${name}_INCLUDE_DIR}/../${part})
        if(IS_DIRECTORY ${folder})
          list(APPEND beside ${folder})
        endif()
      endforeach()
    endif()
  endforeach()
  list(REMOVE_DUPLICATES beside)
  list(JOIN beside ":" beside)
  set(toolkit "${CUDAToolkit_LIBRARY_DIR}")
  if(CUDAToolkit_LIBRARY_ROOT)
    string(APPEND toolkit ":${CUDAToolkit_LIBRARY_ROOT}/extras/CUPTI/lib64")
  endif()
  set(${out}
    "LOCKSTEP_CUDA_TOOLKIT_FOLDERS=\"${toolkit}\""
    "LOCKSTEP_CUDA_HEADER_FOLDERS=\"${beside}\"" PARENT_SCOPE)
endfunction()

# The checks of folders. CUDAToolkit_VERSION_MAJOR is wanted of what is made for one CUDA.
function(lockstep_check_cublas out folder)
  lockstep_defined(major ${folder}/cublas_api.h CUBLAS_VER_MAJOR)
  set(why "")
  if(NOT major STREQUAL CUDAToolkit_VERSION_MAJOR)
    set(why "cuBLAS ${major} is found, ${CUDAToolkit_VERSION_MAJOR} is wanted, as the toolkit's")
  endif()
  set(${out} "${why}" PARENT_SCOPE)
endfunction()

function(lockstep_check_cudnn out folder)
  set(why "")
  lockstep_defined(major ${folder}/cudnn_version.h CUDNN_MAJOR)
  lockstep_defined(minor ${folder}/cudnn_version.h CUDNN_MINOR)
  # cuDNN's headers do not name the CUDA that it is made for; the names of Python packages do.
  file(GLOB packages ${folder}/../../../nvidia_cudnn_cu*-*.dist-info)
  if(NOT major STREQUAL 9 OR "${major}.${minor}" VERSION_LESS 9.1)
    set(why "cuDNN ${major}.${minor} is found, 9.1 or later (9.x) is wanted")
  elseif(packages AND NOT packages MATCHES "nvidia_cudnn_cu${CUDAToolkit_VERSION_MAJOR}-")
    string(REGEX REPLACE ".*nvidia_cudnn_cu([0-9]+)-.*" "\\1" cuda "${packages}")
    set(why "it is made for CUDA ${cuda}, and wanted for CUDA ${CUDAToolkit_VERSION_MAJOR}")
  endif()
  set(${out} "${why}" PARENT_SCOPE)
endfunction()

# 2.26 is the first that heeds NCCL_LAUNCH_ORDER_IMPLICIT, without which nothing here is safe.
function(lockstep_check_nccl out folder)
  lockstep_defined(major ${folder}/nccl.h NCCL_MAJOR)
  lockstep_defined(minor ${folder}/nccl.h NCCL_MINOR)
  set(why "")
  if(NOT major STREQUAL 2 OR "${major}.${minor}" VERSION_LESS 2.26)
    set(why "NCCL ${major}.${minor} is found, 2.26 or later (2.x) is wanted")
  endif()
  set(${out} "${why}" PARENT_SCOPE)
endfunction()

# Until CUDA 12 CUPTI counted its interfaces, 22 with CUDA 12.4; since then 130000 is CUDA 13.0.
function(lockstep_check_cupti out folder)
  lockstep_defined(interface ${folder}/cupti_version.h CUPTI_API_VERSION)
  set(major 12)
  if(interface GREATER_EQUAL 130000)
    math(EXPR major "${interface} / 10000")
  elseif(interface LESS 19)
    set(major 11)
  endif()
  set(why "")
  if(NOT major STREQUAL CUDAToolkit_VERSION_MAJOR)
    set(why "CUPTI of CUDA ${major} is found, of ${CUDAToolkit_VERSION_MAJOR} is wanted, as the toolkit's")
  endif()
  set(${out} "${why}" PARENT_SCOPE)
endfunction()

function(lockstep_check_nothing out folder)
  set(${out} "" PARENT_SCOPE)
endfunction()

# lockstep_cuda_package(OUT STEM): the package of the Python index that holds a library for the toolkit's CUDA.
# Those of CUDA 12 end in -cu12; later ones do where they are not a part of the toolkit.
function(lockstep_cuda_package out stem)
  if(CUDAToolkit_VERSION_MAJOR VERSION_LESS 13 OR stem MATCHES "cudnn|nccl")
    set(${out} nvidia-${stem}-cu${CUDAToolkit_VERSION_MAJOR} PARENT_SCOPE)
  else()
    set(${out} nvidia-${stem} PARENT_SCOPE)
  endif()
endfunction()

# lockstep_cuda_remedy(OUT STEM APT): what to install where a header is missing.
function(lockstep_cuda_remedy out stem apt)
  lockstep_cuda_package(package ${stem})
  set(${out} "pip install ${package}, or apt-get install ${apt} (NVIDIA's repository); or name the folder in LOCKSTEP_CUDA_PATH"
    PARENT_SCOPE)
endfunction()
