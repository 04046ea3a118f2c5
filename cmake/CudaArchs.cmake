# sluice_cuda_archs(): SLUICE_CUDA_ARCHS as people write it becomes CMAKE_CUDA_ARCHITECTURES, and
#   SLUICE_CUDA_CODE    what the binary will hold, for src/device/gpu_code.h: "75 90 ptx90"
#   SLUICE_CUDA_HOPPER  whether kernels for 9.0 alone are compiled (wgmma, TMA)
#
#   90              machine code for 9.0 and PTX, which the driver compiles for later cards
#   75;90           machine code for both, PTX of the last
#   75-virtual      PTX alone: for tests of what other cards run
#   all             what each card from 7.5 on needs, PTX of the newest
macro(sluice_cuda_archs)
  set(archs ${SLUICE_CUDA_ARCHS})
  if(archs STREQUAL "all")
    # Code for x.y runs on x.z with z >= y; 8.6 and 8.9 schedule fp32 otherwise than 8.0.
    execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --list-gpu-code
      OUTPUT_VARIABLE listed OUTPUT_STRIP_TRAILING_WHITESPACE)
    set(archs "")
    foreach(arch 75 80 86 89 90 100 110 120)
      if("\n${listed}\n" MATCHES "\nsm_${arch}\n")
        list(APPEND archs ${arch})
      endif()
    endforeach()
  endif()
  list(GET archs -1 newest)
  set(CMAKE_CUDA_ARCHITECTURES "")
  set(SLUICE_CUDA_CODE "")
  set(SLUICE_CUDA_HOPPER OFF)
  foreach(arch ${archs})
    if(NOT arch MATCHES "^([0-9]+)(-real|-virtual)?$")
      message(FATAL_ERROR "SLUICE_CUDA_ARCHS: '${arch}' is no architecture; "
        "give numbers such as 75;90, with -real or -virtual behind one if needed, or all")
    endif()
    set(number ${CMAKE_MATCH_1})
    set(kind "${CMAKE_MATCH_2}")
    if(kind STREQUAL "" AND NOT arch STREQUAL newest)
      set(kind -real)
    endif()
    list(APPEND CMAKE_CUDA_ARCHITECTURES ${number}${kind})
    if(NOT kind STREQUAL "-virtual")
      string(APPEND SLUICE_CUDA_CODE "${number} ")
    endif()
    if(number STREQUAL "90")
      set(SLUICE_CUDA_HOPPER ON)
    endif()
    if(NOT kind STREQUAL "-real")
      string(APPEND SLUICE_CUDA_CODE "ptx${number} ")
    endif()
  endforeach()
endmacro()
