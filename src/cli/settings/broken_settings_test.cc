// Configurations that must not load: each message names the file, the line and the
// cause.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "cli/settings/settings_for_tests.h"

namespace sluice::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Broken {
  const char* what;  // names the case
  const char* file;  // its name decides the language
  std::string text;
  int line;           // 0: the file as a whole
  std::string cause;  // part of the message
};

const Broken kBroken[] = {
    // The file itself
    {"UnclosedTable", "a.toml", "[serve\nport = 1\n", 1, ""},
    {"MissingValue", "a.toml", "[serve]\nport =\n", 2, ""},
    {"UnclosedText", "a.toml", "[serve]\nhost = \"a\nport = 1\n", 2, ""},
    {"KeyTwiceToml", "a.toml", "[serve]\nport = 1\nport = 2\n", 3, "port"},
    {"TableTwiceToml", "a.toml", "[serve]\nport = 1\n[gpu]\n[serve]\nhost = 'a'\n", 4, "serve"},
    {"KeyTwiceJson", "a.json", "{\"serve\": {\n\"port\": 1,\n\"port\": 2}}", 3,
     "port: given twice; first on line 2"},
    {"SectionTwiceJson", "a.json", "{\"gpu\": {},\n\"gpu\": {}}", 2,
     "gpu: given twice; first on line 1"},
    {"TrailingGarbageJson", "a.json", "{}\n\nx", 3, "unexpected 'x' after the end of the document"},
    {"TrailingCommaJson", "a.json", "{\"serve\": {\"port\": 1,\n}}", 2, "a comma before '}'"},
    {"CommentJson", "a.json", "{\n// port\n\"serve\": {}}", 2,
     "expected a name in quotes, found '/'"},
    {"MissingColonJson", "a.json", "{\n\"serve\" {}}", 2, "expected ':' after a name"},
    {"UnclosedTextJson", "a.json", "{\"serve\":\n {\"host\": \"abc\n}}", 2,
     "has no end on its line"},
    {"UnclosedObjectJson", "a.json", "{\"serve\": {\n\"port\": 1\n", 3,
     "expected ',' or '}', found end of file"},
    {"NanJson", "a.json", "{\"watch\":\n{\"interval_s\": NaN}}", 2, "expected a value, found 'N'"},
    {"EmptyJson", "a.json", "", 1, "is empty"},
    {"ListAtTheTopJson", "a.json", "[1]", 1, "holds a list at the top"},
    {"HugeNumberJson", "a.json", "{\"watch\":\n{\"interval_s\": 1e999}}", 2,
     "a number is out of range"},
    {"HugeIntegerToml", "a.toml", "[serve]\nport = 99999999999999999999\n", 2, ""},
    {"InvalidUtf8", "a.toml", "[serve]\nhost = \"\xFF\"\n", 2, "byte 0xff is not valid UTF-8"},
    {"Utf16", "a.toml", std::string("\xFF\xFE[\0", 4), 1, "is UTF-16"},
    {"ZeroByte", "a.toml", std::string("[serve]\nhost = '\0'\n", 19), 2, "contains a zero byte"},
    {"DeepJson", "a.json", "{\"gpu\":\n" + std::string(5000, '['), 2,
     "nested deeper than 32 levels"},
    {"DeepToml", "a.toml",
     "\na" +
         [] {
           std::string s;
           for (int i = 0; i < 99; ++i) s += ".a";
           return s;
         }() +
         " = 1",
     2, "nested deeper than 32 levels"},
    {"TooLarge", "a.toml", std::string(kMaxDocumentBytes + 1, '#'), 0, "larger than the limit"},
    {"Yaml", "a.yaml", "serve:\n  port: 1\n", 0, "is YAML by its name"},
    // Names
    {"UnknownSection", "a.toml", "\n[sevre]\nport = 1\n", 2,
     "sevre: no such setting or section; did you mean 'serve'?"},
    {"UnknownSetting", "a.toml", "[serve]\nprot = 1\n", 2,
     "serve.prot: no such setting in [serve]; did you mean 'port'?"},
    {"UnknownSettingJson", "a.json", "{\"gpu\": {\n\"enabeld\": true}}", 2,
     "gpu.enabeld: no such setting in [gpu]; did you mean 'enabled'?"},
    {"UnknownAtTheTop", "a.toml", "log_levle = 'info'\n", 1,
     "log_levle: no such setting or section; did you mean 'log_level'?"},
    {"InTheWrongSection", "a.toml", "[gpu]\nport = 1\n", 2,
     "gpu.port: no such setting in [gpu]; 'port' is a setting of [serve]"},
    {"OutsideItsSection", "a.toml", "port = 1\n", 1,
     "port: no such setting or section; 'port' is a setting of [serve]"},
    {"TopSettingInASection", "a.toml", "[serve]\nstate_dir = '/x'\n", 2,
     "'state_dir' stands at the top"},
    {"NothingNear", "a.toml", "[zzzzzzzz]\n", 1, "zzzzzzzz: no such setting or section"},
    {"UpperCase", "a.json", "{\"GPU\": {}}", 1, "GPU: no such setting or section"},
    // Types
    {"SectionAsNumber", "a.toml", "serve = 3\n", 1,
     "serve: must be a table of settings, not an integer"},
    {"SectionAsList", "a.toml", "[[serve]]\nport = 1\n", 1,
     "serve: must be a table of settings, not a list"},
    {"TextForNumber", "a.toml", "[serve]\nport = \"8000\"\n", 2,
     "serve.port: must be an integer, not text '8000'"},
    {"NumberForText", "a.toml", "[serve]\nhost = 1\n", 2, "serve.host: must be text, not 1"},
    {"NumberForBoolean", "a.toml", "[gpu]\nenabled = 1\n", 2,
     "gpu.enabled: must be true or false, not 1"},
    {"TextForBoolean", "a.json", "{\"gpu\": {\n\"enabled\": \"true\"}}", 2,
     "gpu.enabled: must be true or false, not text 'true'"},
    {"FractionForInteger", "a.toml", "[serve]\nport = 80.5\n", 2,
     "serve.port: must be an integer, not 80.5"},
    {"NullJson", "a.json", "{\"serve\": {\n\"port\": null}}", 2,
     "serve.port: must be an integer, not null"},
    {"Date", "a.toml", "[serve]\nport = 2024-01-01\n", 2,
     "serve.port: must be an integer, not a date"},
    {"NumberForList", "a.toml", "[gpu]\ndevices = 0\n", 2, "gpu.devices: must be a list, not 0"},
    {"ListForTable", "a.toml", "[gpu]\nbatch_sizes = [1]\n", 2,
     "gpu.batch_sizes: must be a table of names and values"},
    {"TextInATable", "a.json", "{\"gpu\": {\"batch_sizes\": {\n\n\"scout\": \"64\"}}}", 3,
     "gpu.batch_sizes.scout: must be an integer, not text '64'"},
    {"NestedList", "a.toml", "[gpu]\ndevices = [[0]]\n", 2,
     "gpu.devices: element 1: must be an integer or text, not a list"},
    {"TableForAlerts", "a.toml", "[alerts]\nname = 'x'\n", 1,
     "alerts: must be a list of tables, [[alerts]]"},
    {"TableForAutoscaling", "a.toml", "[autoscaling]\ntarget = 80\n", 1,
     "autoscaling: must be a list of tables, [[autoscaling]]"},
    // Ranges
    {"PortTooLarge", "a.toml", "[serve]\n\nport = 65536\n", 3,
     "serve.port: 65536 is too large; allowed is 0..65535"},
    {"PortNegative", "a.json", "{\"serve\":\n{\n\"port\": -1}}", 3, "serve.port: -1 is too small"},
    {"NanToml", "a.toml", "[watch]\ninterval_s = nan\n", 2,
     "watch.interval_s: nan is not a finite number"},
    {"InfinityToml", "a.toml", "[gpu]\nmemory_fraction = inf\n", 2,
     "gpu.memory_fraction: inf is not a finite number"},
    {"FractionAboveOne", "a.toml", "[gpu]\nmemory_fraction = 1.5\n", 2,
     "gpu.memory_fraction: 1.5 is too large; allowed is 0.01..1"},
    {"NoMemory", "a.toml", "[gpu.memory_allocation]\nscout = 0\n", 2,
     "gpu.memory_allocation.scout: 0 is too small"},
    {"BatchOfZero", "a.json", "{\"gpu\": {\"batch_sizes\":\n{\"scout\": 0}}}", 2,
     "gpu.batch_sizes.scout: 0 is too small; allowed is 1..65536"},
    {"UnknownPrecision", "a.toml", "[gpu]\nprecision = 'fp61'\n", 2,
     "gpu.precision: 'fp61' is not one of auto|mixed|"},
    {"PrecisionInCapitals", "a.toml", "[gpu]\nprecision = 'FP16'\n", 2, "did you mean 'fp16'?"},
    {"UnknownLogLevel", "a.toml", "log_level = 'warning'\n", 1,
     "log_level: 'warning' is not one of debug|info|warn|error"},
    {"UnknownCard", "a.toml", "[gpu]\ngpu_type = 'A100-81'\n", 2,
     "gpu.gpu_type: 'A100-81' is no card of the catalogue; did you mean 'a100-80'?"},
    {"BadDevice", "a.toml", "[gpu]\ndevices = ['first']\n", 2,
     "gpu.devices: element 1: 'first' is neither an index, a UUID"},
    {"NegativeDevice", "a.json", "{\"gpu\": {\"devices\":\n [0, -1]}}", 1,
     "element 2: -1 is no device"},
    {"DeviceTwice", "a.toml", "[gpu]\ndevices = [0, 0]\n", 2, "gpu: devices names 0 twice"},
    {"AllAndMore", "a.toml", "[gpu]\ndevices = ['all', 0]\n", 2, "devices has 'all' beside others"},
    {"BadName", "a.toml", "[gpu.batch_sizes]\n'a b' = 1\n", 2, "'a b' is not a name"},
    {"MaskedSecret", "a.toml", "[serve]\napi_key = '***'\n", 2,
     "serve.api_key: is the mask that stands for a secret"},
    {"EmptyHost", "a.toml", "[serve]\nhost = ''\n", 2, "serve.host: is empty; give an address"},
    {"HostWithPort", "a.toml", "[serve]\nhost = '127.0.0.1:80'\n", 2,
     "serve.host: '127.0.0.1:80' has a port in it"},
    {"HostAsUrl", "a.toml", "[serve]\nhost = 'http://a'\n", 2,
     "serve.host: 'http://a' is no address and no host name"},
    {"BlankKey", "a.toml", "[serve]\napi_key = '  '\n", 2, "serve.api_key: is blank"},
    {"ShortKey", "a.json", "{\"serve\": {\n\"api_key\": \"fifteen-letters\"}}", 2,
     "serve.api_key: has 15 characters and can be guessed; give at least 16"},
    {"ShortAdminKey", "a.toml", "[serve]\nadmin_key = 'abcd'\n", 2,
     "serve.admin_key: has 4 characters and can be guessed; give at least 16"},
    {"KeyWithASpaceBehind", "a.toml", "[serve]\napi_key = 'correct '\n", 2,
     "serve.api_key: begins or ends with a space"},
    {"KeyWithAControlCharacter", "a.toml", "[serve]\napi_key = \"cor\\trect\"\n", 2,
     "serve.api_key: has a control character in it"},
    {"AdminKeyIsApiKey", "a.toml",
     "[serve]\napi_key = 'sixteen-letters!'\nadmin_key = 'sixteen-letters!'\n", 3,
     "serve: admin_key is the same as api_key"},
    {"TinyMemoryBudget", "a.toml", "[serve]\nmemory_budget = 1000\n", 2,
     "serve: memory_budget is 1000 bytes"},
    {"SocketModeInWords", "a.toml", "[serve]\nsocket_mode = 'all'\n", 2,
     "serve.socket_mode: 'all' is no octal file mode"},
    {"SocketModeWithoutOwner", "a.toml", "[serve]\nsocket_mode = '0066'\n", 2,
     "keeps the server's own user out"},
    {"EmptyAllowedHost", "a.toml", "[serve]\nallowed_hosts = ['a', '']\n", 2,
     "serve.allowed_hosts: element 2: is empty"},
    {"AllowedHostAsUrl", "a.toml", "[serve]\nallowed_hosts = ['http://a']\n", 2,
     "serve.allowed_hosts: element 1: 'http://a' is a web address"},
    {"AllowedHostWildcard", "a.toml", "[serve]\nallowed_hosts = ['*.a']\n", 2, "has a wildcard"},
    {"AllowedHostPort", "a.toml", "[serve]\nallowed_hosts = ['a:99999']\n", 2,
     "'a:99999' is no host name, alone or with a port from 1 to 65535"},
    {"AllowedHostWithASpace", "a.toml", "[serve]\nallowed_hosts = ['a b']\n", 2,
     "'a b' is no host name"},
    {"WebhookWithoutScheme", "a.toml", "[watch]\nwebhook = 'example.com/x'\n", 2,
     "watch.webhook: not a usable web address: it must begin with http"},
    // Repeated tables
    {"BadDuration", "a.toml", "[[autoscaling]]\nscale_up_cooldown = \"5 minutes\"\n", 2,
     "autoscaling[0].scale_up_cooldown: must be a duration"},
    {"LongDuration", "a.toml", "[[autoscaling]]\nscale_up_cooldown = \"2d\"\n", 2,
     "'2d' is too large; allowed is 0s..1d"},
    {"UnknownMetric", "a.toml", "[[autoscaling]]\n[[autoscaling]]\nmetric = 'gpu_utilisation'\n", 3,
     "autoscaling[1].metric: 'gpu_utilisation' is not one of"},
    {"MinAboveMax", "a.toml", "\n[[autoscaling]]\nmin_instances = 3\nmax_instances = 2\n", 2,
     "min_instances (3) is above max_instances (2)"},
    {"UnknownInAutoscaling", "a.toml", "[[autoscaling]]\ntraget = 1\n", 2,
     "autoscaling[0].traget: no such setting in [autoscaling]; did you mean 'target'?"},
    {"NumberInAutoscaling", "a.json", "{\"autoscaling\": [\n1]}", 2,
     "autoscaling: must hold tables, not an integer"},
    {"AlertWithUnknownField", "a.toml", "[[alerts]]\nname = 'gpu-temperature'\ntreshold = 5\n", 3,
     "did you mean 'threshold'?"},
    {"AlertThresholdAsText", "a.toml", "[[alerts]]\nname = 'gpu-temperature'\nthreshold = 'hot'\n",
     3, "must be a number"},
    {"AlertThresholdNan", "a.toml", "[[alerts]]\nname = 'gpu-temperature'\nthreshold = nan\n", 3,
     "alerts[0].threshold: is not a finite number"},
    {"AlertUnknownMetric", "a.toml",
     "[[alerts]]\nname = 'x'\nmetric = 'temprature'\ncondition = 'above'\nthreshold = 5\n", 3,
     "temprature"},
    {"AlertWithoutName", "a.json",
     "{\"alerts\": [\n{\"metric\": \"temperature\", \"condition\": \"above\", \"threshold\": 5}]}",
     2, "alerts[0].name: name is missing"},
};

struct BrokenFile : SettingsTest {};

TEST_F(BrokenFile, IsRefusedWithFileLineAndCause) {
  EXPECT_GE(std::size(kBroken), 30u);
  for (const auto& broken : kBroken) {
    SCOPED_TRACE(broken.what);
    const auto file = write(broken.file, broken.text);
    const auto where =
        broken.line > 0 ? file + ":" + std::to_string(broken.line) + ": " : file + ": ";
    SettingsOptions options;
    options.config_file = file;
    try {
      load_settings(options, {});
      ADD_FAILURE() << "loaded";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::invalid_argument);
      EXPECT_THAT(e.what(), HasSubstr("1 problem in the configuration:\n  " + where));
      EXPECT_THAT(e.what(), HasSubstr(broken.cause));
    }
    std::filesystem::remove(file);
  }
}

TEST_F(BrokenFile, AnInvalidNumberHidesNoOtherProblem) {
  try {
    load_file("a.toml",
              "[[alerts]]\nname = 'gpu-temperature'\nthreshold = nan\nfor_s = inf\ncolour = 'red'\n"
              "[[alerts]]\nname = 'x'\nmetric = 'temprature'\ncondition = 'above'\n"
              "threshold = -inf\n");
    ADD_FAILURE() << "loaded";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("5 problems"));
    EXPECT_THAT(e.what(), HasSubstr(":3: alerts[0].threshold: is not a finite number"));
    EXPECT_THAT(e.what(), HasSubstr(":4: alerts[0].for_s: is not a finite number"));
    EXPECT_THAT(e.what(), HasSubstr(":5: alerts[0].colour: "));
    EXPECT_THAT(e.what(), HasSubstr(":8: alerts[1].metric: "));
    EXPECT_THAT(e.what(), HasSubstr(":10: alerts[1].threshold: is not a finite number"));
  }
}

TEST_F(BrokenFile, AMissingFileIsReported) {
  SettingsOptions options;
  for (const auto& [file, cause] : {std::pair{path("none.toml"), "none.toml: no such file"},
                                    std::pair{folder.string(), ": is a folder"}}) {
    options.config_file = file;
    try {
      load_settings(options, {});
      ADD_FAILURE() << "loaded";
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), HasSubstr(cause));
    }
  }
}

struct BrokenVariable {
  const char* variable;
  const char* text;
  const char* cause;
};

TEST(BrokenEnvironment, IsRefusedWithVariableAndCause) {
  for (const auto& [variable, text, cause] : {
           BrokenVariable{"GPU_ENABLED", "maybe", "gpu.enabled: must be true or false"},
           BrokenVariable{"GPU_ENABLED", "",
                          "gpu.enabled: is empty; unset it or give true or false"},
           BrokenVariable{"CUDA_VISIBLE_DEVICES", "0,-1,1",
                          "gpu.devices: element 2: -1 is no device"},
           BrokenVariable{"CUDA_VISIBLE_DEVICES", "all", "CUDA takes 'all' for no device"},
           BrokenVariable{"CUDA_VISIBLE_DEVICES", "0;1", "'0;1' is neither an index"},
           BrokenVariable{"CUDA_VISIBLE_DEVICES", "0,0", "devices names 0 twice"},
           BrokenVariable{"GPU_MEMORY_FRACTION", "80", "80 is too large; allowed is 0.01..1"},
           BrokenVariable{"GPU_MEMORY_FRACTION", "80%", "must be a number, not text '80%'"},
           BrokenVariable{"GPU_MEMORY_FRACTION", "nan", "nan is not a finite number"},
           BrokenVariable{"GPU_BATCH_SIZE_SCOUT", "0", "gpu.batch_sizes.scout: 0 is too small"},
           BrokenVariable{"GPU_BATCH_SIZE_SCOUT", "16x", "must be an integer, not text '16x'"},
           BrokenVariable{"GPU_BATCH_SIZE_SCOUT", "1e1",
                          "must be an integer in plain digits, not text '1e1'"},
           BrokenVariable{"SLUICE_SERVE_PORT", "8000.0",
                          "serve.port: must be an integer in plain digits"},
           BrokenVariable{"GPU_BATCH_SIZE_", "16", "a name is missing"},
           BrokenVariable{"NVIDIA_VISIBLE_DEVICES", "some", "'some' is not all, none, void"},
           BrokenVariable{"NVIDIA_DRIVER_CAPABILITIES", "compute,utilty",
                          "did you mean 'utility'?"},
           BrokenVariable{"CUDA_LAUNCH_BLOCKING", "2",
                          "gpu.launch_blocking: must be true or false"},
           BrokenVariable{"SLUICE_SERVE_API_KEY", "", "serve.api_key: is empty; unset it"},
           BrokenVariable{"SLUICE_SERVE_HOST", "", "serve.host: is empty"},
           BrokenVariable{"SLUICE_SERVE_PROT", "1", "did you mean 'SLUICE_SERVE_PORT'?"},
           BrokenVariable{"SLUICE_GPU_BATCH_SIZES", "scout", "'scout' is not name=value"},
           BrokenVariable{"SLUICE_GPU_BATCH_SIZES", "a=1,a=2", "'a' is given twice"},
       }) {
    try {
      load_settings({}, {{variable, text}});
      ADD_FAILURE() << variable << "=" << text << " loaded";
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), HasSubstr(std::string("env ") + variable + ": "));
      EXPECT_THAT(e.what(), HasSubstr(cause));
    }
  }
}

TEST(BrokenEnvironment, NeverShowsASecret) {
  for (const auto& environment :
       {Environment{{"SLUICE_SERVE_API_KYE", "hush"}},
        Environment{{"SLUICE_SERVE_API_KEY", "hush"}, {"SLUICE_X", "hush"}}})
    try {
      load_settings({}, environment);
      ADD_FAILURE() << "loaded";
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), Not(HasSubstr("hush")));
    }
}

}  // namespace
}  // namespace sluice::cli
