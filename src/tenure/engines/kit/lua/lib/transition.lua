-- lib transition: the beginning of an operation that changes jobs; `session` and `number` are bound before it. It runs at the
-- memory limit, too; a call that is sent again ends here; and the types of the keys are checked before the first write.
allow_when_full()
--@include once
check_types()
