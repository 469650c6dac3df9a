#!/usr/bin/env bash
# A service deploys a version with a wrong price, which two replicas of the proxy store, and rolls it back.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
needs curl python3 redis-server redis-cli

start_replica() {
    start "$1" "$program" proxy --origin "$origin" --listen 127.0.0.1:0 --admin 127.0.0.1:0 --data "$folder/$1" --redis "$redis_url"
}

# page REPLICA PATH: a page of the shop, from one of the replicas.
page() { get "$1$2" -H "Host: shop.example"; }

# deploy TEXT: the service ends, and starts again at the same address with another text on its pages.
deploy() {
    stop origin
    start_origin "${origin##*:}" --body "$1" --cache-control "max-age=3600" --tag prices
}

say "A service whose pages are fresh for an hour, behind two replicas of a proxy."
start_redis
start_origin 0 --body "the price is 42" --cache-control "max-age=3600" --tag prices
start_replica one
one=$(line one "larder proxy listens on ")
admin_one=$(line one "the dashboard is on ")
start_replica two
two=$(line two "larder proxy listens on ")
export LARDER_ADMIN=$admin_one
show page "$one" /jam
expect "200" "fwd=uri-miss" "the price is 42"
await "the other replica has it" sees "detail=shared" page "$two" /jam

say "A wrong version is deployed. What is stored stays right, and what is not yet becomes wrong, on both."
deploy "the price is 0"
show page "$one" /jam
expect "larder; hit" "the price is 42"
show page "$one" /tea
expect "fwd=uri-miss" "the price is 0"
await "the other replica has it" sees "larder; hit" page "$two" /tea

say "It is rolled back. The wrong page would stay for an hour."
deploy "the price is 42"
show page "$two" /tea
expect "larder; hit" "the price is 0"
show larder explain http://shop.example/tea
expect "answered from the cache" "prices"

say "A purge of its tag on one replica reaches both, once the right version runs."
show larder purge responses --tag prices --data "$folder/one"
expect "purged"
show page "$one" /tea
expect "fwd=uri-miss" "the price is 42"
await "the other replica has heard of it" sees "the price is 42" page "$two" /tea
show page "$two" /tea
expect "the price is 42"
show larder doctor --seconds 0
[[ $status == 0 ]] || fail "the status is $status"
expect "nothing is wrong"
say "as told"
