#include "base/sqlite/sqlite.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/state_file.h"

namespace sluice {

namespace {

constexpr const char* kOneProcess = "unix-excl";  // SQLite's name of that file layer

Code code_of(int sqlite_code) {
  switch (sqlite_code & 0xff) {
    case SQLITE_FULL: return Code::exhausted;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB: return Code::internal;
    default: return Code::unavailable;
  }
}

// SQLite refuses a link anywhere in the path; the folder may be reached through one.
std::string in_real_folder(const std::string& path) {
  const std::filesystem::path file(path);
  std::error_code failed;
  const auto folder =
      std::filesystem::canonical(file.has_parent_path() ? file.parent_path() : ".", failed);
  return failed ? path : (folder / file.filename()).string();
}

// A process that may read a database may lock it. A failure to change the mode is ignored.
void close_to_others(const std::string& path) {
  struct stat facts {};
  if (::lstat(path.c_str(), &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_uid == ::geteuid() &&
      (facts.st_mode & 0077) != 0)
    (void)::chmod(path.c_str(), facts.st_mode & 0700);
}

}  // namespace

std::string with_sql(const Error& error) {
  const auto* failed = dynamic_cast<const DatabaseError*>(&error);
  return failed == nullptr ? error.what() : error.what() + (" (" + failed->sql() + ")");
}

Database::Database(const std::string& path, bool read_only) {
  const bool on_disk = path != ":memory:";
  if (on_disk)
    for (const char* suffix : {"", "-wal", "-journal"}) {
      check_state_file(path + suffix);
      if (!read_only) close_to_others(path + suffix);
    }
  const int flags = SQLITE_OPEN_NOMUTEX | (on_disk ? SQLITE_OPEN_NOFOLLOW : 0) |
                    (read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  sqlite3* raw = nullptr;
  const int code = sqlite3_open_v2(on_disk ? in_real_folder(path).c_str() : path.c_str(), &raw,
                                   flags, on_disk ? kOneProcess : nullptr);
  handle_.reset(raw);
  if (code != SQLITE_OK) fail(code, "cannot open");
  sqlite3_extended_result_codes(raw, 1);
  sqlite3_busy_timeout(raw, 2000);
}

void Database::fail(int code, std::string_view what) const {
  const char* detail = handle_ ? sqlite3_errmsg(handle_.get()) : sqlite3_errstr(code);
  throw Error(code_of(code), std::string(what) + ": " + detail);
}

void Database::fail_in(int code, std::string_view sql) const {
  throw DatabaseError(code_of(code), sqlite3_errmsg(get()), sql.substr(0, sql.find_first_of("(;")));
}

void Database::run(const std::string& sql) {
  const int code = sqlite3_exec(get(), sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) fail_in(code, sql);
}

std::int64_t Database::number(const std::string& sql) {
  Statement s(*this, sql);
  return s.step() ? s.number(0) : 0;
}

std::string Database::text(const std::string& sql) {
  Statement s(*this, sql);
  return s.step() ? s.text(0) : "";
}

Statement::Statement(Database& db, std::string_view sql) : db_(db) {
  sqlite3_stmt* raw = nullptr;
  const int code =
      sqlite3_prepare_v2(db.get(), sql.data(), static_cast<int>(sql.size()), &raw, nullptr);
  handle_.reset(raw);
  if (code != SQLITE_OK) db.fail_in(code, sql);
}

Statement& Statement::bind(std::int64_t value) {
  sqlite3_bind_int64(handle_.get(), ++bound_, value);
  return *this;
}

Statement& Statement::bind(std::string_view value) {
  sqlite3_bind_text(handle_.get(), ++bound_, value.data(), static_cast<int>(value.size()),
                    SQLITE_TRANSIENT);
  return *this;
}

Statement& Statement::bind_kept(std::string_view value) {
  sqlite3_bind_text(handle_.get(), ++bound_, value.data(), static_cast<int>(value.size()),
                    SQLITE_STATIC);
  return *this;
}

Statement& Statement::bind_blob(std::string_view bytes) {
  sqlite3_bind_blob(handle_.get(), ++bound_, bytes.data(), static_cast<int>(bytes.size()),
                    SQLITE_TRANSIENT);
  return *this;
}

bool Statement::step() {
  const int code = sqlite3_step(handle_.get());
  if (code == SQLITE_ROW) return true;
  sqlite3_reset(handle_.get());  // it may be bound and tried again
  bound_ = 0;
  if (code != SQLITE_DONE) db_.fail_in(code, sqlite3_sql(handle_.get()));
  return false;
}

std::int64_t Statement::number(int column) const {
  return sqlite3_column_int64(handle_.get(), column);
}

std::string Statement::text(int column) const { return std::string(view(column)); }

std::string_view Statement::view(int column) const {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(handle_.get(), column));
  if (text == nullptr) return "";
  return {text, static_cast<std::size_t>(sqlite3_column_bytes(handle_.get(), column))};
}

bool Statement::is_number(int column) const {
  return sqlite3_column_type(handle_.get(), column) == SQLITE_INTEGER;
}

bool Statement::is_text(int column) const {
  return sqlite3_column_type(handle_.get(), column) == SQLITE_TEXT;
}

std::span<const unsigned char> Statement::blob(int column) const {
  const auto* bytes = static_cast<const unsigned char*>(sqlite3_column_blob(handle_.get(), column));
  return {bytes, static_cast<std::size_t>(sqlite3_column_bytes(handle_.get(), column))};
}

Transaction::Transaction(Database& db, const char* begin) : db_(db) { db_.run(begin); }

Transaction::~Transaction() {
  if (open_ && sqlite3_get_autocommit(db_.get()) == 0)
    sqlite3_exec(db_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
}

void Transaction::commit() {
  db_.run("COMMIT");
  open_ = false;
}

}  // namespace sluice
