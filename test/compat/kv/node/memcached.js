// Node memcached: callbacks, many keys, cas, errors; connections by the pool.
const Memcached = require('memcached')

const client = new Memcached(`${process.env.KV_HOST}:${process.env.KV_PORT}`, { poolSize: 4, retries: 0 })
const call = (name, ...words) => new Promise((done) => {
  client[name](...words, (error, data) => done(error ? `error: ${error.message ?? error}` : data))
})
const step = (name) => console.log(`== ${name}`)
const show = (...values) => console.log(JSON.stringify(values))

async function main () {
  step('basics')
  show(await call('flush'), await call('get', 'a'), await call('set', 'a', 'text', 60), await call('get', 'a'))
  show(await call('set', 'o', { a: [1, null, 'ü'] }, 60), await call('get', 'o'), await call('set', 'n', 42, 0), await call('get', 'n'))
  const bytes = Buffer.from([0, 255, 13, 10, 0])
  await call('set', 'bytes', bytes, 60)
  show((await call('get', 'bytes')).equals(bytes))
  show(await call('add', 'a', 'x', 0), await call('replace', 'none', 'x', 0), await call('append', 'a', '!'), await call('prepend', 'a', '?'), await call('get', 'a'))
  show(await call('touch', 'a', 100), await call('touch', 'none', 100), await call('del', 'a'), await call('del', 'a'))
  step('numbers')
  show(await call('incr', 'n', 5), await call('decr', 'n', 100), await call('incr', 'none', 1))
  step('versions')
  await call('set', 'v', 'one', 0)
  const { cas } = await call('gets', 'v')
  show(await call('cas', 'v', 'two', cas, 0), await call('cas', 'v', 'three', cas, 0), await call('get', 'v'))
  step('many')
  await Promise.all(Array.from({ length: 300 }, (_, i) => call('set', `m${i}`, `value ${i}`, 100)))
  const found = await call('getMulti', Array.from({ length: 310 }, (_, i) => `m${i}`))
  show(Object.keys(found).length, found.m299)
  step('limits')
  show(await call('set', 'k'.repeat(251), 'x', 0))
  const large = 'x'.repeat(1000000)
  show(await call('set', 'large', large, 0), (await call('get', 'large')).length)
  client.end()
}

main().catch((error) => {
  console.log(error)
  process.exit(1)
})
