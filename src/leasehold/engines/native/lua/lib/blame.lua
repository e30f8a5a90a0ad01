-- lib blame: which jobs a death counts against, and how their crashes are counted. See docs/decisions/0008-crashes.md.
--@include rare company

local blame = setmetatable({ function(my)
  -- A persistent job is cleared when it has run for a while: it has no end that could clear it.
  local function is_cleared(config, time, claimed, shape)
    return shape ~= '' and shapes.word(shape, 'k') ~= nil and is_steady(config, time, claimed, '')
  end

  -- Set the fifth of entries as `put_back` takes them, where it is true, to how they crashed (see `crash_of`), or to false for
  -- what ran beside one that ran alone.
  local function assign_blame(config, time, entries)
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

  -- The counts of a job (see `counted`) after it came back.
  local function counted_after(config, time, entry, tries)
    local failures, crashes, doubtful = counted(tries)
    local how = entry[5]
    if is_cleared(config, time, entry[3], entry[6]) then
      crashes, doubtful = 0, 0
    end
    return failures, crashes + (how and 1 or 0), doubtful + (how and not is_own(how) and 1 or 0)
  end

  local function tries_text(failures, crashes, doubtful)
    return failures .. ' ' .. crashes .. (crashes > doubtful and ' ' .. crashes - doubtful or '')
  end

  my.is_cleared = is_cleared
  my.assign = assign_blame
  my.counted_after = counted_after
  my.tries_text = tries_text
end }, unmade)
