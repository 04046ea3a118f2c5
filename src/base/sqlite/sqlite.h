// SQLite's handles as objects, its return codes as Errors: exhausted (disk full),
// internal (the file is damaged or no database), unavailable (anything else).
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace sluice {

// The message has SQLite's text alone: clients may see it. The statement is for the log.
class DatabaseError : public Error {
 public:
  DatabaseError(Code code, const std::string& message, std::string_view sql)
      : Error(code, message), sql_(sql) {}
  const std::string& sql() const noexcept { return sql_; }

 private:
  std::string sql_;
};
// what(), and of a DatabaseError the statement.
std::string with_sql(const Error& error);

class Database {
 public:
  // `path` may be ":memory:". Throws, also where the file or one of SQLite's beside it is no
  // state file of ours (base/state_file.h).
  //
  // The connections of one process share the file, and other processes are kept out: SQLite then
  // has the index of the log in memory. In a file (-shm), which is mapped, that index would end the
  // process by SIGBUS when somebody truncates it.
  Database(const std::string& path, bool read_only);

  // One or more statements without results.
  void run(const std::string& sql);
  std::int64_t number(const std::string& sql);  // first column of the first row, 0 without one
  std::string text(const std::string& sql);

  sqlite3* get() const noexcept { return handle_.get(); }
  [[noreturn]] void fail(int code, std::string_view what) const;
  [[noreturn]] void fail_in(int code, std::string_view sql) const;

 private:
  struct Close {
    void operator()(sqlite3* db) const noexcept { sqlite3_close(db); }
  };
  std::unique_ptr<sqlite3, Close> handle_;
};

// A prepared statement. Bind in order, then step(); a new bind after the last
// step starts over.
class Statement {
 public:
  Statement(Database& db, std::string_view sql);

  Statement& bind(std::int64_t value);
  Statement& bind(std::string_view value);
  Statement& bind_kept(std::string_view value);  // not copied: it must be there until step()
  Statement& bind_blob(std::string_view bytes);

  bool step();  // false when there is no further row; then it may be bound again
  std::int64_t number(int column) const;
  std::string text(int column) const;
  std::string_view view(int column) const;  // of text or a blob; valid until the next step
  bool is_number(int column) const;         // before a function above has converted it
  bool is_text(int column) const;
  std::span<const unsigned char> blob(int column) const;  // valid until the next step

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* s) const noexcept { sqlite3_finalize(s); }
  };
  Database& db_;
  std::unique_ptr<sqlite3_stmt, Finalize> handle_;
  int bound_ = 0;
};

// All or nothing: rolled back unless commit() was reached.
class Transaction {
 public:
  explicit Transaction(Database& db, const char* begin = "BEGIN IMMEDIATE");
  ~Transaction();
  void commit();

 private:
  Database& db_;
  bool open_ = true;
};

}  // namespace sluice
