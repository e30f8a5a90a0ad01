-- lib starts: whether a job may start under its limits, and what its start uses of them. A part of `claim`.
-- Needs: gates, has_places, limits, open_lanes, places, rates, reservations, shapes. Sets: starts.
starts = {}
do
  local my = starts
  -- The limit that stops a job, and the moment from which on it does not (nil: when a lease ends); nil: it may start.
  -- `entered`: its lane was opened, or a job before it in this turn has started; other lanes wait behind those at the
  -- gate. `lane`: of the job; nil for a suspect. An error instead of a name: another program's data is in the place of
  -- a key.
  function my.stopped_by(word, entered, time, micros, lane)
    for _, limit in ipairs(limits.of(word)) do
      local state = limits.state(limit.name)
      if state.refused then return state.refused end
      local stops, moment = rates.stops(limit, state, limit.cost, time, micros,
        reservations.kept_from(lane, limit.name, state, time))
      if state.is_cut then
        rates.write(limit.name, state, time, micros)
        state.is_cut = nil
      end
      if stops then return limit.name, (entered or state.gated == 0) and moment or nil end
      if not entered and state.gated > 0 then return limit.name end
    end
  end

  -- Whether a limit stops a suspect. One claim takes one with limits (`entered`: there was one), since each uses of its
  -- limits what the next one may not. Returns also `entered` for the next one.
  function my.stops_suspect(shape, entered, time, micros)
    if not has_places(shape) then return false, entered end
    local name, moment = my.stopped_by(shapes.word(shape, 'm'), true, time, micros)
    if type(name) == 'string' then gates.shut_suspects(name, moment) end
    return entered or name ~= nil, entered or name == nil
  end

  -- Note that a job has started under this token. If there is room for more, the next lane at the gate is opened.
  function my.note(shape, token, time, micros)
    local word, lane = shapes.word(shape, 'm'), shapes.lane_of(shape)
    for _, limit in ipairs(limits.of(word)) do
      local name, state = limit.name, limits.state(limit.name)
      local most = limits.numbers(limit, state)
      state.taken = state.taken + places.take(limit, token, most)
      local used = rates.used_after(limit, state, micros, limit.cost)
      if used then
        state.used_until = used
        rates.write(name, state, time, micros)
      end
      if reservations.used(lane, name, state) then
        limits.forget(name)
        open_lanes.open_all(name)
      elseif state.gated > 0 then
        local stops, moment = rates.stops(limit, state, 1, time, micros, 0)
        if not stops then
          limits.forget(name)
          open_lanes.open(prefix, name)
        elseif moment then
          gates.note_moment(name, moment)
        end
      end
    end
  end
end
