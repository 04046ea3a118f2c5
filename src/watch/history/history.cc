#include "watch/history/history.h"

#include <fmt/core.h>

#include <condition_variable>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/nearest.h"
#include "watch/history/history_disk.h"
#include "watch/history/history_pending.h"
#include "watch/history/history_query.h"
#include "watch/history/history_store.h"

namespace sluice::watch {

namespace {

constexpr double kExpireEvery_s = 60;
constexpr std::uint64_t kMemoryBytes = std::uint64_t{1} << 30;

std::int64_t unix_seconds(WallTime t) {
  return std::chrono::floor<std::chrono::seconds>(t.time_since_epoch()).count();
}

Instant later(Instant t, double seconds) {
  return t + std::chrono::duration_cast<Instant::duration>(Seconds(seconds));
}

device::Metric metric_named(const std::string& name) {
  if (const auto found = device::find_metric(name)) return *found;
  std::vector<std::string_view> known;
  for (const auto& m : device::metrics()) known.push_back(m.name);
  throw Error(Code::invalid_argument, "no metric '" + name + "'" + did_you_mean(name, known));
}

}  // namespace

// Values pass through three stages: `pending` collects them, `writing` is the batch that is being
// written, and the stores keep them. Batch numbers tell a query which batches a store already has,
// so that it counts each value once.
struct History::Impl {
  explicit Impl(HistoryOptions o);

  void loop(std::stop_token stop);
  std::shared_ptr<const Batch> next_batch(std::stop_token stop);
  void store(const Batch& batch);
  bool store_on_disk(const Batch& batch);
  void write_disk(const Batch& batch);
  void forget_old(bool on_disk);
  void store_in_memory(const Batch& batch);
  void open_disk();
  void check_disk();
  void replace_disk(const std::string& damage);
  void expire();
  void set_trouble(const std::string& why);
  std::vector<Row> rows(std::string_view device, const QueryPlan& plan);

  const HistoryOptions options;

  // Held for microseconds: the caller of add() waits for nothing else.
  mutable Mutex mutex;
  std::condition_variable_any changed;
  Pending pending GUARDED_BY(mutex);
  std::map<std::string, std::string> keeping GUARDED_BY(mutex);
  std::shared_ptr<const Batch> writing GUARDED_BY(mutex);  // shared with queries
  std::int64_t number GUARDED_BY(mutex) = 1;               // of the batch pending becomes
  std::uint64_t requested GUARDED_BY(mutex) = 0, flushed GUARDED_BY(mutex) = 0;
  HistoryStats stats GUARDED_BY(mutex);
  std::optional<WallTime> added_at GUARDED_BY(mutex);  // the clock that ages what is kept

  // Queries and the writer in turn; the writer takes it for the disk only to open
  // or replace it, so that queries do not wait for a slow write.
  mutable Mutex stores;
  HistoryStore memory GUARDED_BY(stores);
  bool memory_used GUARDED_BY(stores) = false;
  std::unique_ptr<HistoryDisk> disk;  // changed by the writer only, under `stores`

  // The writer thread's own.
  bool in_trouble = false;
  Instant retry_at{}, expire_at{};
  std::jthread thread;  // last: it uses everything above
};

History::Impl::Impl(HistoryOptions o)
    : options(std::move(o)),
      pending(options.pending_rows),
      memory(HistoryStore::writer(":memory:", kMemoryBytes)) {
  stats.where = options.path.empty() ? "memory" : options.path;
  if (!options.path.empty()) open_disk();
  thread = std::jthread([this](std::stop_token stop) { loop(stop); });
}

// ---- the writer

void History::Impl::loop(std::stop_token stop) {
  check_disk();
  for (bool last = false; !last;) {
    const auto batch = next_batch(stop);
    last = stop.stop_requested();
    store(*batch);
    if (Steady::now() >= expire_at || last) expire();
    const Lock lock(mutex);
    writing.reset();
    flushed = static_cast<std::uint64_t>(batch->number);
    ++stats.flushes;
    changed.notify_all();
  }
}

// Waits until a flush is due or requested, or until the end.
std::shared_ptr<const Batch> History::Impl::next_batch(std::stop_token stop) {
  const Lock lock(mutex);
  changed.wait_for(mutex, stop, Seconds(options.flush_s),
                   [this]() REQUIRES(mutex) { return requested > flushed; });
  writing = std::make_shared<const Batch>(Batch{number++, pending.take(), std::move(keeping)});
  keeping.clear();
  return writing;
}

void History::Impl::store(const Batch& batch) {
  if (!options.path.empty() && store_on_disk(batch)) return;
  try {
    store_in_memory(batch);
  } catch (const Error& e) {
    log::error("history: lost {} rows: {}", batch.rows.size(), e.what());
    const Lock lock(mutex);
    for (const auto& row : batch.rows) stats.dropped += row.entries.size();
  }
}

bool History::Impl::store_on_disk(const Batch& batch) {
  if (in_trouble && Steady::now() < retry_at) return false;
  try {
    if (!disk) open_disk();
    if (!disk) return false;
    try {
      write_disk(batch);
    } catch (const Error& e) {
      if (e.code() != Code::exhausted) throw;
      forget_old(true);  // a file as long as it may be takes new rows in place of old ones
      write_disk(batch);
    }
    set_trouble("");
    return true;
  } catch (const Error& e) {
    set_trouble(e.what());
    if (e.code() == Code::internal) replace_disk(e.what());
    return false;
  }
}

// Rows that were kept in memory meanwhile are written too.
void History::Impl::write_disk(const Batch& batch) {
  std::optional<Batch> all;
  {
    const Lock lock(stores);
    if (memory_used) all = memory.everything(batch.number);
  }
  if (!all) return disk->writer.write(batch);
  for (const auto& row : batch.rows) all->rows.push_back(row);
  for (const auto& [key, value] : batch.kept) all->kept[key] = value;
  disk->writer.write(*all);  // without the lock: queries go on
  const Lock lock(stores);
  memory.clear();
  memory_used = false;
}

void History::Impl::store_in_memory(const Batch& batch) {
  const Lock lock(stores);
  memory_used = true;
  memory.write(batch);
}

void History::Impl::open_disk() {
  try {
    auto opened = open_history(options.path, options.max_bytes);
    {
      const Lock lock(mutex);
      number = std::max(number, opened->last_batch + 1);
    }
    const Lock lock(stores);
    disk = std::move(opened);
  } catch (const Error& e) {
    set_trouble(e.what());
  }
}

// A damaged file is found here, in the writer's thread, without a delay for callers.
void History::Impl::check_disk() try {
  const auto damage = disk ? disk->writer.damage() : "";
  if (!damage.empty()) replace_disk(damage);
} catch (const Error& e) {
  replace_disk(e.what());
}

void History::Impl::replace_disk(const std::string& damage) try {
  const Lock lock(stores);
  disk.reset();
  const auto target = move_aside(options.path, "damaged");
  log::warn("history: {} is damaged ({}); it is now {} and a new history begins", options.path,
            damage, target);
  disk = open_history(options.path, options.max_bytes);
  retry_at = Steady::now();
} catch (const Error& e) {
  set_trouble(e.what());
}

void History::Impl::expire() try {
  expire_at = later(Steady::now(), kExpireEvery_s);
  forget_old(disk && !in_trouble);
} catch (const Error& e) {
  set_trouble(e.what());
}

void History::Impl::forget_old(bool on_disk) {
  std::optional<WallTime> newest;
  {
    const Lock lock(mutex);
    newest = added_at;
  }
  if (!newest) return;
  const std::int64_t now = unix_seconds(*newest);
  if (on_disk) disk->writer.expire(now);
  const Lock lock(stores);
  if (memory_used) memory.expire(now);
}

// Logs once when trouble begins, changes or ends.
void History::Impl::set_trouble(const std::string& why) {
  in_trouble = !why.empty();
  retry_at = later(Steady::now(), options.retry_s);
  const Lock lock(mutex);
  if (in_trouble) ++stats.failures;
  if (stats.trouble == why) return;
  if (in_trouble)
    log::warn("history: {} cannot be written ({}); it goes on in memory", options.path, why);
  else
    log::info("history: {} is written again", options.path);
  stats.trouble = why;
}

// ---- reading

// Returns every row of a plan from all stages, each value once.
std::vector<Row> History::Impl::rows(std::string_view device, const QueryPlan& plan) {
  const std::int64_t last = plan.end - 1;
  std::vector<Row> waiting;
  std::shared_ptr<const Batch> on_its_way;
  std::int64_t waiting_number = 0;
  {
    const Lock lock(mutex);
    pending.collect(device, plan.source, plan.from, last, waiting);
    on_its_way = writing;
    waiting_number = number;
  }
  std::vector<Row> all, in_memory;
  const Lock lock(stores);
  const auto of_memory = memory.read(device, plan.source, plan.from, last, in_memory);
  const auto of_disk =
      disk ? disk->reader.read(device, plan.source, plan.from, last, all) : std::int64_t{0};
  // A file that has a later batch has all that is in memory: it was moved just now.
  if (of_memory > of_disk) std::ranges::move(in_memory, std::back_inserter(all));
  const auto stored = std::max(of_memory, of_disk);
  if (on_its_way && on_its_way->number > stored)
    for (const auto& row : on_its_way->rows)
      if (row.device == device && row.resolution == plan.source) all.push_back(row);
  if (waiting_number > stored)
    for (auto& row : waiting) all.push_back(std::move(row));
  return all;
}

History::History(HistoryOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}

History::~History() {
  impl_->thread.request_stop();
  impl_->thread.join();
}

void History::add(std::string_view device, const device::Readings& readings, Instant now,
                  WallTime wall) {
  const Lock lock(impl_->mutex);
  impl_->stats.samples += impl_->pending.add(device, readings, now, wall);
  impl_->added_at = wall;
}

Json History::query(const HistoryQuery& query, WallTime now) const {
  require(query.from_ms >= 0, "history: from must not be before 1970");
  require(query.from_ms <= query.to_ms, "history: from must not be after to");
  require(query.points >= 1 && query.points <= 100000, "history: points must be from 1 to 100000");
  MetricSet selected;
  for (const auto& name : query.metrics) selected.set(static_cast<std::size_t>(metric_named(name)));
  const auto known = devices();
  if (std::ranges::find(known, query.device) == known.end())
    throw Error(Code::not_found, "no history of device '" + query.device + "'");

  const QueryPlan plan =
      plan_query(query.from_ms / 1000, query.to_ms / 1000, query.points, unix_seconds(now));
  const bool all = query.metrics.empty();
  Downsampler downsampler(plan, all ? ~selected : selected);
  for (const auto& row : impl_->rows(query.device, plan)) downsampler.add(row);
  Json metrics = Json::object();
  for (const auto& m : device::metrics())
    if (all ? downsampler.has(m.id) : selected[static_cast<std::size_t>(m.id)])
      metrics[std::string(m.name)] = downsampler.json(m.id);
  return Json{{"device", query.device},
              {"step_s", plan.step_s},
              {"from_ms", query.from_ms},
              {"to_ms", query.to_ms},
              {"metrics", std::move(metrics)}};
}

std::vector<Point> History::series(std::string_view device, device::Metric metric, WallTime now,
                                   double seconds, int points) const {
  const std::int64_t to = unix_seconds(now);
  const std::int64_t from = std::max<std::int64_t>(0, to - static_cast<std::int64_t>(seconds));
  const QueryPlan plan = plan_query(from, to, points, to);
  Downsampler downsampler(plan, MetricSet().set(static_cast<std::size_t>(metric)));
  for (const auto& row : impl_->rows(device, plan)) downsampler.add(row);
  return downsampler.points(metric);
}

std::vector<std::string> History::devices() const {
  std::set<std::string> names;
  {
    const Lock lock(impl_->mutex);
    for (auto& name : impl_->pending.devices()) names.insert(std::move(name));
  }
  const Lock lock(impl_->stores);
  for (auto& name : impl_->memory.devices()) names.insert(std::move(name));
  if (impl_->disk)
    for (auto& name : impl_->disk->reader.devices()) names.insert(std::move(name));
  return {names.begin(), names.end()};
}

void History::keep(const std::string& key, std::string value) {
  const Lock lock(impl_->mutex);
  impl_->keeping[key] = std::move(value);
}

std::optional<std::string> History::kept(const std::string& key) const {
  {
    const Lock lock(impl_->mutex);
    if (const auto it = impl_->keeping.find(key); it != impl_->keeping.end()) return it->second;
    if (impl_->writing)
      if (const auto it = impl_->writing->kept.find(key); it != impl_->writing->kept.end())
        return it->second;
  }
  const Lock lock(impl_->stores);
  if (auto value = impl_->memory.kept(key)) return value;
  return impl_->disk ? impl_->disk->reader.kept(key) : std::nullopt;
}

HistoryStats History::stats() const {
  HistoryStats stats;
  {
    const Lock lock(impl_->mutex);
    stats = impl_->stats;
    stats.dropped += impl_->pending.dropped();
    stats.pending_rows = impl_->pending.rows();
  }
  std::error_code failed;
  const auto bytes = std::filesystem::file_size(impl_->options.path, failed);
  if (!failed) stats.file_bytes = bytes;
  return stats;
}

std::string History::trouble() const {
  const Lock lock(impl_->mutex);
  return impl_->stats.trouble;
}

bool History::flush(double limit_s) {
  const Lock lock(impl_->mutex);
  const auto target = static_cast<std::uint64_t>(impl_->number);
  impl_->requested = std::max(impl_->requested, target);
  impl_->changed.notify_all();
  return impl_->changed.wait_for(impl_->mutex, Seconds(limit_s),
                                 [&]() REQUIRES(impl_->mutex) { return impl_->flushed >= target; });
}

Json to_json(const HistoryStats& s) {
  return Json{{"where", s.where},           {"trouble", s.trouble},
              {"samples", s.samples},       {"dropped", s.dropped},
              {"flushes", s.flushes},       {"failures", s.failures},
              {"file_bytes", s.file_bytes}, {"pending_rows", s.pending_rows}};
}

}  // namespace sluice::watch
