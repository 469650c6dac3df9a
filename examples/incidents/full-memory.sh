#!/usr/bin/env bash
# The memory of the cache server is full: once where keys may be evicted, and once where they may not.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
needs curl redis-cli redis-benchmark

ask() { redis-cli -p "$port" "$@"; }

# store_100_kb KEY: stores a value of 100,000 bytes.
store_100_kb() { head -c 100000 /dev/zero | tr '\0' x | redis-cli -p "$port" -x SET "$1"; }

# usage: the memory, the keys, and how many were evicted.
usage() { ask INFO | tr -d '\r' | grep -E '^(used_memory|maxmemory|evicted_keys|db0):'; }

# use_twelve_thousand_keys: clients that read one of so many keys, and store 450 bytes under it if they find nothing.
use_twelve_thousand_keys() {
    redis-benchmark -p "$port" -n 100000 -r 12000 -c 20 -P 50 -q \
        EVAL "if not redis.call('GET', KEYS[1]) then redis.call('SET', KEYS[1], ARGV[1]) end" \
        1 key:__rand_int__ "$(printf '%0450d' 0)" >/dev/null
}

say "A cache server with four megabytes, whose clients use twelve thousand keys with 450 bytes: more than it can have."
start server "$program" server --listen 127.0.0.1:0 --admin 127.0.0.1:0 --max-memory 4mb
port=$(line server "larder server listens on 127.0.0.1:")
LARDER_ADMIN=$(line server "the dashboard is on ")
export LARDER_ADMIN
use_twelve_thousand_keys
show usage

say "By default it evicts keys, and clients notice nothing but misses. The doctor does."
show larder stats
expect "misses of server, memory: " "evicted"
show larder doctor --seconds 0
[[ $status == 1 ]] || fail "the status is $status"
expect "warning   server, memory" "of the lookups miss what was evicted" "raise its memory"

say "Where nothing may be evicted, writes that need memory are errors. Reads and deletions work."
show ask CONFIG SET maxmemory-policy noeviction
show store_100_kb big
expect "OOM command not allowed"
show ask EXISTS big
show ask UNLINK big
show metrics larder_out_of_memory_errors_total
expect 'larder_out_of_memory_errors_total{part="server"} 1'
show larder doctor --seconds 0
expect "critical  server" "the memory limit is reached and nothing may be evicted"

say "More memory, and a policy that finds keys: it is over at once, without a restart."
show ask CONFIG SET maxmemory 64mb maxmemory-policy allkeys-lfu
expect "OK"
show store_100_kb big
expect "OK"
use_twelve_thousand_keys
show larder doctor --seconds 1
[[ $status == 0 ]] || fail "the status is $status"
expect "nothing is wrong"
show usage
say "as told"
