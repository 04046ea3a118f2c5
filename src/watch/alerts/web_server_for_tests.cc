#include "watch/alerts/web_server_for_tests.h"

#include <arpa/inet.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <stdexcept>

namespace sluice::watch {

namespace {

struct Plain {
  int fd;
  long get(char* data, std::size_t n) { return ::recv(fd, data, n, 0); }
  void put(const std::string& text) { (void)::send(fd, text.data(), text.size(), MSG_NOSIGNAL); }
};

struct Secure {
  SSL* ssl;
  long get(char* data, std::size_t n) { return SSL_read(ssl, data, static_cast<int>(n)); }
  void put(const std::string& text) { SSL_write(ssl, text.data(), static_cast<int>(text.size())); }
};

void add_extension(X509* cert, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, cert, cert, nullptr, nullptr, 0);
  X509_EXTENSION* e = X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str());
  X509_add_ext(cert, e, -1);
  X509_EXTENSION_free(e);
}

// A self-signed certificate, valid for an hour, that is its own authority.
SSL_CTX* make_tls(const std::string& name, const std::string& file) {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* cert = X509_new();
  X509_set_version(cert, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
  X509_gmtime_adj(X509_getm_notBefore(cert), -60);
  X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
  X509_set_pubkey(cert, key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("test"), -1, -1, 0);
  X509_set_issuer_name(cert, X509_get_subject_name(cert));
  add_extension(cert, NID_basic_constraints, "critical,CA:TRUE");
  add_extension(cert, NID_subject_alt_name, name);
  X509_sign(cert, key, EVP_sha256());
  if (std::FILE* out = std::fopen(file.c_str(), "w")) {
    PEM_write_X509(out, cert);
    std::fclose(out);
  }
  SSL_CTX* tls = SSL_CTX_new(TLS_server_method());
  SSL_CTX_use_certificate(tls, cert);
  SSL_CTX_use_PrivateKey(tls, key);
  X509_free(cert);
  EVP_PKEY_free(key);
  return tls;
}

}  // namespace

WebServer::WebServer(std::vector<int> statuses, const std::string& name,
                     const std::string& certificate_file)
    : statuses_(std::move(statuses)) {
  if (!name.empty()) tls_ = make_tls(name, certificate_file);
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(listener_, 16) != 0 ||
      ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      ::pipe(wake_) != 0)
    throw std::runtime_error("no test server");
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { loop(); });
}

WebServer::~WebServer() {
  (void)!::write(wake_[1], "x", 1);
  thread_.join();
  for (const int fd : {listener_, wake_[0], wake_[1]}) ::close(fd);
  SSL_CTX_free(tls_);
}

void WebServer::loop() {
  for (;;) {
    pollfd waiting[] = {{listener_, POLLIN, 0}, {wake_[0], POLLIN, 0}};
    ::poll(waiting, 2, -1);
    if (waiting[1].revents != 0) return;
    const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client >= 0) serve(client);
  }
}

void WebServer::serve(int client) {
  const timeval limit{5, 0};
  ::setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  if (tls_ == nullptr) {
    Plain plain{client};
    converse(plain);
  } else {
    Secure secure{SSL_new(tls_)};
    SSL_set_fd(secure.ssl, client);
    if (SSL_accept(secure.ssl) == 1) converse(secure);
    SSL_free(secure.ssl);
  }
  ::close(client);
}

template <class Channel>
void WebServer::converse(Channel& channel) {
  std::string text;
  std::size_t end = std::string::npos, length = 0;
  char block[4096];
  while (end == std::string::npos || text.size() < end + 4 + length) {
    const long n = channel.get(block, sizeof block);
    if (n <= 0) return;
    text.append(block, static_cast<std::size_t>(n));
    end = text.find("\r\n\r\n");
    const auto at = text.find("Content-Length: ");
    if (end != std::string::npos && at < end) length = std::stoul(text.substr(at + 16));
  }
  {
    const Lock lock(mutex_);
    headers_.push_back(text.substr(0, end));
    bodies_.push_back(text.substr(end + 4));
  }
  const int status = next_status();
  if (status == -1) (void)channel.get(block, sizeof block);  // until the client gives up
  if (status > 0)
    channel.put("HTTP/1.1 " + std::to_string(status) +
                " X\r\nRetry-After: 0\r\nContent-Length: 2\r\n\r\nok");
}

int WebServer::next_status() {
  const Lock lock(mutex_);
  const int status = statuses_.front();
  if (statuses_.size() > 1) statuses_.erase(statuses_.begin());
  return status;
}

std::vector<std::string> WebServer::bodies() const {
  const Lock lock(mutex_);
  return bodies_;
}

std::vector<std::string> WebServer::headers() const {
  const Lock lock(mutex_);
  return headers_;
}

}  // namespace sluice::watch
