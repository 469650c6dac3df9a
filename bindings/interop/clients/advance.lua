local ledger = KEYS[1]
local clock = redis.call('ZSCORE', ledger, 'clock')
local number = clock and tonumber(clock)
if clock and not (number and number >= 1 and number < 9007199254740992) then
  redis.call('UNLINK', ledger)
  clock = false
end
if not clock then
  local time = redis.call('TIME')
  clock = string.format('%.0f', math.max(time[1] * 1000000 + time[2], ARGV[1] + ARGV[2]))
  redis.call('ZADD', ledger, 'NX', clock, 'clock', clock, 'floor')
end
local other = ARGV[3] ~= '' and tonumber(clock) < tonumber(ARGV[1])
local least = other and ARGV[1] + ARGV[2] or tonumber(ARGV[1])
clock = string.format('%.0f', math.max(tonumber(clock), least) + 1)
redis.call('ZADD', ledger, clock, 'clock')
if other then
  redis.call('ZADD', ledger, 'GT', clock, 'floor')
  redis.call('PUBLISH', ARGV[4], ARGV[3] .. clock)
end
for i = 6, #ARGV do
  redis.call('ZADD', ledger, 'GT', clock, ARGV[i])
  if ARGV[i] == 'expire' or string.sub(ARGV[i], 1, 1) == '~' then
    local time = redis.call('TIME')
    redis.call('ZADD', ledger, time[1] * 1000 + math.floor(time[2] / 1000), '@' .. ARGV[i])
  end
end
redis.call('PUBLISH', ARGV[4], ARGV[5] .. clock)
return {clock, redis.call('ZCARD', ledger), other and 1 or 0}
