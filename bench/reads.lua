-- Point selects of sessions that have written once, at a level of consistency; some may write on.
-- Heddle's own variables are set per session, so both levels meet the same farm.

sysbench.cmdline.options = {
  level = {"heddle_consistency of the sessions", "session"},
  writes = {"Updates per 1,000 reads", 0},
  tables = {"Number of tables", 4},
  table_size = {"Rows per table", 50000},
}

function thread_init()
  con = sysbench.sql.driver():connect()
  con:query("SET heddle_consistency = '" .. sysbench.opt.level .. "'")
  con:query("SET heddle_max_lag_ms = 4294967295")
  write()
end

function write()
  con:query(string.format("UPDATE sbtest%d SET k = k + 1 WHERE id = %d",
    sysbench.rand.uniform(1, sysbench.opt.tables), sysbench.rand.uniform(1, sysbench.opt.table_size)))
end

function event()
  if sysbench.opt.writes > 0 and sysbench.rand.uniform(1, 1000) <= sysbench.opt.writes then
    write()
  end
  con:query(string.format("SELECT c FROM sbtest%d WHERE id = %d",
    sysbench.rand.uniform(1, sysbench.opt.tables), sysbench.rand.uniform(1, sysbench.opt.table_size)))
end

function thread_done()
  con:disconnect()
end
