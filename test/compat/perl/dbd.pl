# DBI as Perl applications use it; the argument is the driver: DBD::mysql or DBD::MariaDB.
use strict;
use warnings;
use utf8;
use DBI qw(:sql_types);
use Time::HiRes qw(time sleep);

binmode STDOUT, ':utf8';
$| = 1;
my ($module) = @ARGV;
my $driver = $module =~ s/^DBD:://r;
my $prefix = lc $driver;

sub connected {
  my (%options) = @_;
  my $database = delete $options{database} // $ENV{COMPAT_DATABASE};
  my $more = delete $options{dsn} // '';
  my $password = delete $options{password} // $ENV{COMPAT_PASSWORD};
  my $dsn = "DBI:$driver:database=$database;host=$ENV{COMPAT_HOST};port=$ENV{COMPAT_PORT}$more";
  # Over MariaDB's client library the modules cannot insist on TLS; Heddle does.
  $dsn .= ";${prefix}_ssl=1;${prefix}_ssl_optional=1" if $ENV{COMPAT_TLS};
  my %utf8 = $driver eq 'mysql' ? (mysql_enable_utf8mb4 => 1) : ();
  return DBI->connect($dsn, $ENV{COMPAT_USER}, $password, {RaiseError => 1, PrintError => 0, %utf8, %options});
}

sub shown {
  my ($value) = @_;
  return 'undef' if !defined $value;
  return '[' . join(', ', map { shown($_) } @$value) . ']' if ref $value;
  return $value =~ /[^\x20-\x{10FFFF}]/ ? '0x' . unpack('H*', $value) : "'$value'";
}

sub say_ { print join(' ', map { shown($_) } @_), "\n"; return }

sub failing {
  my ($handle, $what) = @_;
  eval { $what->(); 1 } and return say_('no error');
  return say_($handle->err, $handle->state, $handle->errstr);
}

my @steps = (
  connects => sub {
    my $db = connected();
    say_($db->selectrow_array('SELECT DATABASE(), @@autocommit'));
    say_($db->ping, $db->{"${prefix}_serverinfo"}, $db->{"${prefix}_protoinfo"} // 'none');
    say_($db->selectrow_array('SELECT CONNECTION_ID()') == $db->{"${prefix}_thread_id"} || 'other id');
    $db->disconnect;
  },
  values_emulated => sub { values_of(0) },
  values_server => sub { values_of(1) },
  transactions => sub {
    my ($db, $other) = (connected(AutoCommit => 0), connected());
    $db->do('CREATE TABLE account (id INT PRIMARY KEY, balance INT)');
    $db->do('INSERT INTO account VALUES (1, 100), (2, 0)');
    say_($other->selectrow_array('/*ms=master*/ SELECT COUNT(*) FROM account'));
    $db->commit;
    say_($other->selectrow_array('/*ms=master*/ SELECT COUNT(*) FROM account'));
    say_($db->do('DELETE FROM account'));
    $db->rollback;
    say_($db->selectrow_array('SELECT COUNT(*) FROM account'));
    $db->commit;
    $db->{AutoCommit} = 1;
    $db->begin_work;
    say_($db->do('UPDATE account SET balance = balance'));
    $db->rollback;
    say_($db->{AutoCommit}, $db->selectall_arrayref('SELECT * FROM account ORDER BY id'));
    $_->disconnect for $db, $other;
  },
  errors => sub {
    my $db = connected();
    for my $text ('SELECT * FROM not_there', 'SELEC', 'INSERT INTO account VALUES (1, 1)', 'USE no_such_database', 'CALL no_such_routine()', 'SELECT 1; SELECT 2') {
      print "$text: ";
      failing($db, sub { $db->do($text) });
    }
    for my $options ({password => 'wrong'}, {database => 'no_such_database'}) {
      eval { connected(%$options); 1 } ? say_('no error') : say_($DBI::err, $DBI::errstr);
    }
    $db->do("SET sql_mode = ''");
    $db->do("INSERT INTO account VALUES (3, 'x')");
    say_($db->{"${prefix}_warning_count"} // 'none', $db->selectall_arrayref('SHOW WARNINGS'));
  },
  ids_and_counts => sub {
    my $db = connected();
    $db->do('CREATE TABLE item (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(20))');
    my $insert = $db->prepare('INSERT INTO item (name) VALUES (?)');
    for my $name (qw(a b c)) {
      $insert->execute($name);
      say_($insert->rows, $db->last_insert_id(undef, undef, 'item', 'id'), $db->{"${prefix}_insertid"});
    }
    say_($insert->execute_array({}, [map { "n$_" } 1 .. 50]));
    say_($db->selectrow_array('SELECT COUNT(*), LAST_INSERT_ID() FROM item'), $db->{"${prefix}_info"} // 'none');
  },
  procedures => sub {
    my $db = connected(dsn => $driver eq 'mysql' ? ';mysql_multi_statements=1' : ';mariadb_multi_statements=1');
    $db->do('CREATE PROCEDURE several(IN n INT, OUT doubled INT) BEGIN SELECT n; SELECT n + 1, "ü"; SET doubled = n * 2; END');
    my $call = $db->prepare('CALL several(21, @d)');
    $call->execute;
    do {
      say_($call->fetchall_arrayref) if $call->{NUM_OF_FIELDS};
    } while $call->more_results;
    $call->finish;
    say_($db->selectrow_array('SELECT @d'));
    my $several = $db->prepare('SELECT 1; SELECT 2, 3; SET @z = 4; SELECT @z');
    $several->execute;
    do {
      say_($several->{NUM_OF_FIELDS} ? $several->fetchall_arrayref : $several->rows);
    } while $several->more_results;
  },
  streaming => sub {
    my $db = connected();
    # DBD::MariaDB gives no rows with its own use_result, on any server.
    my $unbuffered = $driver eq 'mysql' ? {mysql_use_result => 1} : {};
    my $select = $db->prepare('SELECT seq, REPEAT("x", 100) FROM compat_numbers.seq_1_to_20000', $unbuffered);
    $select->execute;
    my $sum = 0;
    while (my $row = $select->fetchrow_arrayref) { $sum += $row->[0] }
    say_($sum);
    $select->execute;
    $select->fetchrow_arrayref;
    $select->finish;
    say_($db->selectrow_array('SELECT "alive"'));
  },
  session => sub {
    my $db = connected();
    $db->do('SET @x = 5, time_zone = "+03:00"');
    $db->do('CREATE TEMPORARY TABLE scratch (n INT)');
    $db->do('INSERT INTO scratch VALUES (1), (2)');
    say_($db->selectrow_array('SELECT @x, @@time_zone, (SELECT SUM(n) FROM scratch)'));
    $db->do('USE information_schema');
    say_($db->selectrow_array('SELECT DATABASE()'));
    my @tables = grep { /account/ } connected()->tables(undef, $ENV{COMPAT_DATABASE}, '%', 'TABLE');
    say_(scalar @tables);
  },
  load_data_local => sub {
    my $db = connected(dsn => $driver eq 'mysql' ? ';mysql_local_infile=1' : ';mariadb_local_infile=1');
    my $path = "$ENV{COMPAT_FOLDER}/perl.tsv";
    open my $file, '>', $path or die;
    print {$file} "$_\tname $_\n" for 1 .. 3000;
    close $file;
    $db->do('CREATE TABLE loaded (n INT, name VARCHAR(20))');
    say_($db->do("LOAD DATA LOCAL INFILE '$path' INTO TABLE loaded"));
    say_($db->selectrow_array('SELECT COUNT(*), SUM(n) FROM loaded'));
  },
  killed => sub {
    my ($db, $killer) = (connected(), connected());
    my $id = $db->{"${prefix}_thread_id"};
    my $pid = fork // die;
    if (!$pid) {
      $db->{InactiveDestroy} = $killer->{InactiveDestroy} = 1;
      my $own = connected();
      for (1 .. 30) { sleep 0.3; $own->do("KILL QUERY $id") }
      exit 0;
    }
    my $begin = time;
    eval { $db->selectrow_array('SELECT SLEEP(20)') };
    kill 'TERM', $pid;
    waitpid $pid, 0;
    say_(time - $begin < 15 ? 'ended early' : 'too late', $killer->selectrow_array('SELECT "alive"'));
  },
);

sub values_of {
  my ($server) = @_;
  my $db = connected("${prefix}_server_prepare" => $server);
  $db->do('DROP TABLE IF EXISTS everything');
  $db->do('CREATE TABLE everything (id INT AUTO_INCREMENT PRIMARY KEY, tiny TINYINT, big BIGINT UNSIGNED, dec_ DECIMAL(30,6),
    dbl DOUBLE, txt TEXT CHARACTER SET utf8mb4, bin VARBINARY(300), moment DATETIME(6), doc JSON, nothing INT)');
  my $bin = join '', map { chr } 0 .. 255;
  my $insert = $db->prepare('INSERT INTO everything (tiny, big, dec_, dbl, txt, bin, moment, doc, nothing) VALUES (?,?,?,?,?,?,?,?,?)');
  my $n = 0;
  for my $value (-128, '18446744073709551615', '-12345678901234567.890123', 0.25, "naïve 日本語 🧵 'q' \\", $bin,
    '1999-12-31 23:59:59.123456', '{"a": [1, null, "x"]}', undef) {
    $n++;
    $insert->bind_param($n, $value, $n == 6 ? SQL_BLOB : SQL_VARCHAR);
  }
  say_($insert->execute, $db->{"${prefix}_insertid"});
  my $select = $db->prepare('SELECT id, tiny, big, dec_, dbl, txt, HEX(bin), moment, doc, nothing FROM everything WHERE txt = ?');
  $select->execute("naïve 日本語 🧵 'q' \\");
  say_($select->{NAME}, $select->{TYPE}, $select->{PRECISION}, $select->{NULLABLE});
  say_($select->{"${prefix}_type_name"}, $select->{"${prefix}_is_auto_increment"}, $select->{"${prefix}_length"});
  say_($_) for @{$select->fetchall_arrayref};
  $db->disconnect;
  return;
}

while (my ($name, $step) = splice @steps, 0, 2) {
  print "== $name\n";
  eval { $step->(); 1 } or print 'unexpected: ', $@ =~ s/ at \S+ line \d+\.?\s*$//r, "\n";
}
