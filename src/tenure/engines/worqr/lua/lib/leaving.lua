-- lib leaving: tasks that go to a queue of another protocol.
--@include hold uniques
local leaving = {
  forget_marks = free_last,
  id_of = function(_, move, token) return string.match(new_pid(token, move), '[^_]*$') end,
}
