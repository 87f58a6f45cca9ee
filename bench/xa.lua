-- Transactions of two updates. `kind`:
--   one      both in the table `near`, whose rows are all on one group
--   cross    one transaction over two groups: a row of `wide` on each
--   apart    the same two updates, each in a transaction of its own

sysbench.cmdline.options = {
  kind = {"one, cross or apart", "one"},
  rows = {"Rows per group", 10000},
}

function thread_init()
  con = sysbench.sql.driver():connect()
end

local function update(what, from)
  local id = from + sysbench.rand.uniform(0, sysbench.opt.rows - 1)
  con:query(string.format("UPDATE %s SET amount = amount + 1 WHERE id = %d", what, id))
end

function event()
  local kind, rows = sysbench.opt.kind, sysbench.opt.rows
  con:query("BEGIN")
  if kind == "one" then
    update("near", 0)
    update("near", 0)
  else
    update("wide", 0)
    if kind == "apart" then
      con:query("COMMIT")
      con:query("BEGIN")
    end
    update("wide", rows)
  end
  con:query("COMMIT")
end

function thread_done()
  con:disconnect()
end
