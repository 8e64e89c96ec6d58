-- As settings.sql, for claims, takeovers and renewals: a crash may lose them,
-- and with them nothing that was promised.
select clock_timestamp(), set_config('lock_timeout', $1::text, true),
       set_config('statement_timeout', $2::text, true),
       set_config('idle_in_transaction_session_timeout', $3::text, true),
       set_config('synchronous_commit', 'off', true),
       set_config('plan_cache_mode', 'force_generic_plan', true),
       set_config('enable_seqscan', 'off', true),
       set_config('enable_bitmapscan', 'off', true),
       set_config('enable_mergejoin', 'off', true),
       set_config('jit', 'off', true)
