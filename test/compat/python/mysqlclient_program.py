"""mysqlclient (MySQLdb over MariaDB Connector/C): server-side cursors, escaping, change_user, ping."""

import os

import MySQLdb
import MySQLdb.cursors
from MySQLdb.constants import CLIENT

import dbapi
from steps import DATABASE, FOLDER, HOST, PASSWORD, PORT, TLS, USER, run, say, step


def connect(**changes):
    options = dict(host=HOST, port=PORT, user=USER, password=PASSWORD, database=DATABASE, charset="utf8mb4",
                   local_infile=1, client_flag=CLIENT.MULTI_RESULTS)
    options.update({"ssl_mode": "REQUIRED"} if TLS else {})
    options.update(changes)
    return MySQLdb.connect(**options)


dbapi.register(MySQLdb, connect)


@step
def streaming():
    connection = connect(cursorclass=MySQLdb.cursors.SSDictCursor)
    cursor = connection.cursor()
    cursor.execute("SELECT seq FROM compat_numbers.seq_1_to_20000")
    say(cursor.fetchone(), sum(row["seq"] for row in cursor))
    cursor.close()
    cursor = connection.cursor()
    cursor.execute("SELECT 'again' AS word")
    say(cursor.fetchall())
    cursor.close()
    connection.close()


@step
def multi_statements():
    connection = connect(client_flag=CLIENT.MULTI_STATEMENTS | CLIENT.MULTI_RESULTS)
    cursor = connection.cursor()
    cursor.execute("SELECT 1; SELECT 2, 3; SET @z = 9; SELECT @z")
    say(cursor.fetchall())
    while cursor.nextset() == 1:
        say(cursor.fetchall())
    cursor.close()
    connection.close()


@step
def connection_calls():
    connection = connect()
    connection.ping()
    connection.autocommit(True)
    say(connection.get_autocommit(), connection.character_set_name(), connection.get_proto_info())
    say(connection.get_server_info(), connection.field_count(), connection.affected_rows())
    connection.query("SELECT 1 / 0")
    connection.store_result()
    say(connection.warning_count(), connection.show_warnings() if hasattr(connection, "show_warnings") else None)
    connection.select_db("mysql")
    connection.query("SELECT DATABASE()")
    say(connection.store_result().fetch_row(0))
    connection.change_user(USER, PASSWORD, DATABASE)
    connection.query("SELECT DATABASE(), @x, @@autocommit")
    say(connection.store_result().fetch_row(0))
    say(connection.stat().startswith("Uptime"))
    before = connection.thread_id()
    connection.query("SELECT CONNECTION_ID()")
    say(connection.store_result().fetch_row(0) == ((before,),))
    connection.close()


@step
def load_data_local():
    path = os.path.join(FOLDER, "mysqlclient.csv")
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(f"{number}\tname {number}\n" for number in range(5000))
    connection = connect(autocommit=True)
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE loaded (n INT, name VARCHAR(20))")
    say(cursor.execute(f"LOAD DATA LOCAL INFILE '{path}' INTO TABLE loaded"), connection.info())
    cursor.execute("SELECT COUNT(*), SUM(n) FROM loaded")
    say(cursor.fetchall())
    connection.close()


run()
