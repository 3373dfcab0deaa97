"""A client of a cluster as applications have it: redis-py's RedisCluster. Run by cluster-clients.sh inside a datacenter.

Usage: cluster-client.py HOST:PORT,HOST:PORT,... NAME TAG...

For every line read (a phase): sets and gets a key of its own for each hash tag, with the client that it has had since its start
("kept") and with one that is made for the phase ("fresh"). A line for each: phase, which client, keys that were read as written,
seconds, and each different error with how often. Then "done".
"""

import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from redis.cluster import ClusterNode, RedisCluster

# An application's own choice. Without them it waits for the kernel, minutes, where nothing answers.
LIMITS = {"socket_timeout": 1, "socket_connect_timeout": 1}


def connected(nodes):
    return RedisCluster(startup_nodes=[ClusterNode(*node) for node in nodes], decode_responses=True, **LIMITS)


def one(client, key, value):
    """Errors of one key."""
    errors = []
    try:
        client.set(key, value)
    except Exception as error:  # what the application would see, whatever it is
        errors.append("SET: " + said(error))
    try:
        if client.get(key) != value and not errors:
            errors.append("GET: another value")
    except Exception as error:
        errors.append("GET: " + said(error))
    return errors


def said(error):
    return f"{type(error).__name__}: {error}".splitlines()[0]


def tried(phase, which, client, name, tags):
    began = time.monotonic()
    try:
        client = client()
        # At once, so that what one waits for in vain is not waited for once per key.
        with ThreadPoolExecutor(len(tags)) as threads:
            value = f"{phase} {which}"
            errors = list(threads.map(lambda tag: one(client, f"{{{tag}}}:{name}:{which}", value), tags))
    except Exception as error:
        errors = [["connect: " + said(error)]] * len(tags)
    fine = sum(not each for each in errors)
    counted = Counter(error for each in errors for error in each)
    told = ", ".join(f"{count} x {error}" for error, count in sorted(counted.items()))
    print(phase, which, f"{fine}/{len(tags)}", f"{time.monotonic() - began:.1f}", told, sep="\t", flush=True)


def main():
    nodes = [(host, int(port)) for host, port in (node.split(":") for node in sys.argv[1].split(","))]
    name, tags = sys.argv[2], sys.argv[3:]
    kept = connected(nodes)
    for line in sys.stdin:
        phase = line.strip()
        tried(phase, "kept", lambda: kept, name, tags)
        tried(phase, "fresh", lambda: connected(nodes), name, tags)
        print("done", flush=True)


main()
