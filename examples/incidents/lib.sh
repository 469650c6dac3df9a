# What the scripts of this folder share: they start and end processes, wait for conditions, print commands with what these
# print, and check that. docs/incidents.md tells the stories. Each script sources this file, which runs nothing by itself.
set -euo pipefail

incidents=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
program=${LARDER:-$incidents/../../target/release/larder}
# Options of the caller are not for what is started here.
for name in ${!LARDER_@}; do unset "$name"; done
folder=$(mktemp -d)
# The ids of the processes that were started and not ended, by their names.
declare -A running=()

end_all() {
    local status=$? name
    trap - EXIT
    for name in "${!running[@]}"; do stop "$name" KILL 2>/dev/null || true; done
    rm -rf "$folder"
    exit "$status"
}
trap end_all EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# On stderr, which is seen also where the output is read.
fail() {
    local log
    {
        printf '\nnot as told: %s\n' "$*"
        for log in "$folder"/*.err; do
            [[ ! -s $log ]] || { printf '\n%s:\n' "${log##*/}" && cat "$log"; }
        done
    } >&2
    exit 1
}

# needs PROGRAM…: ends the script with the status 77 if one is not installed, which means that it was skipped.
needs() {
    local name
    for name; do
        type -P "$name" >/dev/null || { echo "$name is not installed" && exit 77; }
    done
    [[ -x $program ]] || fail "there is no $program: build it, or name another one in LARDER"
}

# start NAME COMMAND…: starts a process. Its output is in the files NAME.out and NAME.err.
start() {
    local name=$1
    shift
    : >"$folder/$name.out"
    "$@" </dev/null >"$folder/$name.out" 2>"$folder/$name.err" &
    running[$name]=$!
}

# stop NAME [SIGNAL]: ends a process, and waits until it has ended.
stop() {
    local id=${running[$1]}
    unset "running[$1]"
    kill "-${2:-TERM}" "$id"
    { wait "$id" || true; } 2>/dev/null
}

# await WHAT COMMAND…: repeats a command until it succeeds, for ten seconds at most.
await() {
    local what=$1 deadline=$((SECONDS + 10))
    shift
    until "$@" >/dev/null 2>&1; do
        ((SECONDS < deadline)) || fail "waited in vain until $what"
        sleep 0.05
    done
}

# line NAME START: what follows START in the first line of a process that begins with it, without a slash at the end.
line() {
    await "$1 prints \"$2\"" has_line "$@"
    find_line "$@"
}

has_line() { [[ -n $(find_line "$@") ]]; }

find_line() {
    awk -v start="$2" 'index($0, start) == 1 { rest = substr($0, length(start) + 1); sub("/$", "", rest); print rest; exit }' \
        "$folder/$1.out"
}

say() { printf '\n%s\n' "$*"; }

# show COMMAND…: prints a command and its output. $seen is the output then, and $status the exit status.
show() {
    printf '  $ %s\n' "$*"
    status=0
    seen=$("$@" 2>&1) || status=$?
    [[ -z $seen ]] || printf '    %s\n' "${seen//$'\n'/$'\n    '}"
}

# expect TEXT…: checks that the output of the last command has each text.
expect() {
    local text
    for text; do
        [[ $seen == *"$text"* ]] || fail "the output has no \"$text\""
    done
}

# sees TEXT COMMAND…: whether the output of a command has a text.
sees() {
    local text=$1
    shift
    [[ $("$@" 2>&1) == *"$text"* ]]
}

lacks() { ! sees "$@"; }

larder() { "$program" "$@"; }

# The proxies of the environment are not for addresses of this machine.
curl() { command curl --silent --show-error --noproxy '*' --max-time 5 "$@"; }

# get URL [FLAGS…]: of a response the status, what the caches say of it, where it redirects to, and the first line of its body.
get() {
    curl --dump-header "$folder/head" --output "$folder/body" "$@"
    tr -d '\r' <"$folder/head" | grep -iE '^(HTTP/|cache-status:|proxy-status:|location:)'
    [[ ! -s $folder/body ]] || head -n 1 "$folder/body"
    rm -f "$folder/body"
}

# ready: what the admin port says to a load balancer.
ready() { curl "$LARDER_ADMIN/readyz"; }

# metrics NAMES: the values of the metrics of these names, an extended regular expression.
metrics() { curl "$LARDER_ADMIN/metrics" | grep -E "^($1)[{ ]"; }

# log NAME: what a process has logged.
log() { cat "$folder/$1.err"; }

# redis COMMAND…: asks the Redis of start_redis.
redis() { redis-cli -s "$folder/redis.sock" "$@"; }

# start_redis: an empty Redis on a socket of its own, whose URL is $redis_url.
start_redis() {
    start redis redis-server --port 0 --unixsocket "$folder/redis.sock" --dir "$folder" --save '' --appendonly no
    redis_url="redis+unix://$folder/redis.sock"
    await "Redis answers" sees PONG redis PING
}

# start_origin PORT FLAGS…: a web service, whose URL is $origin. The port 0 is any free one.
start_origin() {
    start origin python3 "$incidents/origin.py" "$@"
    origin=$(line origin "listens on ")
}

# all_is_well: shows that the parts are ready and that the doctor finds nothing, and checks it.
all_is_well() {
    show ready
    [[ $seen == ready ]] || fail "it is not ready"
    show larder doctor --seconds 1
    [[ $status == 0 ]] || fail "the status is $status"
    expect "nothing is wrong"
}
