#!/usr/bin/env bash
# A version of a program finds values in Redis that it cannot read, as another version may leave them. redis-cli takes the place
# of that version.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
needs curl redis-server redis-cli

start_node() {
    start "$1" "$program" links --listen 127.0.0.1:0 --admin 127.0.0.1:0 --database "sqlite:$folder/links.db" --redis "$redis_url"
}

say "A shortener has a link in memory and in Redis."
start_redis
start_node one
one=$(line one "larder links listens on ")
curl -X POST "$one/api/links" -H 'content-type: application/json' --data '{"slug": "offer", "url": "https://example.com/"}' \
    -o /dev/null
show get "$one/offer"
expect "302" "https://example.com/"
LARDER_ADMIN=$(line one "the dashboard is on ")
export LARDER_ADMIN
key=$(larder explain "$one/offer" --part links | sed -n 's/^  redis key *//p')
await "the value is in Redis" sees "Lr" redis GETRANGE "$key" 0 1

say "Another version replaces the value by one of another format, and a node starts that has nothing in memory."
show redis SET "$key" "a value of another version"
start_node two
two=$(line two "larder links listens on ")
LARDER_ADMIN=$(line two "the dashboard is on ")

say "It cannot read the value, and loads it: no error, and nothing wrong."
show get "$two/offer"
expect "302" "https://example.com/"

say "What the operator sees."
show metrics 'larder_tier_lookups_total\{part="links",tier="redis",outcome="unreadable"\}'
show larder doctor --seconds 0
[[ $status == 1 ]] || fail "the status is $status"
expect "warning   links" "found a value that cannot be read, and loaded it again"

say "The value in Redis is one that it can read again."
await "the value is replaced" sees "Lr" redis GETRANGE "$key" 0 1
show larder doctor --seconds 1
[[ $status == 0 ]] || fail "the status is $status"
expect "nothing is wrong"
say "as told"
