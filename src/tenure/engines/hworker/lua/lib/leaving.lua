-- lib leaving: jobs that go to a queue of another protocol.
--@include hold
local leaving = {
  forget_marks = nothing,
  -- The id of a job in a queue of another protocol. If two jobs have one id, the later moves under the hash of its
  -- bytes and token.
  id_of = function(data, move, token, there)
    local id = name_of(data)
    if there[id] or records.of(id) then id = redis.sha1hex(move .. ' ' .. digits(token) .. ' ' .. data) end
    return id
  end,
}
