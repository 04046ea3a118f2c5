#include "broker/store/connection.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/state_file.h"

namespace sluice::broker {

void make_private(const std::string& path) {
  const StateFile file(path, O_RDWR | O_CREAT);
  ::fchmod(file.fd(), 0600);
}

void prepare(Database& db, Durability durability) {
  // The file is ours alone, so nobody has it locked for long; and the broker waits meanwhile.
  constexpr int kPatience_ms = 50;
  sqlite3_busy_timeout(db.get(), kPatience_ms);
  db.run("PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0");
  db.run(durability == Durability::power ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL");
}

void merge_on_close(Database& db, bool yes) {
  sqlite3_db_config(db.get(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, yes ? 0 : 1, nullptr);
}

}  // namespace sluice::broker
