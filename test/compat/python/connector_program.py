"""MySQL Connector/Python: prepared cursors, pools with reset, buffered/dictionary cursors. The argument
`pure` or `c` says which of its two implementations runs."""

import sys

if sys.argv[1] == "c":
    # Its wheel brings an OpenSSL of its own, which loads only before the system's.
    import _mysql_connector  # noqa: F401

import mysql.connector
import mysql.connector.pooling

import dbapi
from steps import DATABASE, HOST, PASSWORD, PORT, TLS, USER, run, say, step

OPTIONS = dict(host=HOST, port=PORT, user=USER, password=PASSWORD, database=DATABASE, charset="utf8mb4",
               use_pure=sys.argv[1] == "pure", ssl_disabled=not TLS, allow_local_infile=True)


def connect(**changes):
    return mysql.connector.connect(**{**OPTIONS, **changes})


dbapi.register(mysql.connector, connect)


@step
def prepared():
    connection = connect()
    cursor = connection.cursor(prepared=True)
    cursor.execute("CREATE TABLE prepared_ (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(50), data LONGBLOB)")
    for name in ["a", "ü🧵", None]:
        cursor.execute("INSERT INTO prepared_ (name, data) VALUES (?, ?)", (name, b"\x00\xff" * 5))
        say(cursor.lastrowid, cursor.rowcount)
    connection.commit()
    for number in range(1, 4):
        cursor.execute("SELECT name, data FROM prepared_ WHERE id = ?", (number,))
        say(cursor.fetchall())
    cursor.close()
    connection.close()


@step
def pool():
    pool = mysql.connector.pooling.MySQLConnectionPool(pool_name="p", pool_size=3, pool_reset_session=True, **OPTIONS)
    for _ in range(5):
        connection = pool.get_connection()
        cursor = connection.cursor(buffered=True, dictionary=True)
        cursor.execute("SELECT @left_over AS left_over, @@time_zone AS zone, DATABASE() AS db")
        say(cursor.fetchall()[0]["left_over"])
        cursor.execute("SET @left_over = 1, time_zone = '+05:00'")
        cursor.close()
        connection.close()


@step
def reset_and_change_user():
    connection = connect()
    connection.cmd_query("SET @x = 1, SESSION wait_timeout = 1234")
    try:
        # The driver refuses this on MariaDB 10, whose version it reads as 5.5.5.
        connection.reset_session(user_variables={"kept": 7}, session_variables={"wait_timeout": 999})
        cursor = connection.cursor()
        cursor.execute("SELECT @x, @kept, @@wait_timeout")
        say(cursor.fetchall())
    except (ValueError, mysql.connector.Error) as error:
        say(type(error).__name__)
    connection.cmd_change_user(USER, PASSWORD, "information_schema")
    cursor = connection.cursor()
    cursor.execute("SELECT DATABASE(), @kept, @@wait_timeout = @@global.wait_timeout")
    say(cursor.fetchall())
    connection.ping(reconnect=False)
    connection.cmd_init_db(DATABASE)
    say(connection.is_connected(), connection.in_transaction, connection.database)
    connection.close()


@step
def warnings_and_multi():
    connection = connect(get_warnings=True)
    cursor = connection.cursor()
    cursor.execute("SELECT 1 / 0")
    say(cursor.fetchall(), cursor.warnings)
    cursor.execute("SELECT 1; SELECT 2, 3; SELECT 'x'")
    say(cursor.fetchall())
    while cursor.nextset():
        say(cursor.fetchall())
    connection.start_transaction(isolation_level="READ COMMITTED")
    cursor.execute("SELECT @@tx_isolation, @@in_transaction")
    say(cursor.fetchall(), connection.in_transaction)
    connection.rollback()
    connection.close()


run()
