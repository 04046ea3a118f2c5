function(sluice_builds_quickly target)  # for code that is never hot: a third less to wait
  target_compile_options(${target} PRIVATE $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O1>)
endfunction()

# Several sources of a target as one: most of the work is in headers and their templates. Processor
# time for 24 sources of watch: 48 s one by one, 41 s with a precompiled header, 19 s six at a time,
# and 19 s with both. For the presets that people build from the start; `debug` compiles each by
# itself, which finds what leans on another's includes. Sources whose names clash with others of
# their batch are compiled alone: SKIP_UNITY_BUILD_INCLUSION.
option(SLUICE_TOGETHER "Compile several sources at a time" OFF)
function(sluice_compiles_together target)
  if(SLUICE_TOGETHER)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 6)
    target_compile_options(${target} PRIVATE  # it takes all of them for headers
      $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
  endif()
endfunction()

# sluice_module(<name> [TOGETHER] [DEPS <module>...] [LIBS <target>...] [SOURCES <file>...]
#               [CUDA_ON <file>...] [CUDA_OFF <file>...] [TESTS <file>...]
#               [GPU_TESTS <file>...] [BENCHES <file>...])
#
# One folder of src/ as the library sluice_<name>, its tests as one ctest and
# its benchmarks as one program. Sources are chosen for CUDA here, nowhere else.
# GPU_TESTS need a GPU: a program of their own, ctest label gpu, skipped with the
# reason where there is none. TOGETHER: see sluice_compiles_together; tests always are.
function(sluice_module name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "TOGETHER" ""
    "DEPS;LIBS;SOURCES;CUDA_ON;CUDA_OFF;TESTS;GPU_TESTS;BENCHES")
  if(SLUICE_CUDA)
    list(APPEND arg_SOURCES ${arg_CUDA_ON})
  else()
    list(APPEND arg_SOURCES ${arg_CUDA_OFF})
  endif()
  list(TRANSFORM arg_DEPS PREPEND sluice_)

  add_library(sluice_${name} STATIC ${arg_SOURCES})
  target_include_directories(sluice_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(sluice_${name} PUBLIC ${arg_DEPS} ${arg_LIBS} PRIVATE sluice_warnings)

  if(arg_TOGETHER)
    sluice_compiles_together(sluice_${name})
  endif()
  if(arg_TESTS AND SLUICE_TESTS)
    add_executable(${name}_test ${arg_TESTS})
    sluice_compiles_together(${name}_test)
    target_link_libraries(${name}_test PRIVATE sluice_${name} sluice_warnings GTest::gmock_main)
    sluice_builds_quickly(${name}_test)
    add_test(NAME ${name} COMMAND ${name}_test)
    set(limit_s 120)
    if(SLUICE_SANITIZE)
      set(limit_s 900)  # they run several times slower
    endif()
    set_tests_properties(${name} PROPERTIES TIMEOUT ${limit_s} LABELS unit)
  endif()
  if(arg_GPU_TESTS AND SLUICE_TESTS)
    if(SLUICE_CUDA)
      add_executable(${name}_gpu_test ${arg_GPU_TESTS} ${PROJECT_SOURCE_DIR}/tests/gpu_main.cc)
      sluice_compiles_together(${name}_gpu_test)
      target_link_libraries(${name}_gpu_test PRIVATE sluice_${name} sluice_warnings GTest::gmock)
      add_test(NAME ${name}_gpu COMMAND ${name}_gpu_test)
    else()
      add_test(NAME ${name}_gpu
        COMMAND sh -c "echo 'SKIPPED: built without CUDA; configure with --preset cuda'; exit 77")
    endif()
    set_tests_properties(${name}_gpu PROPERTIES LABELS gpu SKIP_RETURN_CODE 77 TIMEOUT 300)
  endif()
  if(arg_BENCHES AND SLUICE_TESTS)
    add_executable(${name}_bench ${arg_BENCHES})
    target_link_libraries(${name}_bench
      PRIVATE sluice_${name} sluice_warnings benchmark::benchmark_main)
  endif()
endfunction()
