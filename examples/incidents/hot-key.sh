#!/usr/bin/env bash
# Everybody reads the same page, and the same key of the cache server.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
needs curl python3 redis-cli redis-benchmark

# crowd COUNT URL: so many requests at the same time, and how many got which status.
crowd() {
    local number
    for ((number = 0; number < $1; number++)); do
        printf 'url = "%s"\noutput = "/dev/null"\n' "$2"
    done >"$folder/urls"
    curl --parallel --parallel-immediate --parallel-max "$1" --write-out '%{http_code}\n' --config "$folder/urls" \
        2>/dev/null | sort | uniq -c
}

say "A service whose page takes half a second and is fresh for two, behind a proxy; and a cache server beside it."
start_origin 0 --body "news" --cache-control "max-age=2" --delay 0.5
start up "$program" up --origin "$origin" --resp 127.0.0.1:0 --http 127.0.0.1:0 --admin 127.0.0.1:0 --data "$folder/data"
server=$(line up "  cache server   redis://")
proxy=$(line up "  proxy          ")
LARDER_ADMIN=$(line up "  dashboard      ")
export LARDER_ADMIN

say "Fifty clients want the page that nobody has yet. The service gets one request."
show crowd 50 "$proxy/hot"
expect "50 200"
show curl "$origin/count"
[[ $seen == 1 ]] || fail "the service has got $seen requests"

say "Three hundred more get it from memory. Then it expires, and fifty come at the same time: one more request."
for _ in 1 2 3 4 5 6; do crowd 50 "$proxy/hot" >/dev/null; done
await "the page has expired" lacks "answered from the cache" larder explain "$proxy/hot" --part responses
before=$(curl "$origin/count")
show crowd 50 "$proxy/hot"
expect "50 200"
show curl "$origin/count"
[[ $seen == $((before + 1)) ]] || fail "the service has got $seen requests, and $before before"

say "A key of the cache server is read again and again."
show redis-cli -u "redis://$server" SET hot value
expect "OK"
redis-benchmark -p "${server##*:}" -t set -n 1000 -r 100 -q >/dev/null
redis-benchmark -p "${server##*:}" -n 40000 -c 20 -P 8 -q GET hot >/dev/null

say "What the operator sees: the names, and how often they were used."
show larder stats
expect "top keys of server: hot " "/hot "

say "All who came after the page had expired waited for the service. It now allows the stale page meanwhile."
stop origin
start_origin "${origin##*:}" --body "news" --cache-control "max-age=1, stale-while-revalidate=60" --delay 0.5
await "the page has expired" lacks "answered from the cache" larder explain "$proxy/hot" --part responses
show get "$proxy/hot"
expect "200"
await "the page is stale" sees "detail=stale" get "$proxy/hot"
show get "$proxy/hot"
expect "200" "larder; hit"
say "as told"
