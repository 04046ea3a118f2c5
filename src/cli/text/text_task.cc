#include "cli/text/text_task.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <ostream>

#include "base/clock.h"
#include "base/error.h"
#include "base/printable.h"
#include "cli/common/checks.h"
#include "cli/common/open_gpu.h"
#include "cli/common/progress.h"
#include "cli/text/text_lines.h"
#include "engine/exec/cuda/bucket_program.h"
#include "engine/io/model_stamp.h"

namespace sluice::cli {
namespace {

namespace fs = std::filesystem;

std::string stamp_of(const std::string& path) {
  struct stat file {};
  stat(path.c_str(), &file);
  return fmt::format("{}:{}:{}.{:09}", file.st_ino, file.st_size, file.st_mtim.tv_sec,
                     file.st_mtim.tv_nsec);
}

// 0 of what is no file.
std::uint64_t size_of(const std::string& path) {
  struct stat file {};
  return stat(path.c_str(), &file) == 0 && S_ISREG(file.st_mode)
             ? static_cast<std::uint64_t>(file.st_size)
             : 0;
}

// What a model's answers depend on: every file of its folder.
std::string stamp_of_model(const fs::path& folder) {
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file())
      files.push_back(entry.path().string() + " " + stamp_of(entry.path().string()));
  std::ranges::sort(files);
  return engine::model_version(folder) + fmt::format(" {}", fmt::join(files, " "));
}

// Throws invalid_argument for an output that is the input, or of a kind that is not written.
void check_output(const std::string& out, const std::string& input, bool npy) {
  if (out == "-") return;
  std::error_code error;
  for (const char* end : {"", ".partial", ".progress"})
    require(!fs::equivalent(out + end, input, error),
            out + end + " is the input: give another --out");
  require(!fs::is_directory(out, error), out + " is a folder: give a file");
  if (fs::exists(out, error) && !fs::is_regular_file(out, error)) {
    require(!out.ends_with(".npy"), out + " is no regular file, which .npy needs");
    return;
  }
  const std::string end = fs::path(out).extension().string();
  require(end == ".jsonl" || end == ".ndjson" || end == ".json" || (npy && end == ".npy"),
          out + ": what is written is " + (npy ? ".npy, or " : "") + "JSON a line: .jsonl");
}

// What a link leads to, also where that is not there yet: the link stays one.
fs::path target_of(fs::path path) {
  std::error_code error;
  for (int links = 0; links < 8 && fs::is_symlink(path, error); ++links)
    path = path.parent_path() / fs::read_symlink(path, error);
  return path;
}

// Ctrl-C ends a run in good order; the second time at once.
std::atomic<bool> interrupted = false;

class Interrupts {
 public:
  Interrupts() {
    interrupted = false;
    struct sigaction action {};
    action.sa_handler = [](int) { interrupted = true; };
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    sigaction(SIGINT, &action, &int_);
    sigaction(SIGTERM, &action, &term_);
  }
  ~Interrupts() {
    sigaction(SIGINT, &int_, nullptr);
    sigaction(SIGTERM, &term_, nullptr);
  }
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

 private:
  struct sigaction int_ {
  }, term_{};
};

}  // namespace

class TextTask::Run {
 public:
  Run(TextTask& task, Io& io)
      : task_(task),
        flags_(task.flags_),
        io_(io),
        lines_(flags_.input, io.in),
        format_(flags_.format.empty()       ? format_of_texts(flags_.input)
                : flags_.format == "ndjson" ? TextFormat::ndjson
                                            : TextFormat::lines),
        input_bytes_(size_of(flags_.input)),
        progress_(io.err) {}

  int run() {
    check_output(flags_.out, flags_.input, task_.writes_npy());
    output_ = open_output();
    resume();
    const Interrupts handled;
    start_ = saved_ = Steady::now();
    std::string_view line;
    while (!interrupted && lines_.next(line)) {
      batch_.push_back(text_item(line, lines_, format_, flags_.pair, flags_.field));
      batch_bytes_ += batch_.back().text.size() + batch_.back().pair.value_or("").size();
      if (batch_.size() >= batch_texts_ || batch_bytes_ >= kBatchBytes || lines_.would_wait())
        run_batch();
    }
    if (interrupted) return stop();
    run_batch();
    output_->finish();
    report();
    return failed_ > 0 ? 1 : 0;
  }

 private:
  // A batch takes about a second: what an end without notice loses, and how often the bar
  // moves.
  static constexpr std::size_t kMinTexts = 16, kMaxTexts = 4096, kBatchBytes = std::size_t{4} << 20;
  static constexpr double kBatch_s = 1, kSaveEach_s = 1;
  static constexpr int kInterrupted = 130;

  // What is done is kept.
  int stop() {
    const bool goes_on = flags_.out != "-" && input_bytes_ > 0;
    if (goes_on) save();
    io_.err << fmt::format("sluice: stopped after {} texts{}\n", texts_,
                           goes_on ? "; the same command goes on from there" : "");
    return kInterrupted;
  }

  // What must be equal for a run to go on with what another wrote. A pipe cannot be read again.
  Json key() const {
    if (input_bytes_ == 0 || flags_.fresh) return Steady::now().time_since_epoch().count();
    Json key{{"input", flags_.input},
             {"input_file", stamp_of(flags_.input)},
             {"format", flags_.format},
             {"pair", flags_.pair},
             {"field", flags_.field},
             {"model", flags_.model},
             {"model_files", stamp_of_model(flags_.model)},
             {"max_length", task_.longest()},
             {"options", task_.options()}};
    const TextDeviceFlags& on = flags_.on;
    if (on.on_gpu()) key["device"] = {on.device, on.precision, on.max_loss.value_or(0)};
    return key;
  }

  std::unique_ptr<TextOutput> open_output() const {
    if (flags_.out == "-") return output_to(io_.out);
    std::error_code error;
    if (fs::exists(flags_.out, error) && !fs::is_regular_file(flags_.out, error))
      return output_to_special(flags_.out);
    return task_.open_file(target_of(flags_.out).string(), key());
  }

  // A state that is not ours throws: --fresh begins anew.
  void resume() {
    const Json& state = output_->state();
    if (state.is_null()) return;
    try {
      texts_ = resumed_ = state.at("texts").get<std::size_t>();
      failed_ = state.at("failed").get<std::size_t>();
      truncated_ = state.at("truncated").get<std::size_t>();
      lines_.go_to(state.at("offset").get<std::uint64_t>(), state.at("line").get<std::size_t>());
    } catch (const Json::exception&) {
      throw Error(Code::invalid_argument,
                  flags_.out + ".progress is damaged: remove it, or give --fresh");
    }
    io_.err << fmt::format("sluice: going on after {} texts of an earlier run\n", texts_);
  }

  void save() {
    output_->save({{"texts", texts_},
                   {"failed", failed_},
                   {"truncated", truncated_},
                   {"line", lines_.number()},
                   {"offset", lines_.offset()}});
    saved_ = Steady::now();
  }

  // The task gets the lines that hold texts.
  void run_batch() {
    std::vector<Item> items;
    std::vector<std::size_t> where;
    for (std::size_t i = 0; i < batch_.size(); ++i) {
      if (!batch_[i].error.empty()) continue;
      const std::optional<std::string>& pair = batch_[i].pair;
      items.push_back(
          {batch_[i].line,
           {batch_[i].text, pair ? std::optional<std::string_view>(*pair) : std::nullopt}});
      where.push_back(i);
    }
    const Instant begin = Steady::now();
    Batch made = task_.run(items);
    const double took = seconds_between(begin, Steady::now());
    if (took < kBatch_s / 2) batch_texts_ = std::min(kMaxTexts, 2 * batch_texts_);
    if (took > 2 * kBatch_s) batch_texts_ = std::max(kMinTexts, batch_texts_ / 2);
    for (const models::TextError& error : made.errors) {
      TextItem& item = batch_[where[error.text]];
      item.error = fmt::format("{}:{}: {}", lines_.name(), item.line, error.reason);
    }
    std::size_t next = 0;
    for (const TextItem& item : batch_) {
      const bool asked = next < where.size() && &item == &batch_[where[next]];
      const std::string* const answer = asked ? &made.answers[next++] : nullptr;
      write(item, answer);
    }
    texts_ += batch_.size();
    truncated_ += made.truncated;
    batch_.clear();
    batch_bytes_ = 0;
    show();
    if (flags_.out == "-" || seconds_between(saved_, Steady::now()) > kSaveEach_s) save();
  }

  void write(const TextItem& item, const std::string* answer) {
    if (item.error.empty()) return output_->add(*answer);
    ++failed_;
    io_.err << "sluice: " << printable(item.error) << "\n";
    output_->add(task_.error_answer(item.line, item.error));
  }

  double rate() const {
    return static_cast<double>(texts_ - resumed_) / seconds_between(start_, Steady::now());
  }

  void show() {
    const double share = input_bytes_ == 0 ? 0
                                           : static_cast<double>(lines_.offset()) /
                                                 static_cast<double>(input_bytes_);
    progress_.show(share, fmt::format("{} texts, {:.0f} a second", texts_, rate()));
  }

  void report() {
    const double seconds = seconds_between(start_, Steady::now());
    if (flags_.json) {
      const Json summary{{"texts", texts_},
                         {"failed", failed_},
                         {"truncated", truncated_},
                         {"max_length", task_.longest()},
                         {"seconds", seconds},
                         {"texts_per_second", rate()},
                         {"device", flags_.on.device},
                         {"out", flags_.out},
                         {"options", task_.options()}};
      (flags_.out == "-" ? io_.err : io_.out) << summary.dump(2) << "\n";
      return;
    }
    if (flags_.out != "-")
      io_.err << fmt::format("{} texts in {:.2f} s ({:.1f} a second): {}\n", texts_, seconds,
                             rate(), flags_.out);
    if (truncated_ > 0)
      io_.err << fmt::format("sluice: {} of {} texts were cut to {} tokens (--max-length)\n",
                             truncated_, texts_, task_.longest());
    if (failed_ > 0) io_.err << fmt::format("sluice: {} of {} texts failed\n", failed_, texts_);
  }

  TextTask& task_;
  const TextTaskFlags& flags_;
  Io& io_;
  LineReader lines_;
  const TextFormat format_;
  const std::uint64_t input_bytes_;  // 0: not a file
  Progress progress_;
  std::unique_ptr<TextOutput> output_;
  std::vector<TextItem> batch_;
  std::size_t batch_bytes_ = 0, batch_texts_ = 2 * kMinTexts;
  std::size_t texts_ = 0, failed_ = 0, truncated_ = 0, resumed_ = 0;
  Instant start_{}, saved_{};
};

int TextTask::run_all(Io& io) { return Run(*this, io).run(); }

std::string TextTask::json_line(std::size_t line, const Json& answer) {
  Json all{{"line", line}};
  all.update(answer);
  return all.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string TextTask::error_answer(std::size_t line, const std::string& error) const {
  return json_line(line, {{"error", error}});
}

void add_text_device_flags(CLI::App& app, TextDeviceFlags& flags) {
  app.add_option("--device", flags.device, "cpu or cuda")->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--precision", flags.precision,
                 "on a GPU fp32, fp16 or bf16; auto: fp16 where it loses little (default)")
      ->check(CLI::IsMember({"fp32", "fp16", "bf16", "auto"}));
  app.add_option("--max-loss", flags.max_loss,
                 "the most that fp16 and bf16 may differ from fp32, of the largest output: 0.01, "
                 "for bf16 0.08, otherwise")
      ->check(CLI::PositiveNumber);
}

models::Placement placement_of(const TextDeviceFlags& flags, compute::Workers& workers) {
  if (!flags.on_gpu()) {
    if (flags.precision != "auto" && flags.precision != "fp32")
      throw Error(Code::unavailable,
                  "the CPU computes encoders in fp32: " + flags.precision + " needs --device cuda");
    return {};
  }
  engine::cuda::Options options;
  options.library_dirs = flags.library_dirs;
  return models::placement_on(open_gpu(engine::encoder_context_options(std::move(options))),
                              flags.precision, flags.max_loss, workers);
}

void add_text_task_flags(CLI::App& app, TextTaskFlags& flags, std::string out_help) {
  app.add_option("--model,-m", flags.model,
                 "a folder with a model and its tokenizer, or a kept model's name")
      ->type_name("MODEL")
      ->required()
      ->check(not_empty("a model folder"));
  app.add_option("--in,-i", flags.input, "texts, one a line; .ndjson: objects with text; -: stdin")
      ->type_name("FILE")
      ->required()
      ->check(not_empty("a file, or - for stdin"));
  app.add_option("--out,-o", flags.out, std::move(out_help))
      ->type_name("FILE")
      ->check(not_empty("a file, or - for stdout"));
  app.add_option("--format", flags.format, "of the input, whatever its name")
      ->check(CLI::IsMember({"lines", "ndjson"}));
  app.add_option("--field", flags.field, "of .ndjson, that holds the text (text)")
      ->check(not_empty("a field's name"));
  app.add_option("--max-length", flags.max_length, "cut texts to so many tokens")
      ->check(CLI::Range(2, 1 << 20));
  app.add_flag("--fresh", flags.fresh, "begin anew, whatever an earlier run wrote");
  app.add_option("--threads", flags.threads, "CPU threads; 0: all this process may use")
      ->check(CLI::Range(0, 1024));
  app.add_flag("--json", flags.json, "print the summary as JSON");
  add_text_device_flags(app, flags.on);
}

}  // namespace sluice::cli
