# sluice_embed_traces(<target>): every trace of traces/ inside <target>, as
# shipped_traces() of memory/trace/trace.h gives them. The assembler reads the files.
function(sluice_embed_traces target)
  file(GLOB paths CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/traces/*.trace)
  list(SORT paths)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/trace_files.cc)
  set(symbols "")
  set(rows "")
  set(n 0)
  foreach(path IN LISTS paths)
    get_filename_component(name "${path}" NAME_WE)
    string(APPEND symbols
      "asm(\".section .rodata\\n.global sluice_trace_${n}\\n.balign 16\\nsluice_trace_${n}:\\n\"\n"
      "    \".incbin \\\"${path}\\\"\\n\"\n"
      "    \".global sluice_trace_${n}_end\\nsluice_trace_${n}_end:\\n.byte 0\\n.previous\\n\");\n"
      "extern \"C\" const char sluice_trace_${n}[], sluice_trace_${n}_end[];\n")
    string(APPEND rows "    {\"${name}\", sluice_trace_${n}, sluice_trace_${n}_end},\n")
    math(EXPR n "${n} + 1")
  endforeach()
  file(CONFIGURE OUTPUT ${output} @ONLY CONTENT
"// Written by src/memory/trace/trace_embed.cmake.
#include \"memory/trace/trace.h\"

@symbols@
namespace sluice::memory {

std::span<const TraceFile> shipped_traces() noexcept {
  static const TraceFile files[] = {
@rows@  };
  return files;
}

}  // namespace sluice::memory
")
  set_source_files_properties(${output} PROPERTIES OBJECT_DEPENDS "${paths}"
    SKIP_UNITY_BUILD_INCLUSION ON)
  target_sources(${target} PRIVATE ${output})
endfunction()
