"""Other users of this machine. To become one takes root; encodings.idna is read here because they
may not."""
import encodings.idna, json, os, unittest  # noqa: F401

OWNER, STRANGER = 41001, 41002
ADMIN_KEY = "an-admin-key-of-32-characters-01"
WITH_KEY = {"SLUICE_SERVE_API_KEY": "an-api-key-of-32-characters-0001"}
SILENCE = {"rule": "*", "device": "*", "for_s": 365 * 86400}
needs_root = unittest.skipUnless(os.geteuid() == 0, "becoming another user takes root")


def as_user(uid, act):
    """What `act()` returns, in a process of that user; it must fit JSON."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            os.write(theirs, json.dumps(act()).encode())
        finally:
            os._exit(0)
    os.close(theirs)
    with os.fdopen(ours) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    assert text, "the other user's process failed"
    return json.loads(text)


def over_tcp(server, method, path, body=None, key=None):
    """(status, answer)"""
    headers = {"X-API-Key": key} if key else {}
    status, _, text = server.ask(path, method, body, headers)
    return status, json.loads(text)


def audited(server):
    with open(os.path.join(server.announced["state_dir"], "audit.log")) as f:
        return [json.loads(line) for line in f]


def open_socket(server):
    """Lets every user connect, as an administrator may choose to."""
    os.chmod(server.announced["state_dir"], 0o755)
    os.chmod(server.socket_path, 0o666)
