-- lib blame: against which jobs a worker's death counts, and how crashes are counted. See
-- docs/decisions/0008-crashes-and-suspects.md.
-- Needs: counted. Defines: blame. Redis: reads.
--@include lazy crash
local blame = setmetatable({ function(my)
  -- Whether a persistent job has run long enough to clear its crashes: it has no end that could clear them.
  function my.is_cleared(config, time, claimed, shape)
    return shape ~= '' and shapes.word(shape, 'k') ~= nil and is_steady(config, time, claimed, '')
  end

  -- Set the fifth value of the entries of `requeue`, where it is true, to how the job crashed (see `crash_of`), or to
  -- false if another job of its worker ran alone.
  function my.assign(config, time, entries)
    local alone = {}
    for _, entry in ipairs(entries) do
      alone[entry[4]] = alone[entry[4]] or crash_of(config, time, entry[7], entry[3]) == 'alone'
    end
    for _, entry in ipairs(entries) do
      if entry[5] == true then
        local how = crash_of(config, time, entry[7], entry[3])
        entry[5] = (how ~= 'shared' or not alone[entry[4]]) and how
      end
    end
  end

  -- The counts of a job, see `counted`, after it came back.
  function my.counted_after(config, time, entry, tries)
    local failures, crashes, doubtful = counted(tries)
    local how = entry[5]
    if my.is_cleared(config, time, entry[3], entry[6]) then crashes, doubtful = 0, 0 end
    return failures, crashes + (how and 1 or 0), doubtful + (how and not is_own(how) and 1 or 0)
  end

  -- What a worker holds, as claims {claimed, kind, doubtful}.
  function my.held(worker)
    local held, ids, claims = call('HGETALL', key('held:' .. worker)), {}, {}
    for i = 1, #held, 2 do ids[#ids + 1] = held[i] end
    for n, tries in ipairs(#ids > 0 and call('HMGET', key('tries'), unpack(ids)) or {}) do
      local claimed, kind = string.match(held[2 * n], '^%d+ (%d+) ?(%w*)')
      local _, _, doubtful = counted(tries)
      claims[n] = { claimed, kind or '', doubtful }
    end
    return claims
  end

  function my.tries_text(failures, crashes, doubtful)
    return failures .. ' ' .. crashes .. (crashes > doubtful and ' ' .. crashes - doubtful or '')
  end
end }, lazy)
