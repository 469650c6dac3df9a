#!/usr/bin/env bash
# The Redis of two nodes is killed, and comes back empty. Meanwhile one of them changes a value.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
needs curl redis-server redis-cli

start_node() {
    start "$1" "$program" links --listen 127.0.0.1:0 --admin 127.0.0.1:0 --database "sqlite:$folder/links.db" --redis "$redis_url"
}

# change METHOD URL JSON: a request of the API.
change() { curl -X "$1" "$2" -H 'content-type: application/json' --data "$3" -o /dev/null -w '%{http_code}\n'; }

say "Two shorteners share a database and a Redis. Both have a link in memory."
start_redis
start_node one
one=$(line one "larder links listens on ")
admin_one=$(line one "the dashboard is on ")
start_node two
two=$(line two "larder links listens on ")
admin_two=$(line two "the dashboard is on ")
export LARDER_ADMIN=$admin_one
show change POST "$one/api/links" '{"slug": "offer", "url": "https://example.com/old"}'
expect "201"
for node in "$one" "$two"; do
    show get "$node/offer"
    expect "302" "https://example.com/old"
done
for admin in "$admin_one" "$admin_two"; do
    await "both are coherent" sees "coherence of links: full" larder stats --admin "$admin"
done

say "Redis is killed. Redirects work, and a load balancer goes on sending requests."
stop redis KILL
await "the loss is noticed" sees "degraded by redis" ready
show get "$two/offer"
expect "302" "https://example.com/old"
show ready
expect "ready" "links degraded by redis" "memory is served for"

say "The first node changes the link. It serves the new address at once; the other one cannot know, and serves the old one."
show change PATCH "$one/api/links/offer" '{"url": "https://example.com/new"}'
expect "200"
show get "$one/offer"
expect "302" "https://example.com/new"
show get "$two/offer"
expect "302" "https://example.com/old"

say "What the operator sees."
show metrics 'larder_coherent|larder_pending_invalidations'
expect 'larder_coherent{part="links"} 0' 'larder_pending_invalidations{part="links"} 1'
show larder doctor --seconds 0
[[ $status == 1 ]] || fail "the status is $status"
expect "critical  links" "Redis does not answer" "1 invalidation of this node waits for it"
show log one
expect "WARN" "other processes may serve the old targets until it is back"

say "Redis is started again, and is empty. The first node repeats its invalidation, and the other one hears of it."
start_redis
await "the other node serves the new address" sees "https://example.com/new" get "$two/offer"
show get "$two/offer"
expect "302" "https://example.com/new"
await "nothing waits any more" sees 'larder_pending_invalidations{part="links"} 0' metrics larder_pending_invalidations
all_is_well
say "as told"
