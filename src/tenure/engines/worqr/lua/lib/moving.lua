-- lib moving: tasks that go to a queue of another protocol.
--@include hold uniques
local moving = {
  forget_marks = free_last,
  id_of = function(_, move, token) return string.match(new_pid(token, move), '[^_]*$') end,
}
