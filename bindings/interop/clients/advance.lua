local ledger = KEYS[1]
local known = tonumber(ARGV[1])
local clock, last = unpack(redis.call('ZMSCORE', ledger, 'clock', 'server'))
local former = tonumber(clock)
if clock and not (former and former >= 1 and former < 9007199254740992) then
  redis.call('UNLINK', ledger)
  former = nil
end
local other = former and former < known and ARGV[2] ~= ''
local info = redis.pcall('INFO', 'replication')
local id = type(info) == 'string' and string.match(info, 'master_replid:(%x+)')
local server = id and tonumber(string.sub(id, 1, 11), 16) or 1
local least = math.max(former or 0, known)
if not former or other or tonumber(last) ~= server then
  local time = redis.call('TIME')
  least = math.max(time[1] * 1000000 + time[2], least + 1000000 + time[2])
end
clock = string.format('%.0f', least + 1)
redis.call('ZADD', ledger, clock, 'clock', string.format('%.0f', server), 'server')
if not former or other then
  redis.call('ZADD', ledger, 'GT', clock, 'floor')
end
if other then
  redis.call('PUBLISH', ARGV[3], ARGV[2] .. clock)
end
for i = 5, #ARGV do
  redis.call('ZADD', ledger, 'GT', clock, ARGV[i])
  if ARGV[i] == 'expire' or string.sub(ARGV[i], 1, 1) == '~' then
    local time = redis.call('TIME')
    redis.call('ZADD', ledger, time[1] * 1000 + math.floor(time[2] / 1000), '@' .. ARGV[i])
  end
end
redis.call('PUBLISH', ARGV[3], ARGV[4] .. clock)
return {clock, redis.call('ZCARD', ledger), other and 1 or 0}
