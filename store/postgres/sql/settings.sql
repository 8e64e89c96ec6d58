-- Settings of one transaction of the store: how long it may wait, and shapes
-- of plans that stay right while tables grow from nothing.
-- It returns the clock, for replies that read none of their own.
-- $1 lock timeout, $2 statement timeout, $3 idle timeout, all in milliseconds.
select clock_timestamp(), set_config('lock_timeout', $1::text, true),
       set_config('statement_timeout', $2::text, true),
       set_config('idle_in_transaction_session_timeout', $3::text, true),
       set_config('synchronous_commit', case when current_setting('synchronous_commit') = 'off' then 'on'
                                             else current_setting('synchronous_commit') end, true),
       set_config('plan_cache_mode', 'force_generic_plan', true),
       set_config('enable_seqscan', 'off', true),
       set_config('enable_bitmapscan', 'off', true),
       set_config('enable_mergejoin', 'off', true),
       set_config('jit', 'off', true)
