-- lib limiting: the libs of limits. Few queues have limits, so their functions are made by a call that meets some.
-- Sets: make_limits.
--@include lazy clock
make_limits = function()
--@include gates limits reservations openlanes places starts
end
