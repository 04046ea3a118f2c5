// How the store's connections to its database are set up.
#pragma once

#include <string>

#include "base/sqlite/sqlite.h"
#include "broker/store/store.h"

namespace sluice::broker {

// The file has the holders' secrets: for our eyes only, and so SQLite's beside it. Makes it where
// it is missing. Throws unavailable.
void make_private(const std::string& path);

void prepare(Database& db, Durability durability);

// Closing the last connection merges the log into the file. Not where the file is refused.
void merge_on_close(Database& db, bool yes);

}  // namespace sluice::broker
