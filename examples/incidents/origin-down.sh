#!/usr/bin/env bash
# The service behind a proxy goes away, and comes back.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
needs curl python3

say "A service, and a proxy in front of it. Its pages are fresh for a second."
start_origin 0 --body "the price is 42" --cache-control "max-age=1"
start proxy "$program" proxy --origin "$origin" --listen 127.0.0.1:0 --admin 127.0.0.1:0 --data "$folder/data"
proxy=$(line proxy "larder proxy listens on ")
LARDER_ADMIN=$(line proxy "the dashboard is on ")
export LARDER_ADMIN
show get "$proxy/price"
expect "200" "larder; fwd=uri-miss" "the price is 42"

say "The service is killed. The page expires, and is served all the same."
stop origin KILL
await "the page is served stale" sees "detail=stale" get "$proxy/price"
show get "$proxy/price"
expect "200" "detail=stale" "the price is 42"

say "Pages that are not stored are not there."
show get "$proxy/new"
expect "502" "proxy-status: larder; error=connection_refused"
# Three failures in a row make an origin one that does not answer.
for _ in 1 2; do get "$proxy/new" >/dev/null; done

say "What the operator sees: a load balancer goes on sending requests, and everything else names the service."
show ready
expect "ready" "responses degraded by origin" "stored responses are served"
show metrics 'larder_ready|larder_origins|larder_origins_down|larder_server_error_responses_total'
expect 'larder_origins_down{part="responses"} 1' 'larder_ready 1'
show larder doctor --seconds 0
[[ $status == 1 ]] || fail "the status is $status"
expect "critical  responses" "does not answer" "start the origin again"
show log proxy
expect "WARN the origin does not answer"

say "The service is started again. The proxy tries it again by itself."
start_origin "${origin##*:}" --body "the price is 43" --cache-control "max-age=1"
await "the page is loaded again" sees "the price is 43" get "$proxy/price"
show get "$proxy/new"
expect "200" "the price is 43"
all_is_well
say "as told"
