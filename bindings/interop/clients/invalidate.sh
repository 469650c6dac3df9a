#!/bin/sh
# Invalidates keys or tags of a larder cache on all its nodes: level 1 of docs/wire.md, by redis-cli and POSIX tools.
#
#   invalidate.sh redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE] NAMESPACE key VIEW:KEY…
#   invalidate.sh redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE] NAMESPACE tag TAG…
#
# Exit status 0: Redis has confirmed it. 1: it may have happened or not, call again. 2: a mistake, nothing was sent.
set -u
LC_ALL=C
export LC_ALL

refuse() { printf 'invalidate.sh: %s\n' "$1" >&2; exit 2; }
[ $# -ge 4 ] || refuse 'usage: invalidate.sh URL NAMESPACE key|tag WHAT…'
url=$1 namespace=$2 what=$3
shift 3
case $url in redis://*) ;; *) refuse 'the address must be redis://HOST:PORT/DATABASE' ;; esac
case ${url#redis://} in */?*) database=${url##*/} ;; *) database=0 ;; esac
case $database in *[!0-9]* | 0?*) refuse 'the number of the database is wrong' ;; esac
case $namespace in '' | *:*) refuse 'a namespace is not empty and has no ":"' ;; esac
case $0 in */*) script=${0%/*}/advance.lua ;; *) script=advance.lua ;; esac
[ -r "$script" ] || refuse "there is no $script"
case $what in
key) prefix=$namespace: kind=01 confirmed='n n ' ;;
tag) prefix=! kind=02 confirmed='n n n ' ;;
*) refuse 'give key or tag' ;;
esac

redis() { redis-cli --no-auth-warning -u "$url"; }
# Bytes of the input, or of a file, as redis-cli reads them between quotes: \x61\x62.
escaped() { od -An -v -tx1 "$@" | tr -cs 0-9a-f '\n' | sed -n 's/^./\\x&/p' | tr -d '\n'; }
names='' fields=''
for each; do
    size=$(printf %s "$prefix$each" | wc -c)
    case $what:$each in
    key::*) refuse 'a key is VIEW:KEY, and no view has an empty name' ;;
    key:*:*) ;;
    key:*) refuse "a key is VIEW:KEY, unlike $each" ;;
    tag:*) printf %s "$each" | iconv -f UTF-8 -t UTF-8 >/dev/null 2>&1 && [ "$size" -le 256 ] ||
        refuse "a tag is UTF-8 and has at most 255 bytes, unlike $each" ;;
    esac
    name=$(printf %s "$prefix$each" | escaped)
    names="$names \"$name\""
    # A field of an announcement: its length in four bytes, little-endian, and its bytes.
    fields=$fields$(printf '\\x%02x' $((size & 255)) $((size >> 8 & 255)) $((size >> 16 & 255)) $((size >> 24)))$name
done

# A cluster has a channel for each primary. redis-cli goes on in database 0 if there is no such database.
server=$(printf 'HELLO\nSELECT %s\n' "$database" | redis)
case $(printf %s "$server" | tr '\n' ' ') in
*' mode cluster '* | *' mode sentinel '*) refuse 'a cluster or a sentinel is not supported' ;;
*' OK') ;;
*) printf 'invalidate.sh: nothing was sent: %s\n' "$(printf %s "$server" | tail -n 1)" >&2; exit 1 ;;
esac
channel="\"$(printf %s "$namespace::news:$database" | escaped)\""
message="\\x01\\x$kind$(escaped -N16 /dev/urandom)$fields"
replies=$(
    if [ "$what" = key ]; then
        printf 'UNLINK%s\nPUBLISH %s "%s"\n' "$names" "$channel" "$message"
    else
        ledger=$(printf %s "$namespace::ledger" | escaped)
        printf 'EVAL "%s" 1 "%s" 0 "" ' "$(escaped "$script")" "$ledger"
        printf '%s "%s\\xff\\xff\\xff\\xff"%s\n' "$channel" "$message" "$names"
    fi | redis
)
# Each command has replied with a number, or the script with three: anything else is an error.
[ "$(printf '%s\n' "$replies" | sed 's/^[0-9][0-9]*$/n/' | tr '\n' ' ')" = "$confirmed" ] && exit 0
printf 'invalidate.sh: not confirmed, call again: %s\n' "$replies" >&2
exit 1
