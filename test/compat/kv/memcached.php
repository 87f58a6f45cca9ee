<?php
// PECL memcached: serialised values, cas tokens, delayed fetches, many keys, counters, errors by number.
$m = new Memcached();
$m->setOption(Memcached::OPT_TCP_NODELAY, true);
$m->addServer(getenv('KV_HOST'), (int)getenv('KV_PORT'));

function step($name) { echo "== $name\n"; }
function show(...$values) { global $m; echo json_encode($values), ' ', $m->getResultCode(), ' ', $m->getResultMessage(), "\n"; }

step('types');
show($m->flush());
foreach (['text', 42, 1.5, true, null, ['a' => [1, 2]], str_repeat('long ', 4000)] as $value) {
    show($m->set('t', $value, 60), $m->get('t') === $value);
}
step('conditions');
show($m->add('a', 1)); show($m->add('a', 2)); show($m->replace('a', 3)); show($m->replace('none', 3));
$m->setOption(Memcached::OPT_COMPRESSION, false);
show($m->set('s', 'x'), $m->append('s', 'y'), $m->prepend('s', 'w'), $m->get('s'));
show($m->append('none', 'y'));
step('numbers');
show($m->set('n', 5), $m->increment('n'), $m->increment('n', 10), $m->decrement('n', 100), $m->get('n'));
show($m->increment('none'));
step('versions');
$found = $m->get('s', null, Memcached::GET_EXTENDED);
show($found['value'], $m->cas($found['cas'], 's', 'new'));
show($m->cas($found['cas'], 's', 'newer'));
show($m->get('s'));
step('many');
$all = [];
for ($i = 0; $i < 200; $i++) { $all["m$i"] = $i; }
show($m->setMulti($all, 100));
$found = $m->getMulti(['m0', 'm199', 'none'], Memcached::GET_PRESERVE_ORDER);
show($found, count($m->getMulti(array_keys($all))));
show($m->deleteMulti(['m0', 'm1', 'none']));
step('delayed');
show($m->getDelayed(['m2', 'm3'], false));
$rows = $m->fetchAll(); usort($rows, fn($a, $b) => strcmp($a['key'], $b['key']));
show(array_column($rows, 'value'));
step('gone');
show($m->delete('a')); show($m->delete('a')); show($m->touch('s', 50)); show($m->touch('a', 50)); show($m->get('a'));
step('limits');
show(strlen($m->get('none2') ?: ''), $m->set(str_repeat('k', 251), 1));
show($m->set('large', str_repeat('x', 1000000)), strlen($m->get('large')));
show($m->set('more', random_bytes(1500000)));
show($m->get('more'));
step('callback');
show($m->get('made', function ($m, $key, &$value, &$expiry) { $value = "made $key"; $expiry = 30; return true; }), $m->get('made'));
step('buffered');
$m->setOption(Memcached::OPT_BUFFER_WRITES, true);
for ($i = 0; $i < 50; $i++) { $m->set("w$i", (string)$i); }
// A get sends them first.
show($m->get('w0'), $m->get('w49'), count($m->getVersion()));
$m->setOption(Memcached::OPT_BUFFER_WRITES, false);
step('noreply');
$m->setOption(Memcached::OPT_NOREPLY, true);
$m->set('quiet', 'yes'); $m->delete('w0');
$m->setOption(Memcached::OPT_NOREPLY, false);
show($m->get('quiet'), $m->get('w0'));
$m->quit();
