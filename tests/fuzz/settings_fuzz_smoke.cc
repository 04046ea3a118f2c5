// A short run of settings_fuzz without a fuzzing engine: the corpus below, and many
// small changes to it.
#include "smoke.h"

namespace {

// The first character chooses the form: TOML, JSON, environment, flags.
const std::vector<std::string> kCorpus = {
    "0log_level = \"warn\"\n[gpu]\nenabled = true\ndevices = [0, \"GPU-5f1c\"]\nprecision = "
    "'fp16'\n"
    "gpu_type = \"A100\"\nmemory_allocation = { scout = 8.0 }\n[gpu.batch_sizes]\nscout = 64\n"
    "[serve]\nport = 8080\napi_key = \"key-1-of-16-characters\"\nallowed_hosts = "
    "[\"a\"]\n[watch]\ninterval_s = "
    "0.5\n",
    "0[[autoscaling]]\nmetric = \"gpu_utilization\"\ntarget = 80\nscale_up_cooldown = \"1h30m\"\n"
    "[[alerts]]\nname = \"gpu-temperature\"\nthreshold = 85\n[[alerts]]\nname = \"x\"\nmetric = "
    "\"temperature\"\ncondition = \"above\"\nthreshold = 1e3\nenabled = false\n",
    "0a.b.c = 1\n'q'.\"r\" = [1, [2, {x = nan}]]\nt = 1979-05-27T07:32:00.999Z\ns = '''x\ny'''\n",
    "1{\"gpu\": {\"enabled\": true, \"devices\": [0, 1], \"memory_allocation\": {\"synthesizer\": "
    "6.0,"
    "\"scout\": 8.0}, \"batch_sizes\": {\"analyst\": 32}, \"precision\": \"fp16\"},\n"
    "\"serve\": {\"port\": 81, \"host\": \"\\u00e9\\ud83d\\ude00\\n\"}}",
    "1{\"alerts\": [{\"name\": \"gpu-memory\", \"threshold\": 99, \"clear\": 1e1}],\n"
    "\"autoscaling\": [{\"min_instances\": 1, \"max_instances\": 5.0}], \"$schema\": \"x\"}",
    "1{\"a\": [[[[[[null, true, false, -0.5e-3, 12345678901234567890]]]]]], \"a\": 1}",
    "2GPU_ENABLED=true\nCUDA_VISIBLE_DEVICES=0,1\nGPU_MEMORY_FRACTION=0.8\nSCOUT_GPU_CACHE=/m\n"
    "GPU_BATCH_SIZE_SCOUT=64\nNVIDIA_VISIBLE_DEVICES=all\nNVIDIA_DRIVER_CAPABILITIES=compute\n"
    "SLUICE_GPU_BATCH_SIZES=a=1,b=2\nSLUICE_SERVE_PORT=1\nCUDA_LAUNCH_BLOCKING=1\n",
    "3serve.port=80\ngpu.batch_sizes.scout=3\ngpu.devices=0,GPU-1\nwatch.interval_s=1e0\n"
    "serve.api_key=key-1-of-16-characters\nalerts=1\nautoscaling[0].target=3\nlog_level=debug\n",
};

// Pieces that matter to one of the readers.
constexpr std::string_view kPieces[] = {"\"",
                                        "'",
                                        "'''",
                                        "\"\"\"",
                                        "[",
                                        "]",
                                        "[[",
                                        "]]",
                                        "{",
                                        "}",
                                        ",",
                                        ".",
                                        "=",
                                        ":",
                                        "\n",
                                        "\\",
                                        "\\u",
                                        "\\ud800",
                                        "nan",
                                        "inf",
                                        "-",
                                        "+",
                                        "e",
                                        "0",
                                        "99999999999999999999",
                                        "1e999",
                                        "#",
                                        "true",
                                        "null",
                                        "\xEF\xBB\xBF",
                                        "\xFF",
                                        "\xC3",
                                        "\x1B",
                                        "SLUICE_",
                                        "GPU_",
                                        "***",
                                        "a.a.a.a.a.a.a.a.a.a.a.a.",
                                        "[[[[[[[[[[[[[[[[[[[[",
                                        "{\"a\":{\"a\":{\"a\":",
                                        "5m",
                                        "1979-05-27",
                                        " "};

void feed_extremes() {
  for (char form = '0'; form < '4'; ++form)
    for (const std::string_view piece : kPieces) {
      std::string text(1, form);
      while (text.size() < 100'000) text += piece;
      sluice::fuzz::feed(text);
    }
}

}  // namespace

int main() {
  feed_extremes();
  return sluice::fuzz::run(
      "settings_fuzz_smoke", kCorpus,
      {.fragments = {std::begin(kPieces), std::end(kPieces)}, .edits = 6, .kept = 1});
}
